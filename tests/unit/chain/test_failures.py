"""Node errors are sorted by their words, and an RPC address never shows more than its host."""

from __future__ import annotations

import pytest

from chainmemory.chain.failures import Refusal, classify, public_name, scrub

SECRET_URL = "https://user:hunter22@rpc.example.org:8545/v3/0123456789abcdef?key=topsecretvalue"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("already known", Refusal.ALREADY_KNOWN),  # geth
        ("transaction already imported", Refusal.ALREADY_KNOWN),  # anvil
        ("Known transaction", Refusal.ALREADY_KNOWN),  # Besu
        ("AlreadyKnown", Refusal.ALREADY_KNOWN),  # Nethermind
        ("nonce too low: next nonce 5, tx nonce 4", Refusal.NONCE_TOO_LOW),  # geth
        ("Nonce too low", Refusal.NONCE_TOO_LOW),  # Besu
        ("OldNonce, Current nonce: 5, nonce of rejected tx: 4", Refusal.NONCE_TOO_LOW),  # Nethermind
        ("Invalid transaction nonce: Expected 5, but got 4", Refusal.NONCE_TOO_LOW),  # eth-tester
        ("Invalid transaction nonce: Expected 5, but got 9", Refusal.NONCE_TOO_HIGH),  # eth-tester
        ("nonce too high", Refusal.NONCE_TOO_HIGH),
        ("Transaction nonce is too distant from current sender nonce", Refusal.NONCE_TOO_HIGH),  # Besu
        ("replacement transaction underpriced", Refusal.REPLACEMENT_UNDERPRICED),  # geth
        ("ReplacementNotAllowed", Refusal.REPLACEMENT_UNDERPRICED),  # Nethermind
        ("transaction underpriced: tip needed 1, tip permitted 0", Refusal.UNDERPRICED),  # geth
        ("max fee per gas less than block base fee", Refusal.UNDERPRICED),  # geth
        ("Gas price below configured minimum gas price", Refusal.UNDERPRICED),  # Besu
        ("insufficient funds for gas * price + value", Refusal.INSUFFICIENT_FUNDS),  # geth
        ("Upfront cost exceeds account balance", Refusal.INSUFFICIENT_FUNDS),  # Besu
        (
            "Sender b'..' cannot afford txn gas 21000 with account balance 0",
            Refusal.INSUFFICIENT_FUNDS,
        ),  # py-evm
        ("exceeds block gas limit", Refusal.GAS_LIMIT),  # geth
        ("intrinsic gas too low", Refusal.GAS_LIMIT),
        ("invalid chain id for signer: have 5 want 1", Refusal.WRONG_CHAIN),
        ("the moon is in the wrong house", Refusal.OTHER),
    ],
)
def test_each_clients_words_are_understood(words: str, refusal: Refusal) -> None:
    assert classify(words) is refusal


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (SECRET_URL, "rpc.example.org:8545"),
        ("http://127.0.0.1:8421", "127.0.0.1:8421"),
        ("https://rpc.example.org/secret-path", "rpc.example.org"),
        ("http://[::1]:8545/x", "[::1]:8545"),
        ("http://key@host:notaport/", "host"),
    ],
)
def test_only_host_and_port_of_an_address_are_shown(url: str, name: str) -> None:
    assert public_name(url) == name


def test_scrub_cuts_every_part_of_the_address_and_bounds_the_text() -> None:
    said = f"POST {SECRET_URL} failed; key topsecretvalue, project 0123456789abcdef, as hunter22 " + "x" * 999

    clean = scrub(said, SECRET_URL)

    for secret in ("hunter22", "0123456789abcdef", "topsecretvalue", "user:"):
        assert secret not in clean
    assert len(clean) <= 300
