"""Every 4xx and 5xx in one shape: `{"error", "code", "field", "details"}` (api.md, Conventions)."""

from __future__ import annotations

from typing import Any

import orjson

from chainmemory.errors import (
    ChainMemoryError,
    Conflict,
    Forbidden,
    IntegrityError,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
)

_STATUS: tuple[tuple[type[ChainMemoryError], int], ...] = (
    (Invalid, 422),
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (RateLimited, 429),
    (Unavailable, 503),
    (IntegrityError, 500),
)

MEANING = {
    401: "No key, or one that isn't valid",
    403: "The key's scope doesn't reach",
    404: "It doesn't exist, or belongs to another account",
    409: "The stored state forbids it",
    413: "Over a size limit",
    422: "The input itself is wrong",
    429: "Too many requests; `Retry-After` says when to come back",
    500: "Stored bytes don't match their hash, or something unexpected happened",
    503: "A part the request needs doesn't answer now",
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error", "code", "field", "details"],
    "additionalProperties": False,
    "properties": {
        "error": {"type": "string", "description": "a sentence that says what to do"},
        "code": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "description": "stable name"},
        "field": {"type": ["string", "null"], "description": "dotted path of the input at fault"},
        "details": {"type": "object"},
    },
}


class MethodNotAllowed(ChainMemoryError):
    """The path exists, the method doesn't (HTTP 405)."""

    code = "method_not_allowed"

    def __init__(self, allowed: list[str]) -> None:
        super().__init__(f"Use {' or '.join(allowed)} here.", details={"allowed": allowed})


def status_of(error: ChainMemoryError) -> int:
    """Return the HTTP status that an error of the tree answers with."""
    if isinstance(error, MethodNotAllowed):
        return 405
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return 500


def envelope(error: ChainMemoryError) -> bytes:
    """Return the body of an error answer."""
    return encode(
        {"error": error.message, "code": error.code, "field": error.field, "details": error.details}
    )


def headers_of(error: ChainMemoryError) -> list[tuple[bytes, bytes]]:
    """Return the headers that go with an error: `Retry-After`, `Allow`, `WWW-Authenticate`."""
    if isinstance(error, RateLimited):
        return [(b"retry-after", str(error.details.get("retry_after", 1)).encode())]
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.details["allowed"]).encode())]
    if isinstance(error, Unauthorized):
        return [(b"www-authenticate", b"Bearer")]
    return []


def encode(value: Any) -> bytes:
    """Return JSON in UTF-8, keys in the order given. A lone surrogate in it becomes `?`: an answer always
    goes out."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_printable(value))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_printable(str(key)): _printable(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(element) for element in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
