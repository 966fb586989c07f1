"""Decoding ABI-encoded bytes for people: equal to eth-abi on what is well-formed, bounded on what isn't."""

from __future__ import annotations

import time

import pytest
from eth_abi.abi import encode
from eth_utils.abi import function_abi_to_4byte_selector
from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.engine.explorer.abi_values import (
    MAX_ELEMENTS,
    MAX_VALUES,
    NotEncoded,
    Value,
    decode,
    decode_word,
)

BATCHES = next(item for item in load_artifact(MEMORY_REGISTRY).abi if item.get("name") == "recordMany")[
    "inputs"
]
STATES = next(item for item in load_artifact(STATE_ANCHOR).abi if item.get("name") == "anchorBatch")["inputs"]

bytes32 = st.binary(min_size=32, max_size=32)
payload = st.tuples(
    st.integers(0, 255), st.integers(0, 255), st.integers(0, 2**32 - 1), st.binary(max_size=100)
)
batch = st.tuples(
    bytes32,
    st.integers(0, 2**64 - 1),
    st.lists(bytes32, max_size=4),
    st.lists(payload, max_size=3),
    bytes32,
)


def plain(value: Value) -> object:
    """Write a decoded value as eth-abi gives it, as far as it is shown."""
    if value.items is not None:
        return tuple(plain(item) for item in value.items)
    assert value.text is not None
    if value.type.startswith("uint"):
        return int(value.text)
    return bytes.fromhex(value.text[2:]) if value.type.startswith("bytes") else value.text


def nested(value: object) -> object:
    return tuple(nested(item) for item in value) if isinstance(value, list | tuple) else value


@settings(max_examples=60, deadline=None)
@given(st.lists(batch, max_size=3))
def test_our_largest_call_decodes_as_eth_abi_encodes_it(batches: list[object]) -> None:
    types = "(bytes32,uint64,bytes32[],(uint8,uint8,uint32,bytes)[],bytes32)[]"
    (decoded,) = decode(BATCHES, encode([types], [batches]))
    assert plain(decoded) == nested(batches)
    assert decoded.name == "batches"
    for element in decoded.items or ():
        names = [member.name for member in element.items or ()]
        assert names == ["accountRef", "firstNumber", "eventHashes", "payloads", "evidenceRoot"]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    for params in (BATCHES, STATES):
        try:
            decode(params, data)
        except NotEncoded:
            continue


@settings(max_examples=100, deadline=None)
@given(st.lists(batch, min_size=1, max_size=2), st.data())
def test_damaged_bytes_decode_or_are_refused(batches: list[object], draw: st.DataObject) -> None:
    types = "(bytes32,uint64,bytes32[],(uint8,uint8,uint32,bytes)[],bytes32)[]"
    data = bytearray(encode([types], [batches]))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    cut = draw.draw(st.integers(0, len(data)))
    for damaged in (bytes(data), bytes(data[:cut])):
        try:
            decode(BATCHES, damaged)
        except NotEncoded:
            continue


def test_a_long_list_shows_its_first_elements_and_counts_all() -> None:
    states = [(bytes(32), version, bytes(32)) for version in range(200)]
    (value,) = decode(STATES, encode(["(bytes32,uint64,bytes32)[]"], [states]))
    assert len(value.items or ()) == MAX_ELEMENTS
    assert (value.total, value.cut) == (200, 150)


def count(value: Value) -> int:
    return 1 + sum(count(item) for item in value.items or ())


def test_overlapping_elements_cost_no_more_than_what_is_shown() -> None:
    """1,000 lists that are all the same list of 1,000: a library would make a million values of 64 KB."""

    def word(number: int) -> bytes:
        return number.to_bytes(32, "big")

    params = [{"name": "lists", "type": "bytes32[][]"}]
    data = word(32) + word(1_000) + word(32_000) * 1_000 + word(1_000) + word(7) * 1_000
    started = time.process_time()
    (value,) = decode(params, data)
    assert value.total == 1_000
    assert count(value) <= MAX_VALUES + 1
    assert time.process_time() - started < 5


def test_a_list_that_claims_more_than_there_is_is_refused() -> None:
    for length in (4, 2**64, 2**255):
        with pytest.raises(NotEncoded):
            decode([{"name": "", "type": "bytes32[]"}], (32).to_bytes(32, "big") + length.to_bytes(32, "big"))


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("address", "01" + "00" * 31),
        ("bool", "00" * 31 + "02"),
        ("uint64", "00" * 23 + "01" + "00" * 8),
        ("uint8", "00" * 30 + "0100"),
        ("int8", "00" * 31 + "80"),
        ("bytes4", "00" * 4 + "01" + "00" * 27),
        ("function", "00" * 32),
    ],
)
def test_padding_that_solidity_refuses_is_refused(kind: str, word: str) -> None:
    with pytest.raises(NotEncoded):
        decode([{"name": "x", "type": kind}], bytes.fromhex(word))


@pytest.mark.parametrize(
    ("kind", "word", "text"),
    [
        ("bool", "00" * 31 + "01", "true"),
        ("int8", "ff" * 31 + "80", "-128"),
        ("uint256", "ff" * 32, str(2**256 - 1)),
        ("bytes4", "deadbeef" + "00" * 28, "0xdeadbeef"),
        ("address", "00" * 12 + "f3" + "9f" * 19, "0xF39f9F9f9F9f9f9F9F9F9f9F9f9F9f9F9F9F9F9f"),
    ],
)
def test_plain_values_are_written_for_people(kind: str, word: str, text: str) -> None:
    found = decode_word({"name": "x", "type": kind}, bytes.fromhex(word)).text
    assert found is not None
    assert found.lower() == text.lower()


def test_an_indexed_string_is_there_as_its_hash() -> None:
    value = decode_word({"name": "s", "type": "string"}, b"\x01" * 32)
    assert (value.type, value.text) == ("hash of string", "0x" + "01" * 32)


def test_fixed_arrays_and_nested_tuples() -> None:
    params = [
        {"name": "a", "type": "uint8[2][]"},
        {"name": "t", "type": "tuple", "components": [{"name": "s", "type": "string"}]},
    ]
    first, second = decode(params, encode(["uint8[2][]", "(string)"], [[[1, 2], [3, 4]], ("hé",)]))
    assert plain(first) == ((1, 2), (3, 4))
    assert plain(second) == ("hé",)


def test_every_call_and_error_of_our_contracts_decodes() -> None:
    """No type in our ABIs is unknown here: each signature decodes its own encoding of zeros."""
    for name in (STATE_ANCHOR, MEMORY_REGISTRY):
        for item in load_artifact(name).abi:
            if item["type"] in ("function", "error", "event"):
                assert decode(item["inputs"], _zeros(item["inputs"])) is not None
                assert len(function_abi_to_4byte_selector({**item, "type": "function"})) == 4


def _zeros(params: list[dict[str, object]]) -> bytes:
    kinds = [_kind(param) for param in params]
    return encode(kinds, [_zero(param) for param in params])


def _kind(param: dict[str, object]) -> str:
    kind = str(param["type"])
    if kind.startswith("tuple"):
        members = ",".join(_kind(member) for member in param["components"])  # type: ignore[attr-defined]
        return f"({members}){kind.removeprefix('tuple')}"
    return kind


def _zero(param: dict[str, object]) -> object:
    kind = str(param["type"])
    if kind.endswith("[]"):
        return []
    if kind == "tuple":
        return tuple(_zero(member) for member in param["components"])  # type: ignore[attr-defined]
    if kind == "address":
        return "0x" + "00" * 20
    if kind == "bool":
        return False
    if kind == "string":
        return ""
    if kind.startswith("bytes"):
        return bytes(int(kind[5:] or 0))
    return 0
