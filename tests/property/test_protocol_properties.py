"""The protocol on random input: canonical JSON against the rfc8785 package, the parser, evidence trees."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.errors import IntegrityError, Invalid
from chainmemory.protocol.canonical import canonical, canonical_user, parse_json
from chainmemory.protocol.evidence import (
    EMPTY,
    EvidenceTree,
    evidence_root,
    inclusion_proof,
    verify_inclusion,
)
from chainmemory.protocol.hashing import tagged_hash
from chainmemory.protocol.ledger_entry import GENESIS_PREV, entry_hash, ledger_form, make_entry
from chainmemory.protocol.times import parse_time

SAFE = 2**53 - 1
few = settings(max_examples=60, deadline=None)
texts = st.text(st.characters(exclude_categories=["Cs"]))
integers = st.integers(-SAFE, SAFE)
scalars = st.none() | st.booleans() | integers | texts
ascii_keys = st.text(st.characters(max_codepoint=127))


def documents(leaves: Any, keys: Any) -> Any:
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)


own_documents = documents(scalars, ascii_keys)
floats = st.floats(allow_nan=False, allow_infinity=False)
user_documents = documents(scalars | floats, texts)
hashes = st.binary(min_size=32, max_size=32).map(lambda value: "0x" + value.hex())


@few
@given(own_documents)
def test_canonical_equals_rfc8785_on_our_own_kind(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value) == canonical_user(value)


@few
@given(user_documents)
def test_canonical_user_is_canonical_and_loses_nothing(value: Any) -> None:
    data = canonical_user(value)
    # RFC 8785 writes 1e20 in digits; a reader takes it for a double again, as ECMAScript does.
    again = json.loads(
        data, parse_int=lambda digits: int(digits) if abs(int(digits)) <= SAFE else float(digits)
    )
    assert canonical_user(again) == data
    assert canonical_user(json.loads(json.dumps(value))) == data


@few
@given(user_documents, st.sampled_from([None, 2]), st.booleans())
def test_the_strict_parser_agrees_with_the_standard_one(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse_json(text) == parse_json(text.encode()) == json.loads(text)


JSON_BITS = [*'"\\[]{}:,1-e+.0 \nxé\x00\ufeff\U0001f600', "\\u", "d83d", "\\ude00", "9" * 16]
JSON_BITS += ["NaN", "Infinity", "true", "null", '"a":']


@few
@given(st.lists(st.sampled_from(JSON_BITS), max_size=30).map("".join) | st.text(max_size=30))
def test_no_text_makes_the_parser_fail_in_another_way(text: str) -> None:
    try:
        value = parse_json(text)
    except Invalid as error:
        assert error.code in {"invalid_json", "invalid_value"}  # noqa: PT017 — most texts are refused, some not
        return
    assert value == json.loads(text)
    canonical_user(value)


@few
@given(st.binary(max_size=40))
def test_no_bytes_do_either(data: bytes) -> None:
    try:
        parse_json(data)
    except Invalid:
        return
    assert json.loads(data.decode()) is not Ellipsis


def reference_root(leaves: list[bytes]) -> bytes:
    """RFC 9162's recursive definition."""
    if len(leaves) == 1:
        return tagged_hash("CM_EVIDENCE_LEAF_V1", leaves[0])
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return tagged_hash("CM_EVIDENCE_NODE_V1", reference_root(leaves[:split]) + reference_root(leaves[split:]))


@few
@given(st.lists(hashes, min_size=1, max_size=40), st.data())
def test_evidence_root_and_proofs(members: list[str], data: Any) -> None:
    root = evidence_root(members)
    assert root == "0x" + reference_root(sorted({bytes.fromhex(one[2:]) for one in members})).hex()
    one = data.draw(st.sampled_from(members))
    proof = inclusion_proof(members, one)
    verify_inclusion(one, proof, root)
    stranger = data.draw(hashes.filter(lambda value: value not in members))
    with pytest.raises(IntegrityError):
        verify_inclusion(stranger, proof, root)


@few
@given(st.lists(st.lists(hashes, max_size=8), max_size=12), st.booleans())
def test_a_tree_grown_in_steps_is_the_tree_of_all(steps: list[list[str]], ask_between: bool) -> None:
    tree = EMPTY
    seen: set[str] = set()
    for step in steps:
        tree = tree.adding(step)
        seen |= set(step)
        if ask_between:
            assert tree.root == evidence_root(seen)
    assert tree == EvidenceTree.of(seen)
    assert tree.root == evidence_root(seen)
    assert list(tree) == sorted(seen)


@few
@given(st.datetimes(), st.integers(-23 * 60 - 59, 23 * 60 + 59), st.integers(0, 9))
def test_times_are_put_in_utc_and_stay_there(moment: Any, offset: int, decimals: int) -> None:
    sign, minutes = ("-" if offset < 0 else "+"), abs(offset)
    fraction = f".{moment.microsecond:06}000"[: decimals + 1] if decimals else ""
    text = f"{moment:%H:%M:%S}{fraction}{sign}{minutes // 60:02}:{minutes % 60:02}"
    text = f"{moment.year:04}-{moment:%m-%d}T{text}"
    try:
        normal = parse_time(text)
    except Invalid:
        assert moment.year in (1, 9999)
        return
    assert parse_time(normal) == normal
    assert len(normal) == 27


entries = st.dictionaries(
    texts.filter(lambda key: key not in ("seq", "ts", "op", "prev", "hash")), user_documents, max_size=4
)


@few
@given(entries, st.integers(1, SAFE), floats | texts)
def test_an_entry_hashes_the_same_after_a_trip_through_json(keys: Any, seq: int, ts: Any) -> None:
    entry = make_entry(GENESIS_PREV, seq, ts, "save", **keys)
    again = json.loads(json.dumps(entry, ensure_ascii=False))
    assert entry_hash(again) == entry["hash"]
    assert entry_hash(dict(reversed(again.items()))) == entry["hash"]
    assert json.loads(ledger_form(entry)) == entry
