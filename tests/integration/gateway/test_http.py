"""The gateway against nodes that misbehave over HTTP: sorted errors, and no credential in any of them."""

from __future__ import annotations

import json
import socket
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from chainmemory.chain.failures import (
    CallReverted,
    ChainUnavailable,
    NodeRefused,
    Refusal,
    TransactionRefused,
)
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.types import FeeMarket
from tests.support.chains import Door, error, result

SECRETS = ("hunter22", "secret-path", "topsecret", "user:")
BLOCK = {
    "number": "0x7",
    "hash": "0x" + "11" * 32,
    "parentHash": "0x" + "22" * 32,
    "timestamp": "0x64",
    "gasLimit": "0x1c9c380",
    "baseFeePerGas": "0x3b9aca00",
    # As long as a Clique seal makes it: more than the 32 bytes web3 accepts by itself.
    "extraData": "0x" + "00" * 97,
    "transactions": [],
}


@pytest.fixture
def door() -> Iterator[Door]:
    """Give a door without a node behind it: the test answers everything."""
    made = Door("http://127.0.0.1:1/")
    yield made
    made.close()


@pytest.fixture
def gateway(door: Door) -> Gateway:
    return Gateway(door.url, timeout_s=0.5)


def _refused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _clean(failure: pytest.ExceptionInfo[Any]) -> str:
    """Return an error's text, having checked that nothing a log would show of it holds a credential."""
    shown = "".join(traceback.format_exception(failure.value))
    assert not [secret for secret in SECRETS if secret in shown]
    text = str(failure.value)
    assert not [secret for secret in SECRETS if secret in text]
    assert not [secret for secret in SECRETS if secret in repr(failure.value)]
    return text


def test_a_closed_port_is_unreachable_under_its_public_name() -> None:
    port = _refused_port()
    gateway = Gateway(f"http://user:hunter22@127.0.0.1:{port}/secret-path?key=topsecret")

    with pytest.raises(ChainUnavailable) as failure:
        gateway.chain_id()

    assert f"127.0.0.1:{port}" in _clean(failure)
    assert "hunter22" not in repr(gateway)


def test_a_node_that_never_answers_is_given_up_in_time(door: Door, gateway: Gateway) -> None:
    def hang(request: dict[str, Any]) -> tuple[int, bytes]:
        time.sleep(2)
        return result(request, "0x1")

    door.behave = hang
    gateway.client_version  # noqa: B018 - loads nothing, asks nothing
    started = time.monotonic()

    with pytest.raises(ChainUnavailable) as failure:
        gateway.chain_id()

    assert "in time" in _clean(failure)
    # web3 is imported meanwhile, which takes longer than the wait.
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>please log in at http://user:hunter22@x/secret-path</html>"),
        (200, b""),
        (200, b"null"),
        (200, b"[]"),
        (200, b'"0x1"'),
        (200, b'{"jsonrpc":"2.0","id":0}'),
        (200, b'{"jsonrpc":"2.0","id":0,"result":"<html>"}'),
        (200, b'{"jsonrpc":"2.0","id":0,"result":null}'),
        (200, b"\xff\xfe"),
        (429, b"slow down"),
        (502, b"<html>bad gateway</html>"),
        (401, b"no"),
    ],
)
def test_anything_but_json_rpc_is_unavailable(door: Door, gateway: Gateway, status: int, body: bytes) -> None:
    door.behave = lambda request: (status, body)

    for ask in (gateway.chain_id, gateway.head, lambda: gateway.send_raw(b"\x02"), gateway.fee_market):
        with pytest.raises(ChainUnavailable) as failure:
            ask()
        _clean(failure)


def test_a_nodes_own_words_come_without_the_address(door: Door, gateway: Gateway) -> None:
    door.behave = lambda request: error(request, f"request to {door.url} failed, key topsecret")

    with pytest.raises(ChainUnavailable) as failure:
        gateway.balance("0x000000000000000000000000000000000000dEaD")

    assert "failed" in _clean(failure)


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("nonce too low", Refusal.NONCE_TOO_LOW),
        ("already known", Refusal.ALREADY_KNOWN),
        ("replacement transaction underpriced", Refusal.REPLACEMENT_UNDERPRICED),
        ("insufficient funds for gas * price + value", Refusal.INSUFFICIENT_FUNDS),
        ("something new", Refusal.OTHER),
    ],
)
def test_a_refused_transaction_says_why(door: Door, gateway: Gateway, words: str, refusal: Refusal) -> None:
    door.behave = lambda request: error(request, words)

    with pytest.raises(TransactionRefused) as failure:
        gateway.send_raw(b"\x02\x01")

    assert failure.value.refusal is refusal
    assert failure.value.message == words


def test_a_revert_keeps_its_data(door: Door, gateway: Gateway) -> None:
    def revert(request: dict[str, Any]) -> tuple[int, bytes]:
        problem = {"code": 3, "message": "execution reverted", "data": "0xdeadbeef"}
        return 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": problem}).encode()

    door.behave = revert

    with pytest.raises(CallReverted) as failure:
        gateway.call("0x000000000000000000000000000000000000dEaD", b"")

    assert failure.value.data == bytes.fromhex("deadbeef")


def test_a_sealed_block_is_read(door: Door, gateway: Gateway) -> None:
    door.behave = lambda request: result(request, BLOCK)

    head = gateway.head()

    assert (head.number, head.hash, head.timestamp) == (7, "0x" + "11" * 32, 100)
    assert (head.gas_limit, head.base_fee) == (30_000_000, 10**9)


def test_what_isnt_there_is_none(door: Door, gateway: Gateway) -> None:
    door.behave = lambda request: result(request, None)

    assert gateway.block(5) is None
    assert gateway.receipt("0x" + "33" * 32) is None
    assert gateway.knows("0x" + "33" * 32) is False


def test_fees_of_chains_with_and_without_a_base_fee(door: Door, gateway: Gateway) -> None:
    answers: dict[str, Any] = {
        "eth_getBlockByNumber": BLOCK,
        "eth_gasPrice": "0x4",
        "eth_maxPriorityFeePerGas": "0x2",
    }
    door.behave = lambda request: result(request, answers[request["method"]])
    assert gateway.fee_market() == FeeMarket(10**9, 2, 4)

    answers["eth_getBlockByNumber"] = {key: value for key, value in BLOCK.items() if key != "baseFeePerGas"}
    assert gateway.fee_market() == FeeMarket(None, 0, 4)


def test_a_refused_range_of_events_is_asked_for_in_halves(door: Door, gateway: Gateway) -> None:
    asked: list[tuple[int, int]] = []

    def stingy(request: dict[str, Any]) -> tuple[int, bytes]:
        if request["method"] == "eth_getBlockByNumber":
            return result(request, {**BLOCK, "number": hex(3_999)})
        query = request["params"][0]
        first, last = int(query["fromBlock"], 16), query["toBlock"]
        if last == "latest" or int(last, 16) - first >= 1_000:
            return error(request, "query exceeds max block range 1000", -32005)
        asked.append((first, int(last, 16)))
        return result(request, [])

    door.behave = stingy

    assert gateway.logs("0x" + "00" * 19 + "01", [], from_block=0) == []
    assert asked == [(0, 999), (1_000, 1_999), (2_000, 2_999), (3_000, 3_999)]


def test_events_refused_whatever_the_range_are_an_error(door: Door, gateway: Gateway) -> None:
    def refuse(request: dict[str, Any]) -> tuple[int, bytes]:
        if request["method"] == "eth_getBlockByNumber":
            return result(request, {**BLOCK, "number": hex(3_999)})
        return error(request, "logs are switched off")

    door.behave = refuse

    with pytest.raises(NodeRefused, match="logs are switched off"):
        gateway.logs("0x" + "00" * 19 + "01", [], from_block=0)


def test_authorities_are_asked_for_in_each_dialect(door: Door, gateway: Gateway) -> None:
    authority = "0x000000000000000000000000000000000000dead"

    def besu(request: dict[str, Any]) -> tuple[int, bytes]:
        if request["method"] == "qbft_getValidatorsByBlockNumber":
            return result(request, [authority])
        return error(request, "the method does not exist", -32601)

    door.behave = besu
    assert gateway.signers() == ["0x000000000000000000000000000000000000dEaD"]
    door.behave = lambda request: error(request, "the method does not exist", -32601)
    assert gateway.signers() == []
