"""What every string of the protocol must be, whoever says it."""

from __future__ import annotations

from typing import Final

from chainmemory.errors import Invalid

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer every JSON implementation reads exactly (RFC 8785 §3.2.2.3; protocol §1)."""


def is_unicode(text: str) -> bool:
    """Say whether a string has a UTF-8 form, that is, holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def printable(value: object, limit: int = 60) -> str:
    """Show a value inside an error sentence: shortened to `limit` characters, safe to encode and to print."""
    text = repr(value[: limit + 1]) if isinstance(value, str) else repr(value)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else text[:limit] + "…"


def check_text(value: object, field: str, *, limit: int) -> str:
    """Return a non-empty string of at most `limit` code points without U+0000 and lone surrogates.

    Raises: Invalid, naming `field`.
    """
    if not isinstance(value, str):
        raise Invalid(f"{field} must be a string, not {type(value).__name__}", field=field)
    if not 1 <= len(value) <= limit:
        raise Invalid(f"{field} must have 1 to {limit} characters; it has {len(value)}", field=field)
    if "\x00" in value or not is_unicode(value):
        raise Invalid(f"{field} must not contain U+0000 or lone surrogates", field=field)
    return value


def check_integer(value: object, field: str, low: int, high: int = MAX_SAFE_INTEGER) -> int:
    """Return an int between `low` and `high`; True and 2.0 are none here.

    Raises: Invalid, naming `field`.
    """
    if type(value) is not int or not low <= value <= high:
        raise Invalid(f"{field} must be an integer from {low} to {high}, not {printable(value)}", field=field)
    return value
