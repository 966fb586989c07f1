"""JSON-RPC errors, with the codes and words clients know from geth."""

from __future__ import annotations

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000
RESPONSE_TOO_LARGE = -32003
TIMED_OUT = -32002
LIMIT_EXCEEDED = -32005
REVERTED = 3


class RpcError(Exception):
    """What a method can't do, as its `error` member says it."""

    def __init__(self, message: str, code: int = SERVER_ERROR, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data

    def to_json(self) -> dict[str, Any]:
        """Return the `error` member."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            body["data"] = self.data
        return body


def invalid_argument(index: int, problem: str) -> RpcError:
    """Return the error for a parameter that can't be read."""
    return RpcError(f"invalid argument {index}: {problem}", INVALID_PARAMS)
