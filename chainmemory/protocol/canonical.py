"""Canonical JSON: one value, one sequence of bytes (protocol §1, RFC 8785)."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson
import rfc8785

from chainmemory.errors import Invalid, InvalidJson
from chainmemory.protocol.text import MAX_SAFE_INTEGER, is_unicode

MAX_DEPTH: Final = 64
"""Deepest nesting accepted on input; the outermost value is 1 (protocol §1)."""

_OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_SAFE_DIGITS: Final = len(str(MAX_SAFE_INTEGER))
# Where none of these two occurs, no integer can leave ±(2^53−1) and no number can overflow a double.
# (Two patterns: as alternatives of one they take twice the time.)
_LONG_NUMBER: Final = re.compile(r"[0-9]{16}")
_LARGE_EXPONENT: Final = re.compile(r"[eE]\+?[0-9]{3}")
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
# A string, also one that never ends, so that the scan stays linear.
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_BRACKETS_ONLY: Final = bytes.maketrans(b"{}", b"[]"), bytes(set(range(256)) - set(b"[]{}"))


def canonical(value: Any) -> bytes:
    """Write one of our own structures in RFC 8785 form.

    `value` has ASCII keys and holds no floats: then orjson's code point order of keys is RFC 8785's, and
    its numbers and strings are too (tests/property compares it with the rfc8785 package).
    Raises: Invalid for an integer beyond ±(2^53−1), a lone surrogate or a type JSON doesn't have.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        raise Invalid(f"this value has no canonical JSON form: {error}") from error


def canonical_user(value: Any) -> bytes:
    """Write any JSON value a user sent (payloads, fact values) in RFC 8785 form.

    Raises: Invalid for an integer beyond ±(2^53−1), NaN, an infinity, a lone surrogate or a foreign type.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise Invalid(f"this value has no canonical JSON form: {error}") from error


def parse_json(data: bytes | str) -> Any:
    """Read JSON as protocol §1 accepts it; linear in time and safe on hostile input.

    `data`: UTF-8 bytes without a byte order mark, or text.
    Raises: InvalidJson for anything that isn't JSON, a duplicate key, NaN, Infinity, a number that overflows
    a double, a lone surrogate or nesting deeper than 64; Invalid (`invalid_value`) for an integer literal
    beyond ±(2^53−1).
    """
    text = _decode(data)
    _check_depth(text)
    return _Reader(text).read()


def _decode(data: bytes | str) -> str:
    if isinstance(data, str):
        if not is_unicode(data):
            raise InvalidJson("the text contains a lone surrogate; send valid Unicode")
        text = data
    else:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidJson(f"the bytes are not UTF-8 (at byte {error.start})") from error
    if text.startswith("\ufeff"):
        raise InvalidJson("JSON must not start with a byte order mark")
    return text


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the parser meets it, peeling the innermost level until none is left."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    left = _STRING.sub(b"", text.encode("utf-8")).translate(*_BRACKETS_ONLY)
    for _ in range(MAX_DEPTH):
        peeled = left.replace(b"[]", b"")
        if len(peeled) == len(left):
            break
        left = peeled
    # Unbalanced leftovers are the parser's to refuse, as long as they can't take it deep.
    if b"[]" in left or left.count(b"[") > MAX_DEPTH:
        raise InvalidJson(f"the JSON is nested deeper than {MAX_DEPTH} levels")


class _Reader:
    """One run of the standard library's parser with our refusals hooked in."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._too_big = False

    def read(self) -> Any:
        decoder = _DECODER
        if _LONG_NUMBER.search(self._text) or _LARGE_EXPONENT.search(self._text):
            decoder = json.JSONDecoder(**_HOOKS, parse_int=self._integer, parse_float=_finite)
        try:
            value = decoder.decode(self._text)
        except json.JSONDecodeError as error:
            raise InvalidJson(
                f"this is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            ) from error
        if _SURROGATE_ESCAPE.search(self._text):
            _refuse_lone_surrogates(value)
        if self._too_big:
            raise Invalid(f"an integer lies beyond ±{MAX_SAFE_INTEGER}; send it as a string")
        return value

    def _integer(self, literal: str) -> int:
        # The length is checked first: int() takes quadratic time on long literals.
        if len(literal) <= _SAFE_DIGITS + 1:
            number = int(literal)
            if abs(number) <= MAX_SAFE_INTEGER:
                return number
        # Noted, not raised: a later defect may still make the text no JSON at all, which comes first.
        self._too_big = True
        return 0


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise InvalidJson("an object has the same key twice")
    return result


def _refuse_constant(literal: str) -> Any:
    raise InvalidJson(f"{literal} is not JSON")


# What every text needs; json.loads would make a decoder of it each time.
_HOOKS: Final[dict[str, Any]] = {"object_pairs_hook": _unique, "parse_constant": _refuse_constant}
_DECODER: Final = json.JSONDecoder(**_HOOKS)


def _finite(literal: str) -> float:
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise InvalidJson("a number overflows a double")
    return number


def _refuse_lone_surrogates(value: Any) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if not is_unicode(item):
                raise InvalidJson("a string contains a lone surrogate")
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
