"""The header of a memory event and its hash (protocol §3)."""

from __future__ import annotations

import functools
import re
from typing import Any, Final

from chainmemory.errors import Invalid
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.hashing import hex32, sha256, tagged_hash
from chainmemory.protocol.identity import check_account_id, check_slug
from chainmemory.protocol.text import check_integer, check_text, is_unicode, printable
from chainmemory.protocol.times import parse_time

CATEGORIES: Final = ("DECISION", "LEARNING", "INTERACTION", "STATE", "ERROR", "MILESTONE", "CUSTOM")
CONTENT_TYPES: Final = ("text/plain", "application/json")
SEALERS: Final = ("server", "client")
DEFAULT_KIND: Final = "memory.note"

MAX_TEXT: Final = 1_000
"""Most code points of a kind, a source, a subject's type or id, and a provenance value."""
MAX_PROVENANCE_KEYS: Final = 64

_HEX32: Final = re.compile(r"0x[0-9a-f]{64}")
_PROVENANCE_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


def event_hash(header: dict[str, Any]) -> str:
    """Hash a header as it stands (it is not checked again), hex32."""
    return hex32(tagged_hash("CM_MEMORY_EVENT_V1", canonical(header)))


def content_hash(plaintext: bytes) -> str:
    """Hash the plaintext of a memory (a JSON payload in JCS form), hex32."""
    return hex32(sha256(plaintext))


def build_header(
    *,
    account_id: str,
    number: int,
    project: str | None,
    kind: str,
    category: str,
    importance: int,
    source: str,
    subject: dict[str, str] | None,
    provenance: dict[str, str] | None,
    occurred_at: str,
    recorded_at: str,
    content_type: str,
    content_length: int,
    content_hash: str,
    sealed_by: str,
    salt: str,
) -> dict[str, Any]:
    """Make the header of one memory event from its sixteen checked values.

    Times are already in protocol form (parse_time), `content_length` is in bytes, `content_hash` and `salt`
    are hex32. An empty provenance becomes None. Strings are kept code point for code point.
    Raises: Invalid with the key as `field`.
    """
    return checked_header(
        check_account_id(account_id),
        check_integer(number, "number", 1),
        None if project is None else check_slug(project),
        check_text(kind, "kind", limit=MAX_TEXT),
        _one_of(category, "category", CATEGORIES),
        check_integer(importance, "importance", 1, 10),
        check_text(source, "source", limit=MAX_TEXT),
        _subject(subject),
        _provenance(provenance),
        _time(occurred_at, "occurred_at"),
        _time(recorded_at, "recorded_at"),
        _one_of(content_type, "content_type", CONTENT_TYPES),
        check_integer(content_length, "content_length", 0),
        _hex32(content_hash, "content_hash"),
        _one_of(sealed_by, "sealed_by", SEALERS),
        _hex32(salt, "salt"),
    )


def checked_header(
    account_id: str,
    number: int,
    project: str | None,
    kind: str,
    category: str,
    importance: int,
    source: str,
    subject: dict[str, str] | None,
    provenance: dict[str, str] | None,
    occurred_at: str,
    recorded_at: str,
    content_type: str,
    content_length: int,
    content_hash: str,
    sealed_by: str,
    salt: str,
) -> dict[str, Any]:
    """Make the header of values known to be what `build_header` asks for (to check them takes 15 µs)."""
    return {
        "account_id": account_id,
        "number": number,
        "project": project,
        "kind": kind,
        "category": category,
        "importance": importance,
        "source": source,
        "subject": subject,
        "provenance": provenance,
        "occurred_at": occurred_at,
        "recorded_at": recorded_at,
        "content_type": content_type,
        "content_length": content_length,
        "content_hash": content_hash,
        "sealed_by": sealed_by,
        "salt": salt,
    }


def _one_of(value: object, field: str, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise Invalid(f"{field} must be one of {', '.join(allowed)}, not {printable(value)}", field=field)
    return value


def _subject(subject: object) -> dict[str, str] | None:
    if subject is None:
        return None
    if not isinstance(subject, dict) or set(subject) != {"type", "id"}:
        raise Invalid('subject must be null or an object with exactly "type" and "id"', field="subject")
    return {key: check_text(subject[key], f"subject.{key}", limit=MAX_TEXT) for key in ("type", "id")}


def _provenance(provenance: object) -> dict[str, str] | None:
    if provenance is None:
        return None
    if not isinstance(provenance, dict) or len(provenance) > MAX_PROVENANCE_KEYS:
        raise Invalid(
            f"provenance must be null or an object of at most {MAX_PROVENANCE_KEYS} strings",
            field="provenance",
        )
    for key, value in provenance.items():
        if not isinstance(key, str) or not _PROVENANCE_KEY.fullmatch(key):
            raise Invalid(
                f"a provenance key is a-z, then up to 63 of a-z, 0-9 and '_', not {printable(key)}",
                field="provenance",
            )
        # Unlike the other strings it may be empty: a source system's blank run id is still its run id.
        if not isinstance(value, str) or len(value) > MAX_TEXT or "\x00" in value or not is_unicode(value):
            raise Invalid(
                f"provenance.{key} must be a string of at most {MAX_TEXT} characters without U+0000",
                field=f"provenance.{key}",
            )
    return dict(provenance) or None


def _time(value: str, field: str) -> str:
    if not (isinstance(value, str) and _is_normal(value)):
        raise Invalid(f"{field} must be in UTC with six decimals and Z", field=field)
    return value


@functools.lru_cache(maxsize=1024)
def _is_normal(time: str) -> bool:
    """Tell whether a time is in protocol form already (4 µs; the times of a batch repeat)."""
    try:
        return parse_time(time) == time
    except Invalid:
        return False


def _hex32(value: str, field: str) -> str:
    if not isinstance(value, str) or not _HEX32.fullmatch(value):
        raise Invalid(f"{field} must be 0x followed by 64 lower-case hex digits", field=field)
    return value
