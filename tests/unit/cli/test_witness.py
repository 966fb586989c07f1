"""The witness against a node that lies, fails or talks nonsense, played by a real HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from eth_hash.auto import keccak

from chainmemory.cli.witness import STATE_ANCHORED, Anchored, Witness
from chainmemory.errors import IntegrityError, Unavailable
from tests.support.played_node import PlayedNode, played_node

CONTRACT = "0x" + "aB" * 20
PROJECT = "0x" + "11" * 32
HASH = "0x" + "22" * 32
TX = "0x" + "33" * 32
TOPIC = "0x" + keccak(STATE_ANCHORED.encode()).hex()


@pytest.fixture
def node() -> Iterator[PlayedNode]:
    with played_node(PlayedNode) as node:
        yield node


@pytest.fixture
def witness(node: PlayedNode) -> Iterator[Witness]:
    with Witness(node.url) as witness:
        yield witness


def receipt(**changes: Any) -> dict[str, Any]:
    log = {
        "address": CONTRACT.lower(),
        "topics": [TOPIC, "0x" + "00" * 31 + "05", PROJECT, "0x" + "00" * 31 + "07"],
        "data": HASH + "00" * 64,
    }
    return {"status": "0x1", "blockNumber": "0x10", "logs": [log], **changes}


def test_a_version_is_asked_for_in_the_contracts_own_encoding(node: PlayedNode, witness: Witness) -> None:
    node.results["eth_call"] = HASH
    assert witness.state_hash(CONTRACT, PROJECT, 7) == HASH
    [(method, [call, block])] = node.asked
    selector = keccak(b"stateHashOf(bytes32,uint64)")[:4].hex()
    assert (method, block) == ("eth_call", "latest")
    assert call == {"to": CONTRACT, "data": f"0x{selector}{'11' * 32}{7:064x}"}


@pytest.mark.parametrize("answer", ["0x", HASH[:-2], HASH + "00"])
def test_an_answer_of_another_length_is_no_state_hash(
    node: PlayedNode, witness: Witness, answer: str
) -> None:
    node.results["eth_call"] = answer
    with pytest.raises(IntegrityError, match="isn't the anchor contract"):
        witness.state_hash(CONTRACT, PROJECT, 7)


def test_the_events_of_a_transaction(node: PlayedNode, witness: Witness) -> None:
    node.results["eth_getTransactionReceipt"] = receipt()
    assert witness.anchored(CONTRACT, TX) == [Anchored(PROJECT, 7, HASH, 16)]


def test_another_contracts_events_count_for_nothing(node: PlayedNode, witness: Witness) -> None:
    node.results["eth_getTransactionReceipt"] = receipt()
    assert witness.anchored("0x" + "cd" * 20, TX) == []


@pytest.mark.parametrize(("found", "told"), [(None, "has no transaction"), (receipt(status="0x0"), "failed")])
def test_a_transaction_that_is_not_there_or_failed(
    node: PlayedNode, witness: Witness, found: Any, told: str
) -> None:
    node.results["eth_getTransactionReceipt"] = found
    with pytest.raises(IntegrityError, match=told):
        witness.anchored(CONTRACT, TX)


ASK: list[Callable[[Witness], object]] = [
    lambda witness: witness.chain_id(),
    lambda witness: witness.code_hash(CONTRACT),
    lambda witness: witness.state_hash(CONTRACT, PROJECT, 1),
    lambda witness: witness.anchored(CONTRACT, TX),
    lambda witness: witness.recorded(CONTRACT, TX, PROJECT, 1),
]


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("raw", [b"<html>busy</html>", b"[]", b"{}", b"null", b'{"error": 5}', None])
def test_nonsense_is_never_an_answer(
    node: PlayedNode, witness: Witness, ask: Callable[[Witness], object], raw: bytes | None
) -> None:
    node.raw = raw
    with pytest.raises(Unavailable):
        ask(witness)


@pytest.mark.parametrize("ask", ASK[:3])
def test_a_result_that_is_not_hexadecimal(
    node: PlayedNode, witness: Witness, ask: Callable[[Witness], object]
) -> None:
    node.results = dict.fromkeys(("eth_chainId", "eth_getCode", "eth_call"), "0xzz")
    with pytest.raises(Unavailable):
        ask(witness)


def test_no_node_at_all_and_no_credentials_in_the_error() -> None:
    with (
        Witness("http://user:geheim@127.0.0.1:9/v3/geheim") as witness,
        pytest.raises(Unavailable) as caught,
    ):
        witness.chain_id()
    assert "geheim" not in caught.value.message
