"""Any single change to a file tenant is named, and never read as sealed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.errors import Invalid
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.file_tenant import tenant_records
from chainmemory.ledger.quick_line import read_quickly
from chainmemory.ledger.verdicts import verify
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import GENESIS_PREV, entry_hash, make_entry
from chainmemory.protocol.records import FILE_RECORD_KEYS, file_record_sha256

# No single change makes one of them another: two files with one id are altered both.
NAMES = ["ma1", "mb2", "mc3", "md4"]


def record(name: str) -> dict[str, Any]:
    return {
        "id": name, "session_id": None, "agent_id": "cc", "summary": f"ü {name}", "key_facts": ["a", "✓"],
        "decisions_made": [], "projects_referenced": ["x"], "timestamp": 1789851200.5, "category": "filing",
    }  # fmt: skip


FILES = {name: json.dumps(record(name), ensure_ascii=False).encode() for name in NAMES}
LEDGER = b""
prev = GENESIS_PREV
for seq, name in enumerate(NAMES, 1):
    entry = make_entry(
        prev, seq, 1789851200.1, "save", memory_id=name, content_sha256=file_record_sha256(record(name))
    )
    LEDGER += json.dumps(entry).encode() + b"\n"
    prev = entry["hash"]
HEADS = {4: prev}


@st.composite
def damage(draw: Any, size: int) -> tuple[str, int, int]:
    kind = draw(st.sampled_from(["flip", "drop", "insert"]))
    return kind, draw(st.integers(0, size - 1)), draw(st.integers(0, 255))


def damaged(data: bytes, change: tuple[str, int, int]) -> bytes:
    kind, at, value = change
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ (1 << value % 8)]) + data[at + 1 :]
    return data[:at] + (data[at + 1 :] if kind == "drop" else bytes([value]) + data[at:])


def split(ledger: bytes) -> list[bytes]:
    """Lines as a file gives them: ended by LF alone."""
    lines = ledger.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def meaning(lines: list[bytes]) -> list[Any]:
    try:
        return [parse_json(line) for line in lines]
    except Invalid:
        return []


@settings(max_examples=120, deadline=None)
@given(damage(len(LEDGER)))
def test_any_single_change_to_the_ledger_is_seen(change: tuple[str, int, int]) -> None:
    lines = split(damaged(LEDGER, change))
    report = verify(
        lines,
        tenant_records(FILES.items()).items(),
        read=read_file_line,
        heads=HEADS,
        unsealed_is_wrong=False,
    )
    if meaning(lines) == meaning(split(LEDGER)):
        assert report.ok is True
        assert report.sealed == NAMES
        return
    assert report.ok is False
    assert report.walk.chain == "broken"
    at = LEDGER[: change[1]].count(b"\n") + 1
    assert report.walk.broken_at in (at, at + 1)
    # Only an entry that still says the same, its own hash miswritten, can seal its record by the head.
    if said(lines[at - 1 : at]) != said(split(LEDGER)[at - 1 : at]):
        assert NAMES[at - 1] not in report.sealed


def said(lines: list[bytes]) -> list[Any]:
    return [{key: value for key, value in one.items() if key != "hash"} for one in meaning(lines)]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_any_single_change_to_a_record_is_named(name: str, data: Any) -> None:
    changed = damaged(FILES[name], data.draw(damage(len(FILES[name]))))
    report = verify(
        split(LEDGER),
        tenant_records({**FILES, name: changed}.items()).items(),
        read=read_file_line,
        heads=HEADS,
        unsealed_is_wrong=False,
    )
    try:
        now = parse_json(changed)
    except Invalid:
        now = None
    same = isinstance(now, dict) and all(now.get(key) == record(name)[key] for key in FILE_RECORD_KEYS)
    if same:
        assert report.ok is True
        return
    assert report.ok is False
    assert name not in report.sealed
    assert name in report.altered + report.missing
    assert [other for other in NAMES if other != name] == sorted(report.sealed)


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(4)), st.integers(0, 4), st.integers(0, 3))
def test_dropped_doubled_and_reordered_lines_are_seen(order: list[int], keep: int, double: int) -> None:
    lines = split(LEDGER)
    shuffled = [lines[at] for at in order[:keep]]
    if double < len(shuffled):
        shuffled.insert(double, shuffled[double])
    report = verify(
        shuffled,
        tenant_records(FILES.items()).items(),
        read=read_file_line,
        heads=HEADS,
        unsealed_is_wrong=False,
    )
    assert (report.ok is True) == (shuffled == lines)
    if shuffled != lines:
        assert report.walk.heads_missing or report.walk.chain == "broken"


plain = st.text(max_size=6) | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
odd = st.none() | st.booleans() | st.lists(plain, max_size=2)
objects = st.dictionaries(
    st.sampled_from(["hash", "seq", "ts", "op", "ü", "\U0001f600", "\uff21"]), plain | odd
)


@st.composite
def written(draw: Any) -> bytes:
    """A line as some tool may write it: with or without spaces and escapes, now and then damaged."""
    separators = draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,", " :\t")]))
    value = {**draw(objects), **draw(st.sampled_from([{}, {"hash": "x"}]))}
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators)
    if draw(st.booleans()):
        text = text.replace(
            "}", draw(st.sampled_from([', "seq": 1}', ',"hash":"x"}', "}}", ' "ts"}', "}\r"])), 1
        )
    return text.encode()


@settings(max_examples=120, deadline=None)
@given(written())
def test_the_quick_reader_never_disagrees_with_the_strict_one(line: bytes) -> None:
    quick = read_quickly(line)
    if quick is not None:
        entry, computed = quick
        assert parse_json(line) == entry
        assert [type(value) for value in parse_json(line).values()] == [
            type(value) for value in entry.values()
        ]
        assert entry_hash(entry) == computed


def test_the_quick_reader_takes_ordinary_lines() -> None:
    assert all(read_quickly(line) for line in split(LEDGER))
    for refused in (2**53, -(2**53), 2**64, 1e16, 1e-5, True, None, [1], {}, "\\", 10**30):
        assert read_quickly(json.dumps({"hash": "x", "a": refused}).encode()) is None
    assert read_quickly(b'{"hash":"x","hash":"x"}') is None
    assert read_quickly(b'{"hash":"x","a":"","a":1e5}') is None
