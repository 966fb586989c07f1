"""What a caller may give: one declaration both checks a value and describes it as JSON Schema.

The HTTP API, its OpenAPI document and other doors read the same declarations, so they can't drift apart.
Every `check` raises Invalid with the dotted path of the value at fault.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from chainmemory.errors import Invalid
from chainmemory.protocol.identity import check_slug
from chainmemory.protocol.times import parse_time

Schema = dict[str, Any]

MAX_SAFE_INTEGER = 2**53 - 1
_DIGITS = re.compile(r"-?[0-9]{1,16}", re.ASCII)
_HASH = re.compile(r"(?:0x)?([0-9a-fA-F]{64})", re.ASCII)


class Kind(Protocol):
    """A kind of value."""

    def check(self, value: Any, path: str, /) -> Any:
        """Return the value in its normal form, or raise Invalid (`field` is `path`)."""

    def read(self, text: str, path: str, /) -> Any:
        """The same for a value of a query or a path, where everything is text."""

    def schema(self) -> Schema:
        """Return the JSON Schema of what `check` accepts."""


class _Plain:
    """Kinds whose text form is the value itself."""

    def check(self, value: Any, path: str) -> Any:
        raise NotImplementedError

    def read(self, text: str, path: str) -> Any:
        return self.check(text, path)


@dataclass(frozen=True)
class Text(_Plain):
    """A string of `low` to `high` code points, without U+0000 unless `nul`."""

    low: int = 1
    high: int = 300
    nul: bool = False
    pattern: str | None = None
    note: str | None = None

    def check(self, value: Any, path: str) -> str:
        if type(value) is not str:
            raise _wrong(path, "a string", value)
        if not self.low <= len(value) <= self.high:
            raise Invalid(
                f"{path} must have {self.low} to {self.high} characters, not {len(value)}.", field=path
            )
        if not self.nul and "\0" in value:
            raise Invalid(f"{path} must not contain the character U+0000; take it out.", field=path)
        if self.pattern is not None and re.fullmatch(self.pattern, value, re.ASCII) is None:
            raise Invalid(f"{path} must be {self.note or f'of the form {self.pattern}'}.", field=path)
        return value

    def schema(self) -> Schema:
        found: Schema = {"type": "string", "minLength": self.low, "maxLength": self.high}
        if self.pattern is not None:
            found["pattern"] = f"^{self.pattern}$"
        if self.note is not None:
            found["description"] = self.note
        return found


@dataclass(frozen=True)
class Integer:
    """A JSON number without fractional part (2.0 is 2, true is no number) from `low` to `high`."""

    low: int = -MAX_SAFE_INTEGER
    high: int = MAX_SAFE_INTEGER

    def check(self, value: Any, path: str) -> int:
        number = int(value) if type(value) is float and value.is_integer() else value
        if type(number) is not int or not self.low <= number <= self.high:
            raise _wrong(path, f"an integer from {self.low} to {self.high}", value)
        return number

    def read(self, text: str, path: str) -> int:
        if _DIGITS.fullmatch(text) is None:
            raise _wrong(path, f"an integer from {self.low} to {self.high}", text)
        return self.check(int(text), path)

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Boolean:
    """true or false; in a query also 1 and 0."""

    def check(self, value: Any, path: str) -> bool:
        if type(value) is not bool:
            raise _wrong(path, "true or false", value)
        return value

    def read(self, text: str, path: str) -> bool:
        known = {"1": True, "true": True, "0": False, "false": False}
        if text not in known:
            raise _wrong(path, "1, true, 0 or false", text)
        return known[text]

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Choice(_Plain):
    """One of a few strings."""

    allowed: tuple[str, ...]

    def check(self, value: Any, path: str) -> str:
        if type(value) is not str or value not in self.allowed:
            raise Invalid(
                f"{path} must be one of {', '.join(self.allowed)}, not {shown(value)}.",
                field=path,
                details={"allowed": list(self.allowed)},
            )
        return value

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.allowed)}


@dataclass(frozen=True)
class Moment(_Plain):
    """A point in time, protocol §1, put in UTC."""

    def check(self, value: Any, path: str) -> str:
        if type(value) is not str:
            raise _wrong(path, "a time such as 2026-09-13T22:02:35Z", value)
        try:
            return parse_time(value)
        except Invalid as error:
            raise Invalid(f"{path}: {error.message}.", field=path) from None

    def schema(self) -> Schema:
        return {
            "type": "string",
            "format": "date-time",
            "description": "RFC 3339 with an offset; put in UTC, decimals beyond six are cut off",
        }


@dataclass(frozen=True)
class Slug(_Plain):
    """A project's name."""

    def check(self, value: Any, path: str) -> str:
        if type(value) is not str:
            raise _wrong(path, "a project's slug", value)
        try:
            return check_slug(value)
        except Invalid as error:
            raise Invalid(f"{path}: {error.message}.", field=path) from None

    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"}


@dataclass(frozen=True)
class Hash(_Plain):
    """32 bytes as 64 hex digits, with or without 0x; normalised to hex32."""

    def check(self, value: Any, path: str) -> str:
        found = _HASH.fullmatch(value) if type(value) is str else None
        if found is None:
            raise _wrong(path, "64 hex digits, with or without 0x", value)
        return "0x" + found[1].lower()

    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^(0x)?[0-9a-fA-F]{64}$"}


@dataclass(frozen=True)
class Base64(_Plain):
    """Bytes in standard base64 with padding."""

    def check(self, value: Any, path: str) -> bytes:
        if type(value) is not str:
            raise Invalid(f"{path} must be a string in base64.", field=path)
        try:
            return base64.b64decode(value.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise Invalid(f"{path} must be standard base64 with padding.", field=path) from None

    def schema(self) -> Schema:
        return {"type": "string", "format": "byte", "contentEncoding": "base64"}


@dataclass(frozen=True)
class Anything(_Plain):
    """Left to the use case to check; `given` is the schema that describes it."""

    given: Mapping[str, Any]

    def check(self, value: Any, _path: str) -> Any:
        return value

    def schema(self) -> Schema:
        return dict(self.given)


@dataclass(frozen=True)
class Many:
    """An array of `low` to `high` values of one kind."""

    kind: Kind
    low: int = 0
    high: int = 200

    def check(self, value: Any, path: str) -> list[Any]:
        if type(value) is not list:
            raise _wrong(path, "an array", value)
        if not self.low <= len(value) <= self.high:
            raise Invalid(
                f"{path} must have {self.low} to {self.high} elements, not {len(value)}.", field=path
            )
        return [self.kind.check(element, f"{path}.{index}") for index, element in enumerate(value)]

    def read(self, text: str, path: str) -> list[Any]:
        return self.check(text.split(","), path)

    def schema(self) -> Schema:
        return {
            "type": "array",
            "items": self.kind.schema(),
            "minItems": self.low,
            "maxItems": self.high,
        }


@dataclass(frozen=True)
class Words(_Plain):
    """An object of strings whose keys have a given form, at most `most` of them; empty becomes None."""

    keys: str
    most: int
    longest: int

    def check(self, value: Any, path: str) -> dict[str, str] | None:
        if type(value) is not dict:
            raise _wrong(path, "an object of strings", value)
        if len(value) > self.most:
            raise Invalid(f"{path} may have at most {self.most} keys, not {len(value)}.", field=path)
        words = Text(0, self.longest)
        for key, word in value.items():
            if re.fullmatch(self.keys, key, re.ASCII) is None:
                raise Invalid(f"{path} has a key that is not of the form {self.keys}.", field=path)
            words.check(word, f"{path}.{key}")
        return value or None

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{self.keys}$"},
            "maxProperties": self.most,
            "additionalProperties": {"type": "string", "maxLength": self.longest},
        }


@dataclass(frozen=True)
class Field:
    """A key of a Record."""

    kind: Kind
    required: bool = False
    note: str | None = None

    def schema(self, *, nullable: bool) -> Schema:
        found = self.kind.schema()
        if nullable and not self.required:
            found = {"anyOf": [found, {"type": "null"}]}
        return {**found, "description": self.note} if self.note else found


class Record:
    """An object with named keys. An optional key given as null is as if not given.

    `strict` refuses a key not listed (`unknown_field`); otherwise it is ignored (api.md, Conventions).
    """

    def __init__(self, fields: Mapping[str, Kind | Field], *, strict: bool = False) -> None:
        self.fields: dict[str, Field] = {
            name: kind if isinstance(kind, Field) else Field(kind) for name, kind in fields.items()
        }
        self.strict = strict
        self._checks = {name: field.kind.check for name, field in self.fields.items()}
        self._required = [name for name, field in self.fields.items() if field.required]
        self._absent = dict.fromkeys(self.fields)

    def check(self, value: Any, path: str = "") -> dict[str, Any]:
        """Return every listed key, None where it wasn't given."""
        if type(value) is not dict:
            raise Invalid(
                f"{path or 'The body'} must be a JSON object.", code="invalid_request", field=path or None
            )
        prefix = f"{path}." if path else ""
        if self.strict:
            known = ", ".join(self.fields) or "none"
            for name in value:
                if name not in self.fields:
                    raise Invalid(
                        f"There is no field {shown(name)} here; there are: {known}.",
                        code="unknown_field",
                        field=prefix + name,
                    )
        for name in self._required:
            if value.get(name) is None:
                raise _absent(prefix + name, null=name in value)
        # What is given is gone through, not all that could be: most records have few of their keys.
        found: dict[str, Any] = self._absent.copy()
        for name, given in value.items():
            if given is not None and name in found:
                found[name] = self._checks[name](given, prefix + name)
        return found

    def read(self, text: str, path: str) -> Any:
        raise NotImplementedError("a record has no text form")

    def schema(self) -> Schema:
        found: Schema = {
            "type": "object",
            "properties": {name: field.schema(nullable=True) for name, field in self.fields.items()},
        }
        required = [name for name, field in self.fields.items() if field.required]
        if required:
            found["required"] = required
        if self.strict:
            found["additionalProperties"] = False
        return found


def need(kind: Kind, note: str | None = None) -> Field:
    """Mark a key of a Record as required."""
    return Field(kind, required=True, note=note)


def shown(value: Any) -> str:
    """Quote a value for an error sentence, shortened."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _wrong(path: str, wanted: str, value: Any) -> Invalid:
    return Invalid(f"{path} must be {wanted}, not {shown(value)}.", field=path)


def _absent(path: str, *, null: bool) -> Invalid:
    if null:
        return Invalid(f"{path} must not be null; give it a value.", field=path)
    return Invalid(f"{path} is missing; give it.", code="missing_field", field=path)
