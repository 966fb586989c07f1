"""From the bytes of a request to the bytes of its answer."""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import Any

import orjson

from chainmemory.errors import ChainMemoryError
from chainmemory.node.admission import Refused
from chainmemory.node.rpc import (
    clique,
    debug,
    eth_call,
    eth_chain,
    eth_fees,
    eth_logs,
    eth_send,
    eth_state,
    filters,
    net,
)
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESPONSE_TOO_LARGE,
    TIMED_OUT,
    RpcError,
)
from chainmemory.node.rpc.registry import METHODS

__all__ = ["NAMESPACES", "answer", "error_body"]

NAMESPACES = (clique, debug, eth_call, eth_chain, eth_fees, eth_logs, eth_send, eth_state, filters, net)
"""Importing them fills the table of methods."""

MAX_BATCH = 1_000
MAX_ANSWER_BYTES = 25 * 1024 * 1024

log = logging.getLogger("chainmemory.node")


def answer(context: Context, body: bytes, deadline: float) -> bytes:
    """Answer a request or a batch; empty when it holds only notifications. Never raises.

    What isn't begun at `deadline` (of the monotonic clock) is refused.
    """
    context.deadline = deadline
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _dump(_failure(None, RpcError("parse error", PARSE_ERROR)))
    if not isinstance(request, list):
        reply = _answer_one(context, request)
        return b"" if reply is None else _dump(reply)
    if not request:
        return _dump(_failure(None, RpcError("empty batch", INVALID_REQUEST)))
    if len(request) > MAX_BATCH:
        return _dump(_failure(None, RpcError("batch too large", INVALID_REQUEST)))
    return _answer_batch(context, request)


def _answer_batch(context: Context, requests: list[Any]) -> bytes:
    parts: list[bytes] = []
    size = 0
    for request in requests:
        reply = _answer_one(context, request)
        if reply is None:
            continue
        part = _dump(reply)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            parts.append(_dump(_failure(reply.get("id"), RpcError("response too large", RESPONSE_TOO_LARGE))))
            break
        parts.append(part)
    return b"[" + b",".join(parts) + b"]" if parts else b""


def _answer_one(context: Context, request: Any) -> dict[str, Any] | None:
    """Answer one request object; None for a notification."""
    problem = RpcError("invalid request", INVALID_REQUEST)
    if not isinstance(request, dict):
        return _failure(None, problem)
    call_id = request.get("id")
    if isinstance(call_id, (dict, list, bool)) or request.get("jsonrpc") != "2.0":
        return _failure(call_id if not isinstance(call_id, (dict, list, bool)) else None, problem)
    name = request.get("method")
    if not isinstance(name, str):
        return _failure(call_id, problem)
    try:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": call_id, "result": _run(context, name, request)}
    except RpcError as error:
        reply = _failure(call_id, error)
    return reply if "id" in request else None


def _run(context: Context, name: str, request: dict[str, Any]) -> Any:
    if time.monotonic() > context.deadline:
        raise RpcError("request timed out", TIMED_OUT)
    found = METHODS.get(name)
    if found is None:
        raise RpcError(f"the method {name} does not exist/is not available", METHOD_NOT_FOUND)
    try:
        with context.database.snapshot():
            return found.call(context, request.get("params"))
    except RpcError:
        raise
    except Refused as refusal:
        raise RpcError(str(refusal)) from None
    except (ChainMemoryError, sqlite3.Error) as error:
        log.warning("%s failed: %s", name, error)
        raise RpcError(str(error), INTERNAL_ERROR) from error
    except Exception as error:
        # A bug of ours must not take the node down, nor pass unseen.
        log.exception("%s failed", name)
        raise RpcError(f"internal error in {name}", INTERNAL_ERROR) from error


def _failure(call_id: Any, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "error": error.to_json()}


def error_body(message: str, code: int) -> bytes:
    """Return an error's bytes for a request that never got as far as a method."""
    return _dump(_failure(None, RpcError(message, code)))


def _dump(reply: dict[str, Any]) -> bytes:
    return orjson.dumps(reply)
