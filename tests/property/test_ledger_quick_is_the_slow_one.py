"""A walk that reads pages at once says of any ledger, damaged in any way, what one line by line says."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.errors import Invalid
from chainmemory.ledger.chain import Chain, Ordinary
from chainmemory.ledger.entries import Entry, LineReader, read_file_line, read_server_line
from chainmemory.ledger.quick import form_of
from chainmemory.ledger.walk import walk
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import GENESIS_PREV, entry_hash, ledger_form, make_entry

LINES = 40
PROJECT = "0x" + "12" * 32


def write_json(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode()


def chained(op: str, keys: Any, *, ts: Any, write: Any) -> list[bytes]:
    prev, lines = GENESIS_PREV, []
    for seq in range(1, LINES + 1):
        entry = make_entry(prev, seq, ts(seq), op, **keys(seq))
        lines.append(write(entry) + b"\n")
        prev = entry["hash"]
    return lines


def file_keys(seq: int) -> dict[str, Any]:
    return {"memory_id": f"m{seq % 30}, é", "content_sha256": f"{seq:064x}", "n": seq * 7}


def save_keys(seq: int) -> dict[str, Any]:
    return {"memory_id": str(seq), "content_sha256": f"{seq:064x}", "blob_sha256": f"{seq + 1:064x}"}


def state_keys(seq: int) -> dict[str, Any]:
    return {"project_id": PROJECT, "version": seq, "state_hash": f"0x{seq:064x}"}


SERVER_TIME = "2026-09-13T22:02:35.{:06}Z"
LEDGERS: dict[str, tuple[list[bytes], LineReader]] = {
    "file": (
        chained("save", file_keys, ts=lambda seq: 1789851200.1234567 + seq * 0.37, write=write_json),
        read_file_line,
    ),
    "file in form C": (
        chained("seen", file_keys, ts=lambda seq: seq + 0.5, write=ledger_form),
        read_file_line,
    ),
    "saves": (chained("save", save_keys, ts=SERVER_TIME.format, write=ledger_form), read_server_line),
    "states": (chained("state", state_keys, ts=SERVER_TIME.format, write=ledger_form), read_server_line),
}


def strict(read: LineReader) -> Any:
    """The same reader without any quick path: the strict parser and form C alone."""

    def one(line: bytes) -> Entry:
        entry = read(line)
        parsed = parse_json(line)
        assert entry.hash == parsed["hash"]
        return entry._replace(computed=entry_hash(parsed), seq=parsed["seq"], prev=parsed["prev"])

    return one


def compare(lines: list[bytes], read: LineReader, heads: dict[int, str]) -> Any:
    quick = walk(lines, read, heads)
    assert quick == walk(lines, strict(read), heads)
    return quick


@pytest.mark.parametrize("name", LEDGERS)
def test_ordinary_ledgers_are_read_by_the_page(name: str) -> None:
    lines, read = LEDGERS[name]
    (taken,) = Chain(read, {}).take(lines)
    assert isinstance(taken, Ordinary)
    assert compare(lines, read, {}).chain == "intact"


heads_of = {
    name: {at: json.loads(lines[at - 1])["hash"] for at in (9, 33)} for name, (lines, _) in LEDGERS.items()
}


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(sorted(LEDGERS)), st.booleans(), st.data())
def test_any_damage(name: str, with_heads: bool, data: Any) -> None:
    lines, read = LEDGERS[name]
    lines = list(lines)
    at = data.draw(st.integers(0, LINES - 1))
    line = lines[at]
    kind = data.draw(st.sampled_from(["flip", "drop", "double", "swap", "cut", "bytes", "glue", "rehash"]))
    if kind in ("flip", "bytes"):
        place = data.draw(st.integers(0, len(line) - 1))
        new = bytes([line[place] ^ (1 << data.draw(st.integers(0, 7)))])
        lines[at] = (
            line[:place] + (new if kind == "flip" else data.draw(st.binary(max_size=3))) + line[place + 1 :]
        )
    elif kind == "drop":
        del lines[at]
    elif kind == "double":
        lines.insert(at, line)
    elif kind == "swap":
        other = data.draw(st.integers(0, LINES - 1))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "cut":
        lines[at:] = [line[: data.draw(st.integers(1, len(line)))]]
    elif kind == "glue":
        lines[at : at + 2] = [line.rstrip(b"\n") + data.draw(st.sampled_from([b"", b",", b" "])) + line]
    else:
        entry = json.loads(line)
        entry[data.draw(st.sampled_from(sorted(entry.keys() - {"hash"})))] = data.draw(ODD)
        lines[at] = json.dumps({**entry, "hash": entry_hash(entry)}, ensure_ascii=False).encode() + b"\n"
    lines = split(b"".join(lines))
    walked = compare(lines, read, heads_of[name] if with_heads else {})
    whole = [parsed(one) for one in lines] == [parsed(one) for one in LEDGERS[name][0]]
    assert (walked.chain == "intact" and walked.entries == LINES) == whole or kind == "rehash"


ODD = st.sampled_from(
    ["x", 'q"', "\\", "é\x7f", 5, 0, -1, 1.5, 1e16, 1e-5, 2**53 - 1, None, True, [], {"a": 1}]
)


def split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def parsed(line: bytes) -> Any:
    try:
        return parse_json(line)
    except Invalid:
        return None


NUMBERS = [
    "1",
    "1.5",
    "1.50",
    "01",
    "1e3",
    "1E3",
    "-1",
    "-0",
    "0",
    "1.0",
    "1789851200.12345678901",
    "0.0001",
    "0.00001",
    "123456789012345678",
    "9007199254740993",
    "1e400",
    ".5",
    "1,2",
    "[1]",
    "true",
    '"1"',
    "1 ",
    " 1",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_taken_as_form_c_writes_it_or_not_at_once(number: str) -> None:
    lines = []
    prev = GENESIS_PREV
    for seq in range(1, 13):
        text = "1.5" if seq != 7 else number
        rest = f'"memory_id":"a","op":"save","prev":"{prev}","seq":{seq},"ts":{text}'
        # As somebody would who hashes the number as it stands.
        prev = hashlib.sha256(f'{{"content_sha256":"{seq:064x}",{rest}}}'.encode()).hexdigest()
        lines.append(f'{{"content_sha256":"{seq:064x}","hash":"{prev}",{rest}}}\n'.encode())
    compare(lines, read_file_line, {})


def test_forms_are_learned_of_flat_lines_alone() -> None:
    line = LEDGERS["file"][0][0]
    assert form_of(line) is not None
    entry = json.loads(line)
    for change in ({"op": "forget"}, {"accepts": "x"}, {"more": [1]}, {"more": None}, {"more": "\\"}):
        changed = {**entry, **change}
        assert form_of(json.dumps({**changed, "hash": entry_hash(changed)}).encode()) is None
