"""A long ledger is read by two processes; what they say together is what one says alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chainmemory.ledger.ahead import reading_ahead
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.walk import Walk, walk
from chainmemory.protocol.ledger_entry import GENESIS_PREV, make_entry

COUNT = 600


def write(path: Path, ops: dict[int, str] | None = None) -> list[str]:
    """Write a ledger and return its hashes."""
    prev, hashes = GENESIS_PREV, []
    with path.open("wb") as out:
        for seq in range(1, COUNT + 1):
            op = (ops or {}).get(seq, "save")
            entry = make_entry(
                prev, seq, seq + 0.5, op, memory_id=f"é{seq % 100}", content_sha256=f"{seq:064x}"
            )
            prev = entry["hash"]
            hashes.append(prev)
            out.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
    return hashes


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def in_two(path: Path, heads: dict[int, str]) -> tuple[Walk, bool]:
    """Walk by two processes, and say whether the other one's half was taken over."""
    fd = os.open(path, os.O_RDONLY)
    try:
        with reading_ahead(fd, heads, worth_it=0) as ahead:
            assert ahead is not None
            stretch = ahead.stretch()

            class Known:
                lines = ahead.lines
                stretch = staticmethod(lambda: stretch)

            return walk(ahead.first_lines(), read_file_line, heads, ahead=Known()), stretch is not None
    finally:
        os.close(fd)


def alone(path: Path, heads: dict[int, str]) -> Walk:
    with path.open("rb") as lines:
        return walk(lines, read_file_line, heads)


def test_an_ordinary_ledger_is_read_by_both(ledger: Path) -> None:
    hashes = write(ledger)
    for heads in ({}, {10: hashes[9], 450: hashes[449]}, {450: "ab" * 32, 700: "cd" * 32}):
        walked, joined = in_two(ledger, heads)
        assert joined
        assert walked == alone(ledger, heads)
        assert (walked.chain, walked.entries) == ("intact", COUNT)


def test_what_is_odd_in_the_second_half_is_read_here(ledger: Path) -> None:
    write(ledger, {500: "forget"})
    walked, joined = in_two(ledger, {})
    assert not joined
    assert walked == alone(ledger, {})


@pytest.mark.parametrize("seq", [3, 301, 302, 600])
@pytest.mark.parametrize("kind", ["flip", "drop", "double", "cut"])
def test_damage_on_either_side_and_at_the_seam(ledger: Path, seq: int, kind: str) -> None:
    hashes = write(ledger)
    lines = ledger.read_bytes().splitlines(keepends=True)
    line = lines[seq - 1]
    lines[seq - 1 : seq] = {
        "flip": [line.replace(b"save", b"save!")],
        "drop": [],
        "double": [line, line],
        "cut": [line[:50]],
    }[kind]
    ledger.write_bytes(b"".join(lines))
    heads = {450: hashes[449]} if kind in ("drop", "cut") else {}
    walked, _ = in_two(ledger, heads)
    assert walked == alone(ledger, heads)


def test_a_short_ledger_starts_no_process(ledger: Path) -> None:
    write(ledger)
    fd = os.open(ledger, os.O_RDONLY)
    with reading_ahead(fd, ()) as ahead:
        assert ahead is None
    os.close(fd)
    one_line = ledger.with_name("one")
    one_line.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])
    fd = os.open(one_line, os.O_RDONLY)
    with reading_ahead(fd, (), worth_it=0) as ahead:
        assert ahead is None
    os.close(fd)
