"""Reading a page of ordinary ledger lines at once, ten times faster than the strict parser, or not at all.

A ledger has a million lines, and nearly all look alike: flat objects of strings and numbers, written by one
program with one order of keys and one kind of spacing. Where no backslash is among them every quote is a
delimiter, so splitting a page at its quotes gives the same pieces for each line, and columns can be checked
and put together by the interpreter's C code. A page in which anything at all is out of the ordinary is left
to the strict reader, line by line; tests/property holds the two against each other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from chainmemory.protocol.canonical import parse_json

PAGE: Final = 128
"""Lines read at once: what is made of them stays in the processor's cache."""

HEX_KEYS: Final = frozenset({"prev", "hash", "content_sha256", "blob_sha256", "rest_sha256", "fact_sha256"})
HEX32_KEYS: Final = frozenset({"project_id", "state_hash"})

_NUMBERS: Final = frozenset({int, float})
_COLON: Final = re.compile(r":( ?)")
_NUMBER: Final = re.compile(r"(: ?)-?[0-9.]+(, ?|\})")


class Page(NamedTuple):
    """Lines that all have one form and continue the chain without any fault."""

    op: str
    columns: dict[str, list[str]]
    """Of each key the values in order; numbers as they are written."""
    hashes: list[str]


@dataclass(frozen=True, slots=True)
class _Column:
    """What stands at one place of each line: between two quotes, or between the quotes around it."""

    key: str | None
    """None of what is the same on every line."""
    literal: str = ""
    """What is the same, or what stands before a number."""
    after: str | None = None
    """What stands after a number; None where it isn't one."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a program writes its lines."""

    op: str
    places: tuple[_Column, ...]
    """What lies between the quotes of a line, from the first quote to the first one of the next line."""
    hashed: tuple[str, ...]
    """The keys that vary and are hashed, as form C orders them."""
    frame: tuple[str, ...]
    """What stands in form C before each of them, and after the last."""

    def read(self, lines: Sequence[bytes], position: int, before: str) -> Page | None:
        """Read the lines from `position` on, after an entry with the hash `before`; None unless all of them
        have this form and are without fault.
        """
        seqs = list(map(str, range(position, position + len(lines))))
        columns = self._columns(lines, seqs)
        if columns is None or columns["seq"] != seqs or columns["prev"][0] != before:
            return None
        if not _are_strings(columns):
            return None
        hashes = columns["hash"]
        if self._compute(columns, len(lines)) != "".join(hashes) or columns["prev"][1:] != hashes[:-1]:
            return None
        return Page(self.op, columns, hashes)

    def _columns(self, lines: Sequence[bytes], seqs: list[str]) -> dict[str, list[str]] | None:
        count, width = len(lines), len(self.places)
        data = b"".join(lines) if lines[0].endswith(b"\n") else b"\n".join(lines) + b"\n"
        if b"\\" in data or data.count(b"\n") != count:
            return None
        try:
            # The first brace of a line that isn't there makes the last line like the others.
            pieces = (data.decode() + "{").split('"')
        except UnicodeDecodeError:
            return None
        if len(pieces) != count * width + 1 or pieces[0] != "{":
            return None
        columns: dict[str, list[str]] = {}
        for at, place in enumerate(self.places, start=1):
            column = pieces[at::width]
            if place.key is None:
                if column.count(place.literal) != count:
                    return None
            elif place.after is None:
                columns[place.key] = column
            else:
                numbers = _stripped(column, place.literal, place.after)
                ordered = place.key == "seq" and numbers == ",".join(seqs)
                if numbers is None or not (ordered or _are_ordinary(numbers, count)):
                    return None
                columns[place.key] = numbers.split(",")
        return columns

    def _compute(self, columns: dict[str, list[str]], count: int) -> str:
        """Put together form C of every line without its hash, and return their hashes, one after another."""
        width = 2 * len(self.hashed) + 1
        parts: list[str] = [""] * (width * count)
        for at, key in enumerate(self.hashed):
            parts[2 * at :: width] = [self.frame[at]] * count
            parts[2 * at + 1 :: width] = columns[key]
        parts[width - 1 :: width] = [self.frame[-1] + "\n"] * count
        forms = "".join(parts).encode().split(b"\n")
        del forms[-1]
        return b"".join([digest.digest() for digest in map(hashlib.sha256, forms)]).hex()


def form_of(line: bytes) -> Form | None:
    """Return the form of a line that the strict reader takes; None where it isn't an ordinary one."""
    if b"\\" in line:
        return None
    entry: dict[str, Any] = parse_json(line)
    op = entry["op"]
    # What these two mean is more than a hash that a record must have.
    if op == "forget" or "accepts" in entry or type(entry["seq"]) is not int:
        return None
    if not all(type(value) in (str, int, float) for value in entry.values()):
        return None
    pieces = line.decode().removesuffix("\n").split('"')
    places: list[_Column] = []
    at = 1
    for key, value in entry.items():
        if pieces[at] != key:
            return None
        places.append(_Column(None, key))
        if type(value) is str:
            if not _COLON.fullmatch(pieces[at + 1]) or pieces[at + 2] != value:
                return None
            places.append(_Column(None, pieces[at + 1]))
            places.append(_Column(None, value) if key == "op" else _Column(key))
            places.append(_Column(None, pieces[at + 3]))
            at += 4
        else:
            found = _NUMBER.fullmatch(pieces[at + 1])
            if found is None:
                return None
            places.append(_Column(key, found[1], found[2]))
            at += 2
    return Form(op, tuple(_ended(places)), *_form_c(entry))


def _ended(places: list[_Column]) -> list[_Column]:
    """Let the last place reach to the first quote of the next line."""
    *others, last = places
    if last.after is not None:
        return [*others, _Column(last.key, last.literal, last.after + "\n{")]
    return [*others, _Column(None, last.literal + "\n{")]


def _form_c(entry: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that vary, as form C orders them, and what stands before each and after the last."""
    hashed, frame, text = [], [], ""
    for at, key in enumerate(sorted(entry.keys() - {"hash"})):
        text += f'{"," if at else "{"}"{key}":'
        if key == "op":
            text += f'"{entry[key]}"'
            continue
        quote = '"' if type(entry[key]) is str else ""
        hashed.append(key)
        frame.append(text + quote)
        text = quote
    return tuple(hashed), (*frame, text + "}")


def _stripped(column: list[str], before: str, after: str) -> str | None:
    """Return what stands between these two on each line, with commas between; None where they don't."""
    text = "".join(column)
    if not (text.startswith(before) and text.endswith(after)):
        return None
    return text[len(before) : len(text) - len(after)].replace(after + before, ",")


def _are_ordinary(text: str, count: int) -> bool:
    """Tell whether these are so many numbers, and written as form C writes them."""
    try:
        values = orjson.loads(f"[{text}]")
    except orjson.JSONDecodeError:
        return False
    if len(values) != count or not _NUMBERS.issuperset(map(type, values)):
        return False
    # Beyond these Python writes an exponent of its own kind, or an integer isn't JSON to us. In between
    # orjson writes what Python does; any other character that stood there would not be there again.
    return min(values) >= 1e-4 and max(values) < 1e15 and orjson.dumps(values) == f"[{text}]".encode()


def _are_strings(columns: dict[str, list[str]]) -> bool:
    """Check the strings: hashes are hashes, and all others hold no control character."""
    for key, column in columns.items():
        if key in ("seq", "prev", "hash"):
            continue  # compared with what they must be
        text = "".join(column)
        if key in HEX_KEYS:
            if set(map(len, column)) != {64} or not _is_hex(text):
                return False
        elif key in HEX32_KEYS:
            if set(map(len, column)) != {66} or not all(value.startswith("0x") for value in column):
                return False
            if not _is_hex("".join([value[2:] for value in column])):
                return False
        elif not text.isprintable():
            return False
    return True


def _is_hex(text: str) -> bool:
    try:
        return bytes.fromhex(text).hex() == text
    except ValueError:
        return False
