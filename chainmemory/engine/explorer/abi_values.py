"""ABI-encoded bytes as a tree of named values, for showing to people; bounded, whatever the bytes say.

A library's decoder expands every element, and elements may overlap: 64 KB of calldata can name a million
values. Anybody may put such calldata on a public chain, so here a reader decodes only what a page shows.
Source: the contract ABI specification, "Formal Specification of the Encoding".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eth_utils.address import to_checksum_address

from chainmemory.engine.explorer.text import readable
from chainmemory.errors import Invalid

MAX_VALUES: Final = 600
"""Values decoded of one call or event."""
MAX_ELEMENTS: Final = 50
"""Elements shown of one list."""
MAX_SHOWN_BYTES: Final = 256
"""Bytes shown of one byte string."""
MAX_DEPTH: Final = 8
_WORD: Final = 32
_ARRAY: Final = re.compile(r"(.*)\[([0-9]*)\]", re.ASCII)

Param = Mapping[str, Any]
"""A parameter as an ABI describes it: `name`, `type`, `components` for tuples."""


class NotEncoded(Invalid):
    """The bytes aren't an encoding of these types."""

    code = "not_encoded"


@dataclass(frozen=True, slots=True)
class Value:
    """One decoded value: `text` for a plain one, `items` for a list's elements or a tuple's members."""

    name: str
    type: str
    text: str | None = None
    items: tuple[Value, ...] | None = None
    total: int = 0
    """Elements of a list, or bytes of a byte string: all of them, shown or not."""

    @property
    def cut(self) -> int:
        """How many elements aren't shown."""
        return self.total - len(self.items) if self.items is not None else 0


def decode(params: Sequence[Param], data: bytes) -> tuple[Value, ...]:
    """Decode the arguments of a call, an event or an error. Raises NotEncoded."""
    return _Decoder(data).members(params, 0, 0)


def decode_word(param: Param, word: bytes) -> Value:
    """Decode an indexed argument of an event; what is no plain value is its hash there. Raises NotEncoded."""
    kind = str(param["type"])
    if kind in ("bytes", "string", "tuple") or _ARRAY.fullmatch(kind):
        return Value(str(param["name"]), f"hash of {kind}", "0x" + word.hex())
    return Value(str(param["name"]), kind, _plain(kind, word))


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_VALUES

    def members(self, params: Sequence[Param], base: int, depth: int) -> tuple[Value, ...]:
        """Decode a tuple whose encoding starts at `base`."""
        values, at = [], base
        for param in params:
            place = base + self._number(at) if _is_dynamic(param) else at
            values.append(self._value(param, place, depth))
            at += _head_size(param)
        return tuple(values)

    def _value(self, param: Param, at: int, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise NotEncoded("The values are nested too deeply.")
        self._left -= 1
        name, kind = str(param.get("name", "")), str(param["type"])
        if array := _ARRAY.fullmatch(kind):
            return self._list({**param, "type": array[1]}, array[2], name, kind, at, depth)
        if kind == "tuple":
            items = self.members(param["components"], at, depth + 1)
            return Value(name, kind, items=items, total=len(items))
        if kind in ("bytes", "string"):
            length = self._number(at)
            content = self._take(at + _WORD, length)
            return Value(name, kind, _string(kind, content), total=length)
        return Value(name, kind, _plain(kind, self._take(at, _WORD)))

    def _list(self, element: Param, fixed: str, name: str, kind: str, at: int, depth: int) -> Value:
        count, base = (int(fixed), at) if fixed else (self._number(at), at + _WORD)
        size = _head_size(element)
        if base + count * size > len(self._data):
            raise NotEncoded("A list is longer than the bytes that should hold it.")
        items = []
        for index in range(min(count, MAX_ELEMENTS)):
            if self._left <= 0:
                break
            head = base + index * size
            place = base + self._number(head) if _is_dynamic(element) else head
            items.append(self._value({**element, "name": ""}, place, depth + 1))
        return Value(name, kind, items=tuple(items), total=count)

    def _number(self, at: int) -> int:
        number = int.from_bytes(self._take(at, _WORD), "big")
        if number > len(self._data):
            raise NotEncoded("A length or a place lies beyond the bytes.")
        return number

    def _take(self, at: int, length: int) -> bytes:
        if at + length > len(self._data):
            raise NotEncoded("The bytes end too early.")
        return self._data[at : at + length]


def _is_dynamic(param: Param) -> bool:
    kind = str(param["type"])
    if array := _ARRAY.fullmatch(kind):
        return not array[2] or _is_dynamic({**param, "type": array[1]})
    if kind == "tuple":
        return any(_is_dynamic(member) for member in param["components"])
    return kind in ("bytes", "string")


def _head_size(param: Param) -> int:
    """Return how many bytes a value takes where it is listed: itself, or the place where it is."""
    if _is_dynamic(param):
        return _WORD
    kind = str(param["type"])
    if array := _ARRAY.fullmatch(kind):
        return int(array[2]) * _head_size({**param, "type": array[1]})
    if kind == "tuple":
        return sum(_head_size(member) for member in param["components"])
    return _WORD


def _plain(kind: str, word: bytes) -> str:
    """Write a value that fits one word. Raises NotEncoded where its padding isn't."""
    number = int.from_bytes(word, "big")
    if kind == "address":
        if number >> 160:
            raise NotEncoded("An address has more than 20 bytes.")
        return str(to_checksum_address(word[12:]))
    if kind == "bool":
        if number > 1:
            raise NotEncoded("A bool is neither 0 nor 1.")
        return "true" if number else "false"
    if kind.startswith("uint"):
        if number >> int(kind[4:] or 256):
            raise NotEncoded(f"A number is too large for {kind}.")
        return str(number)
    if kind.startswith("int"):
        bits = int(kind[3:] or 256)
        signed = number - (1 << 256) if number >> 255 else number
        if not -(1 << bits - 1) <= signed < 1 << bits - 1:
            raise NotEncoded(f"A number is too large for {kind}.")
        return str(signed)
    if kind.startswith("bytes"):
        size = int(kind[5:])
        if any(word[size:]):
            raise NotEncoded(f"A {kind} has more than {size} bytes.")
        return "0x" + word[:size].hex()
    raise NotEncoded(f"The type {kind} isn't known here.")


def _string(kind: str, content: bytes) -> str:
    if kind == "string":
        return readable(content.decode("utf-8", "replace"))
    shown = "0x" + content[:MAX_SHOWN_BYTES].hex()
    return shown if len(content) <= MAX_SHOWN_BYTES else shown + "…"
