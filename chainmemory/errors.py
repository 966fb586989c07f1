"""The one error tree: the library raises these; the API, the CLI and MCP each translate them in one place."""

from __future__ import annotations

from typing import Any


class ChainMemoryError(Exception):
    """Something ChainMemory cannot do, said in a sentence that tells the caller what to do.

    `code` is the stable snake_case name (api.md), `field` the dotted path of the input at fault or None,
    `details` JSON-able extras.
    """

    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.field = field
        self.details = details or {}


class Invalid(ChainMemoryError):
    """The input itself is wrong; sending it again unchanged can't work (HTTP 422)."""

    code = "invalid_value"


class InvalidJson(Invalid):
    """The bytes are not JSON as protocol §1 accepts it."""

    code = "invalid_json"


class Unauthorized(ChainMemoryError):
    """No key, or not a valid one (HTTP 401)."""

    code = "unauthorized"


class Forbidden(ChainMemoryError):
    """A valid key whose scope doesn't reach (HTTP 403)."""

    code = "forbidden"


class NotFound(ChainMemoryError):
    """It doesn't exist, or belongs to another account (HTTP 404)."""

    code = "not_found"


class Conflict(ChainMemoryError):
    """The current state of the store forbids it (HTTP 409)."""

    code = "conflict"


class TooLarge(ChainMemoryError):
    """Over a named limit (HTTP 413)."""

    code = "too_large"


class RateLimited(ChainMemoryError):
    """Too many requests; `details["retry_after"]` is in seconds (HTTP 429)."""

    code = "rate_limited"


class Unavailable(ChainMemoryError):
    """A part the request needs (store, chain) doesn't answer now; trying later can work (HTTP 503)."""

    code = "unavailable"


class IntegrityError(ChainMemoryError):
    """Stored bytes don't match their hash or can't be decrypted: they were changed, or the key is wrong."""

    code = "integrity_error"


class ConfigurationError(ChainMemoryError):
    """A setting, file or address is wrong, so the process can't start or go on."""

    code = "configuration_error"
