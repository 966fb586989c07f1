"""Reading one ordinary ledger line without the strict parser, or not at all.

For a flat object of strings and numbers without escapes orjson reads and writes the very same bytes as the
strict parser and form C do (tests/property compares them). Any other line is left to those.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from chainmemory.protocol.text import MAX_SAFE_INTEGER


def read_quickly(line: bytes) -> tuple[dict[str, Any], str] | None:
    """Return the object on a line and its hash as an entry (64 hex digits); None to read it the slow way."""
    if b"\\" in line:
        return None
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(entry) is not dict or type(entry.get("hash")) is not str:
        return None
    if not all(_is_plain(value) for value in entry.values() if type(value) is not str):
        return None
    rest = entry.copy()
    del rest["hash"]
    form = orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)
    # Without escapes each string has two quotes, so a key that stood there twice has left too many behind.
    if line.count(b'"') != form.count(b'"') + 4:
        return None
    return entry, hashlib.sha256(form).hexdigest()


def _is_plain(value: object) -> bool:
    if type(value) is int:
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    # Python writes other floats with an exponent of its own kind; an integer too long for orjson is one too.
    return type(value) is float and 1e-4 <= abs(value) < 1e16
