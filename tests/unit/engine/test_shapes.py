"""Shapes: what each kind takes, what it refuses, and that its JSON Schema says the same."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from chainmemory.engine.memory_save import SAVE
from chainmemory.engine.shapes import (
    Base64,
    Boolean,
    Choice,
    Field,
    Hash,
    Integer,
    Kind,
    Many,
    Moment,
    Record,
    Slug,
    Text,
    Words,
    need,
)
from chainmemory.errors import Invalid

HASH = "ab" * 32
WORDS = Words("[a-z]+", 2, 3)
RECORD = Record({"a": need(Integer(1, 9)), "b": Text(1, 3)}, strict=True)


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        (Text(1, 3), "äöü", "äöü"),
        (Text(1, 3), "🚀🚀🚀", "🚀🚀🚀"),
        (Text(0, 3), "", ""),
        (Text(0, 3, nul=True), "a\0b", "a\0b"),
        (Integer(1, 10), 10, 10),
        (Integer(1, 10), 2.0, 2),
        (Integer(), -(2**53) + 1, -(2**53) + 1),
        (Boolean(), False, False),
        (Choice(("x", "y")), "y", "y"),
        (Moment(), "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000000Z"),
        (Slug(), "a.b-c_1", "a.b-c_1"),
        (Hash(), HASH.upper(), "0x" + HASH),
        (Hash(), "0x" + HASH, "0x" + HASH),
        (Base64(), "AQI=", b"\1\2"),
        (Many(Integer(), 0, 2), [1, 2.0], [1, 2]),
        (WORDS, {"a": "x"}, {"a": "x"}),
        (WORDS, {}, None),
        (RECORD, {"a": 1, "b": None}, {"a": 1, "b": None}),
    ],
)
def test_what_fits_is_kept_in_its_normal_form(kind: Kind, given: Any, kept: Any) -> None:
    assert kind.check(given, "here") == kept
    jsonschema_rs.validate(kind.schema() | {"contentEncoding": "none"}, given)


@pytest.mark.parametrize(
    ("kind", "given", "field"),
    [
        (Text(1, 3), "", "here"),
        (Text(1, 3), "abcd", "here"),
        (Text(1, 3), "a\0b", "here"),
        (Text(1, 3), 1, "here"),
        (Text(1, 3, pattern="[a-z]+", note="letters"), "a1", "here"),
        (Integer(1, 10), 0, "here"),
        (Integer(1, 10), 11, "here"),
        (Integer(1, 10), True, "here"),
        (Integer(1, 10), 1.5, "here"),
        (Integer(1, 10), "1", "here"),
        (Integer(1, 10), float("inf"), "here"),
        (Integer(1, 10), float("nan"), "here"),
        (Boolean(), 1, "here"),
        (Boolean(), "true", "here"),
        (Choice(("x", "y")), "z", "here"),
        (Choice(("x", "y")), ["x"], "here"),
        (Moment(), "2026-01-01", "here"),
        (Moment(), "2026-01-01T00:00:00", "here"),
        (Moment(), 0, "here"),
        (Slug(), "Upper", "here"),
        (Slug(), "", "here"),
        (Slug(), None, "here"),
        (Hash(), HASH[:-1], "here"),
        (Hash(), 7, "here"),
        (Base64(), "AQI", "here"),
        (Base64(), "A Q I =", "here"),
        (Base64(), "é", "here"),
        (Base64(), [], "here"),
        (Many(Integer(), 1, 2), [], "here"),
        (Many(Integer(), 1, 2), [1, 2, 3], "here"),
        (Many(Integer(), 1, 2), {}, "here"),
        (Many(Integer(), 1, 2), [1, "2"], "here.1"),
        (WORDS, {"a": "x", "b": "y", "c": "z"}, "here"),
        (WORDS, {"A": "x"}, "here"),
        (WORDS, {"a": "long"}, "here.a"),
        (WORDS, {"a": 1}, "here.a"),
        (WORDS, [], "here"),
        (RECORD, {}, "here.a"),
        (RECORD, {"a": None}, "here.a"),
        (RECORD, {"a": 0}, "here.a"),
        (RECORD, {"a": 1, "c": None}, "here.c"),
        (RECORD, [], "here"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(kind: Kind, given: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        kind.check(given, "here")
    assert refused.value.field == field
    assert "here" in refused.value.message or refused.value.code == "unknown_field"


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ([], "invalid_request", None),
        ({}, "missing_field", "a"),
        ({"a": None}, "invalid_value", "a"),
        ({"a": 1, "z": 1}, "unknown_field", "z"),
        ({"a": "x"}, "invalid_value", "a"),
    ],
)
def test_a_record_says_which_refusal_it_is(given: Any, code: str, field: str | None) -> None:
    with pytest.raises(Invalid) as refused:
        RECORD.check(given)
    assert (refused.value.code, refused.value.field) == (code, field)


def test_a_lenient_record_drops_what_it_does_not_know() -> None:
    assert Record({"a": Integer()}).check({"a": 1, "zzz": object()}) == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "text", "kept"),
    [
        (Integer(0, 10), "10", 10),
        (Integer(0, 10), "007", 7),
        (Boolean(), "1", True),
        (Boolean(), "false", False),
        (Text(1, 5), "true", "true"),
        (Many(Integer(), 1, 3), "1", None),
    ],
)
def test_a_query_is_read_as_text(kind: Kind, text: str, kept: Any) -> None:
    if kept is None:
        with pytest.raises(Invalid):
            kind.read(text, "here")
    else:
        assert kind.read(text, "here") == kept


@pytest.mark.parametrize("text", ["", "1.0", "1e1", "+1", " 1", "٣", "0x1", "9" * 5_000, "-1", "11"])
def test_only_plain_digits_are_a_number_in_a_query(text: str) -> None:
    with pytest.raises(Invalid):
        Integer(0, 10).read(text, "here")


@pytest.mark.parametrize("text", ["yes", "True", "2", "01"])
def test_only_four_words_are_a_flag_in_a_query(text: str) -> None:
    with pytest.raises(Invalid):
        Boolean().read(text, "here")


def test_an_error_shows_a_bounded_piece_of_the_value() -> None:
    with pytest.raises(Invalid) as refused:
        Choice(("x",)).check("y" * 10_000, "here")
    assert len(refused.value.message) < 150


def test_a_save_needs_content_or_summary_and_content_wins() -> None:
    with pytest.raises(Invalid) as refused:
        SAVE.check({"tags": []})
    assert (refused.value.code, refused.value.field) == ("missing_field", "content")
    kept = SAVE.check({"summary": "s", "content": "c"})
    assert (kept["content"].body, kept["summary"].body) == (b"c", b"s")
    assert SAVE.check({"summary": "s", "content": None})["content"] is None


def test_the_schema_names_what_is_required() -> None:
    schema = Record({"a": need(Integer(1, 2), "the a"), "b": Field(Boolean(), note="the b")}).schema()
    assert schema == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 1, "maximum": 2, "description": "the a"},
            "b": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "description": "the b"},
        },
    }
