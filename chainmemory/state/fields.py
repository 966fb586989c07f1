"""The types of an operation's fields (grammar, "Operations")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from chainmemory.protocol.canonical import canonical_user
from chainmemory.protocol.text import MAX_SAFE_INTEGER, is_unicode, printable
from chainmemory.state.rejection import invalid_value

SHORT: Final = 300
LONG: Final = 4_000
MAX_METRIC_VALUE: Final = 100
MAX_EVIDENCE: Final = 200

_NOT_BLANK: Final = re.compile(
    "[^\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an operation: reads its JSON value into the form the document keeps."""

    name: str
    required: bool = False

    @property
    def wants(self) -> str:
        """What a valid value is, to end a sentence with."""
        raise NotImplementedError

    def parse(self, value: Any) -> Any:
        """Return the value as the document keeps it; Rejection `invalid_value` otherwise."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Text(Field):
    """Text that is not blank, of at most `limit` code points.

    Its errors never quote the value: it may hold a secret, and it is long.
    """

    limit: int = SHORT

    @property
    def wants(self) -> str:
        return f"text of 1 to {self.limit} characters that is not blank"

    def parse(self, value: Any) -> str:
        if not isinstance(value, str):
            raise invalid_value(f"{self.name} must be {self.wants}, not {kind_of(value)}")
        if len(value) > self.limit:
            raise invalid_value(
                f"{self.name} has {len(value)} characters; shorten it to at most {self.limit}"
            )
        if not _NOT_BLANK.search(value):
            raise invalid_value(f"{self.name} is blank; it must be {self.wants}")
        _refuse_unstorable(value, self.name)
        return value


@dataclass(frozen=True, slots=True)
class Choice(Field):
    """One of a few words."""

    values: tuple[str, ...] = ()

    @property
    def wants(self) -> str:
        return f"one of {', '.join(self.values)}"

    def parse(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            raise invalid_value(f"{self.name} must be {self.wants}, not {shown(value)}")
        return value


@dataclass(frozen=True, slots=True)
class Integer(Field):
    """A whole number from `low` to `high`; 2.0 is 2, true is none."""

    low: int = 1
    high: int = MAX_SAFE_INTEGER

    @property
    def wants(self) -> str:
        top = "" if self.high == MAX_SAFE_INTEGER else f" to {self.high}"
        return f"a whole number from {self.low}{top}"

    def parse(self, value: Any) -> int:
        number = whole_number(value)
        if number is None or not self.low <= number <= self.high:
            given = shown(value) if isinstance(value, int | float) else kind_of(value)
            raise invalid_value(f"{self.name} must be {self.wants}, not {given}")
        return number


@dataclass(frozen=True, slots=True)
class Day(Field):
    """A calendar date."""

    @property
    def wants(self) -> str:
        return "a date as YYYY-MM-DD"

    def parse(self, value: Any) -> str:
        if isinstance(value, str) and _DATE.fullmatch(value):
            try:
                date.fromisoformat(value)
            except ValueError:
                raise invalid_value(f"{self.name} {value} is not in the calendar") from None
            return value
        raise invalid_value(f"{self.name} must be {self.wants}, not {shown(value)}")


@dataclass(frozen=True, slots=True)
class ItemId(Field):
    """The id of an item of one of `arrays`, or "@label"; whether it exists is asked later."""

    arrays: tuple[str, ...] = ()

    @property
    def wants(self) -> str:
        return 'an id, or "@label" of an earlier op'

    def parse(self, value: Any) -> str:
        if not isinstance(value, str):
            raise invalid_value(f"{self.name} must be {self.wants}, not {shown(value)}")
        return value


@dataclass(frozen=True, slots=True)
class ItemIds(Field):
    """A list of ids of items of one array, in the order given."""

    arrays: tuple[str, ...] = ()

    @property
    def wants(self) -> str:
        return 'a list of ids or "@label"s'

    def parse(self, value: Any) -> list[str]:
        if not isinstance(value, list):
            raise invalid_value(f"{self.name} must be {self.wants}, not {shown(value)}")
        for position, element in enumerate(value):
            if not isinstance(element, str):
                raise invalid_value(f"{self.name}[{position}] must be an id, not {shown(element)}")
        return list(value)


@dataclass(frozen=True, slots=True)
class MetricValue(Field):
    """A short string kept as it is, or a number kept as the string that RFC 8785 writes."""

    @property
    def wants(self) -> str:
        return f"a number within ±{MAX_SAFE_INTEGER} or a string of 1 to {MAX_METRIC_VALUE} characters"

    def parse(self, value: Any) -> str:
        if isinstance(value, str) and 1 <= len(value) <= MAX_METRIC_VALUE:
            _refuse_unstorable(value, self.name)
            return value
        if type(value) in (int, float) and abs(value) <= MAX_SAFE_INTEGER:
            return canonical_user(value).decode("ascii")
        raise invalid_value(f"{self.name} must be {self.wants}, not {shown(value)}")


def parse_evidence(value: Any) -> tuple[int, ...]:
    """Read `evidence_memory_ids`: at most 200 memory numbers; duplicates are dropped, the order is kept."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise invalid_value(f"evidence_memory_ids must be a list of memory numbers, not {shown(value)}")
    if len(value) > MAX_EVIDENCE:
        raise invalid_value(f"evidence_memory_ids has {len(value)} numbers; cite at most {MAX_EVIDENCE}")
    numbers = []
    for position, element in enumerate(value):
        number = whole_number(element)
        if number is None or number < 1:
            raise invalid_value(
                f"evidence_memory_ids[{position}] must be a memory number from 1, not {shown(element)}"
            )
        numbers.append(number)
    return tuple(dict.fromkeys(numbers))


def parse_ref(value: Any) -> str | None:
    """Read an op's own `ref`."""
    if value is None:
        return None
    if not is_label(value):
        raise invalid_value(
            f"ref must have 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-', not {shown(value)}"
        )
    return str(value)


def is_label(value: Any) -> bool:
    """Say whether a value has the form of a label."""
    return isinstance(value, str) and _LABEL.fullmatch(value) is not None


def whole_number(value: Any) -> int | None:
    """Read an integer as the grammar has it: 2.0 is 2, true is no number, beyond ±(2^53−1) is none."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and abs(value) <= MAX_SAFE_INTEGER:
        return value
    return None


def kind_of(value: Any) -> str:
    """Name a JSON value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names: dict[type, str] = {int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


def shown(value: Any) -> str:
    """Show a value in an error: numbers and strings shortened, of anything else only its type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number with more than 60 digits"  # and its decimal form would take quadratic time
    return printable(value) if isinstance(value, str | int | float) else kind_of(value)


def _refuse_unstorable(value: str, name: str) -> None:
    if "\x00" in value:
        raise invalid_value(f"{name} contains U+0000; leave it out")
    if not is_unicode(value):
        raise invalid_value(f"{name} contains a lone surrogate; send valid Unicode")
