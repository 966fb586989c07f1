"""Calls, events and errors of our contracts in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from eth_abi.abi import encode
from eth_hash.auto import keccak

from chainmemory.chain.abi import Abi
from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.chain.deploy import creation_code
from chainmemory.chain.registry import CATEGORY_CODES
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.abi_values import Value
from chainmemory.engine.explorer.decode import (
    CATEGORIES,
    OUTCOMES,
    contracts_with_event,
    contracts_with_selector,
    decode_call,
    decode_creation,
    decode_error,
    decode_event,
    event_topics,
    meaning,
    reason_in_words,
)

ANCHORS, REGISTRY = Abi(load_artifact(STATE_ANCHOR).abi), Abi(load_artifact(MEMORY_REGISTRY).abi)
ADDRESS = "0x" + "ab" * 20


def log(topics: list[str], data: bytes = b"") -> Log:
    return Log(ADDRESS, tuple(topics), data, 1, "0x" + "00" * 32, "0x" + "00" * 32, 0)


def word(number: int) -> str:
    return f"0x{number:064x}"


def test_a_call_is_named_with_its_arguments() -> None:
    data = ANCHORS.encode("anchor", b"\x01" * 32, 7, b"\x02" * 32)
    call = decode_call(STATE_ANCHOR, data)
    assert call is not None
    assert (call.contract, call.name, call.signature) == (
        STATE_ANCHOR,
        "anchor",
        "anchor(bytes32,uint64,bytes32)",
    )
    assert [(value.name, value.text) for value in call.values] == [
        ("projectId", "0x" + "01" * 32),
        ("version", "7"),
        ("stateHash", "0x" + "02" * 32),
    ]
    assert contracts_with_selector(data) == [STATE_ANCHOR]
    assert decode_call(MEMORY_REGISTRY, data) is None


@pytest.mark.parametrize("data", [b"", b"\xde", b"\xde\xad\xbe\xef", b"\xde\xad\xbe\xef" + b"\0" * 64])
def test_unknown_data_is_no_call(data: bytes) -> None:
    assert decode_call(STATE_ANCHOR, data) is None
    assert decode_error(STATE_ANCHOR, data) is None
    assert decode_creation(data) is None


def test_a_truncated_call_is_no_call() -> None:
    data = ANCHORS.encode("anchor", b"\x01" * 32, 7, b"\x02" * 32)
    assert decode_call(STATE_ANCHOR, data[:-1]) is None


@pytest.mark.parametrize("name", [STATE_ANCHOR, MEMORY_REGISTRY])
def test_a_creation_is_recognised_by_its_code(name: str) -> None:
    data = creation_code(name, admin=ADDRESS, submitter="0x" + "cd" * 20)
    creation = decode_creation(data)
    assert creation is not None
    assert creation.contract == name
    assert (creation.value("admin") or "").lower() == ADDRESS
    changed = bytes([data[0] ^ 1]) + data[1:]
    assert decode_creation(changed) is None


def test_an_event_has_indexed_and_plain_arguments_in_their_order() -> None:
    topics = [ANCHORS.topic("StateAnchored"), word(5), "0x" + "01" * 32, word(7)]
    data = encode(["bytes32", "uint64", "address"], [b"\x02" * 32, 1_790_000_000, ADDRESS])
    event = decode_event(STATE_ANCHOR, log(topics, data))
    assert event is not None
    assert [value.name for value in event.values] == [
        "anchorId",
        "projectId",
        "version",
        "stateHash",
        "anchoredAt",
        "anchoredBy",
    ]
    assert event.value("anchorId") == "5"
    assert event.value("stateHash") == "0x" + "02" * 32
    assert event.value("nothing") is None


def test_a_log_in_another_form_is_no_event() -> None:
    topic = ANCHORS.topic("StateAnchored")
    assert decode_event(STATE_ANCHOR, log([])) is None
    assert decode_event(STATE_ANCHOR, log([word(1)])) is None
    assert decode_event(STATE_ANCHOR, log([topic, word(5)])) is None
    assert decode_event(STATE_ANCHOR, log([topic, word(5), word(1), word(2**200)], b"\0" * 96)) is None
    assert decode_event(STATE_ANCHOR, log([topic, word(5), word(1), word(7)], b"\0" * 95)) is None
    assert contracts_with_event(log([topic])) == [STATE_ANCHOR]
    assert contracts_with_event(log([])) == []


def test_topics_are_found_by_name() -> None:
    assert event_topics(STATE_ANCHOR, "StateAnchored") == [ANCHORS.topic("StateAnchored")]
    assert set(event_topics(MEMORY_REGISTRY, "MemoryRecorded", "MemoryRecordedWithPayload")) == {
        REGISTRY.topic("MemoryRecorded"),
        REGISTRY.topic("MemoryRecordedWithPayload"),
    }


def test_reverts_are_told_in_words() -> None:
    text = keccak(b"Error(string)")[:4] + encode(["string"], ["not \u202etoday"])
    panic = keccak(b"Panic(uint256)")[:4] + encode(["uint256"], [17])
    custom = keccak(b"AccessControlUnauthorizedAccount(address,bytes32)")[:4]
    custom += encode(["address", "bytes32"], [ADDRESS, b"\x09" * 32])

    def words(contract: str | None, data: bytes) -> str:
        error = decode_error(contract, data)
        assert error is not None
        return reason_in_words(error)

    assert words(None, text) == "not \\u202etoday"
    assert words(None, panic) == "panic 17: a number overflowed"
    assert words(MEMORY_REGISTRY, custom).startswith("AccessControlUnauthorizedAccount(account 0x")
    assert decode_error(None, custom) is None


def test_codes_have_the_meaning_that_the_contracts_give_them() -> None:
    """A code more in Outcome.sol, or a category more, must be told here too."""
    source = (Path(__file__).parents[3] / "contracts" / "src" / "Outcome.sol").read_text()
    assert len(OUTCOMES) == len(re.findall(r"^    [A-Z]\w+,?$", source, re.MULTILINE))
    assert {int(code): name for code, name in CATEGORIES.items()} == {
        code: name for name, code in CATEGORY_CODES.items()
    }
    assert meaning("reason", Value("reason", "uint8", "2")) == "another value is there and stays"
    assert meaning("reason", Value("reason", "uint8", "200")) is None
    assert meaning("category", Value("category", "uint8", "1")) == "DECISION"
    assert meaning("role", Value("role", "bytes32", "0x" + keccak(b"SUBMITTER_ROLE").hex())) == "submitter"
    assert meaning("anchoredAt", Value("anchoredAt", "uint64", str(2**64 - 1))) is None
    assert meaning("version", Value("version", "uint64", "1")) is None
