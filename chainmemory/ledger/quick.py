"""Reading a page of ordinary ledger lines at once, ten times faster than the strict parser, or not at all.

A ledger has a million lines, and nearly all look alike: flat objects of strings and numbers, written by one
program with one order of keys and one kind of spacing. So the values that vary are picked out of a whole page
by one pattern, the page is written anew from them, and if that is the page, byte for byte, then this is what
the page says. Everything runs in the interpreter's C code, for all lines together. A page in which anything
at all is out of the ordinary is left to the strict reader, line by line; tests/property holds the two against
each other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from chainmemory.protocol.canonical import parse_json

PAGE: Final = 128
"""Lines read at once: what is made of them stays in the processor's cache."""

HEX_KEYS: Final = frozenset({"content_sha256", "blob_sha256", "rest_sha256", "fact_sha256"})
HEX32_KEYS: Final = frozenset({"project_id", "state_hash"})

_CHAINED: Final = ("seq", "prev", "hash")
"""The keys whose values are known beforehand, or compared with what they must be."""
_NUMBERS: Final = frozenset({int, float})
_SEPARATORS: Final = ((", ", ": "), (",", ":"))


class Page(NamedTuple):
    """Lines that all have one form and continue the chain without any fault."""

    op: str
    columns: dict[str, list[str]]
    """Of each key that varies the values in order; numbers as they are written."""
    hashes: list[str]


class _Template(NamedTuple):
    """A text with holes: what stands before each hole, and after the last; and the keys that fill them."""

    around: tuple[str, ...]
    keys: tuple[str, ...]

    def fill(self, columns: dict[str, list[str]], count: int) -> str:
        """Return `count` texts, one after another, filled from the columns."""
        width = 2 * len(self.keys) + 1
        parts: list[str] = [""] * (width * count)
        for at, key in enumerate(self.keys):
            parts[2 * at :: width] = [self.around[at]] * count
            parts[2 * at + 1 :: width] = columns[key]
        parts[width - 1 :: width] = [self.around[-1]] * count
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Form:
    """How a program writes its lines."""

    op: str
    line: _Template
    hashed: _Template
    """A line without its hash in form C, and LF."""
    numbers: frozenset[str]
    """The keys whose values are numbers, `seq` apart."""
    picked: tuple[str, ...]
    pattern: re.Pattern[str]
    """Picks the values of those keys out of a line."""

    def read(self, lines: Sequence[bytes], position: int, before: str) -> Page | None:
        """Read the lines from `position` on, after an entry with the hash `before`; None unless all of them
        have this form and are without fault.
        """
        count = len(lines)
        data = b"".join(lines) if lines[0].endswith(b"\n") else b"\n".join(lines) + b"\n"
        if b"\\" in data:
            return None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        rows = self.pattern.findall(text)
        if len(rows) != count:
            return None
        columns: dict[str, list[str]] = dict(
            zip(self.picked, map(list, zip(*rows, strict=True)), strict=True)
        )
        hashes = columns["hash"]
        columns["seq"] = list(map(str, range(position, position + count)))
        columns["prev"] = [before, *hashes[:-1]]
        # From here on the pattern needn't be believed: this is what the lines say, or they aren't read here.
        if self.line.fill(columns, count) != text or not self._are_plain(columns, count):
            return None
        forms = self.hashed.fill(columns, count).encode().split(b"\n")
        del forms[-1]
        computed = b"".join([digest.digest() for digest in map(hashlib.sha256, forms)]).hex()
        return Page(self.op, columns, hashes) if computed == "".join(hashes) else None

    def _are_plain(self, columns: dict[str, list[str]], count: int) -> bool:
        """Check the values: numbers are as form C writes them, hashes are hashes, and no other string holds
        a control character.
        """
        for key, column in columns.items():
            if key in _CHAINED:
                continue
            if key in self.numbers:
                if not _are_ordinary(",".join(column), count):
                    return False
            elif key in HEX_KEYS:
                if set(map(len, column)) != {64} or not _is_hex("".join(column)):
                    return False
            elif key in HEX32_KEYS:
                if set(map(len, column)) != {66} or not all(value.startswith("0x") for value in column):
                    return False
                if not _is_hex("".join([value[2:] for value in column])):
                    return False
            elif not "".join(column).isprintable():
                return False
        return True


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
    text = line.decode().removesuffix("\n")
    for comma, colon in _SEPARATORS:
        if json.dumps(entry, ensure_ascii=False, separators=(comma, colon)) == text:
            return _form(entry, op, comma, colon)
    return None


def _form(entry: dict[str, Any], op: str, comma: str, colon: str) -> Form:
    numbers = frozenset(key for key, value in entry.items() if type(value) is not str and key != "seq")
    pattern = "{" + comma.join(
        f"{re.escape(json.dumps(key, ensure_ascii=False))}{colon}{_value_pattern(key, value)}"
        for key, value in entry.items()
    )
    return Form(
        op=op,
        line=_template(entry, tuple(entry), comma, colon),
        hashed=_template(entry, tuple(sorted(entry.keys() - {"hash"})), ",", ":"),
        numbers=numbers,
        picked=tuple(key for key in entry if key not in ("op", "seq", "prev")),
        pattern=re.compile(pattern),
    )


def _value_pattern(key: str, value: object) -> str:
    if key == "op":
        return re.escape(json.dumps(value, ensure_ascii=False))
    inner = '[^"]*' if type(value) is str else "[0-9.]+"
    if key not in ("seq", "prev"):
        inner = f"({inner})"
    return f'"{inner}"' if type(value) is str else inner


def _template(entry: dict[str, Any], keys: tuple[str, ...], comma: str, colon: str) -> _Template:
    """Return how an object with these keys is written, `op` as it is and all others as holes."""
    around, text = [], "{"
    for at, key in enumerate(keys):
        text += f"{comma if at else ''}{json.dumps(key, ensure_ascii=False)}{colon}"
        if key == "op":
            text += json.dumps(entry[key], ensure_ascii=False)
            continue
        quote = '"' if type(entry[key]) is str else ""
        around.append(text + quote)
        text = quote
    return _Template((*around, text + "}\n"), tuple(key for key in keys if key != "op"))


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


def _is_hex(text: str) -> bool:
    try:
        return bytes.fromhex(text).hex() == text
    except ValueError:
        return False
