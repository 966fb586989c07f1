"""From the bytes of a request to the bytes of its answer."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
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
from chainmemory.node.rpc.context import Budget, Context
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
from chainmemory.node.rpc.shapes import hexed

__all__ = ["NAMESPACES", "answer", "error_body"]

NAMESPACES = (clique, debug, eth_call, eth_chain, eth_fees, eth_logs, eth_send, eth_state, filters, net)
"""Importing them fills the table of methods."""

MAX_BATCH = 1_000
QUICK_BATCH = 20
"""More requests than this in one batch take their time, whatever they ask; but see `OFFER`."""
MAX_ANSWER_BYTES = 25 * 1024 * 1024
OFFER = "eth_sendRawTransaction"
POOL_SECONDS = 30.0
"""How long a transaction may take to become durable."""

log = logging.getLogger("chainmemory.node")


def is_quick(body: bytes) -> bool:
    """Say whether a request or a batch takes a few milliseconds at most, or waits for the disk alone."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return True
    names = [
        one["method"] if isinstance(one, dict) and isinstance(one.get("method"), str) else ""
        for one in (request if isinstance(request, list) else [request])
    ]
    if len(names) > QUICK_BATCH and any(name != OFFER for name in names):
        return False
    return not any(name in METHODS and METHODS[name].slow for name in names)


def answer(context: Context, body: bytes, deadline: float, budget: Budget | None = None) -> bytes:
    """Answer a request or a batch; empty when it holds only notifications. Never raises.

    What isn't begun at `deadline` (of the monotonic clock) or within the budget is refused.
    """
    context.budget = budget or Budget()
    context.deadline = min(deadline, time.monotonic() + context.budget.seconds)
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
    for reply in _replies(context, requests):
        part = _dump(reply)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            parts.append(_dump(_failure(reply.get("id"), RpcError("response too large", RESPONSE_TOO_LARGE))))
            break
        parts.append(part)
    return b"[" + b",".join(parts) + b"]" if parts else b""


def _replies(context: Context, requests: list[Any]) -> Iterator[dict[str, Any]]:
    """Answer a batch in order; transactions offered one after another share their commits."""
    offered: list[_Started] = []
    for request in requests:
        if not (isinstance(request, dict) and request.get("method") == OFFER):
            yield from _finish_all(offered)  # whatever comes next sees what came before
            offered = []
        offered.append(_start(context, request))
    yield from _finish_all(offered)


def _finish_all(started: list[_Started]) -> Iterator[dict[str, Any]]:
    for one in started:
        reply = one.finish()
        if reply is not None:
            yield reply


def _answer_one(context: Context, request: Any) -> dict[str, Any] | None:
    """Answer one request object; None for a notification."""
    return _start(context, request).finish()


@dataclass
class _Started:
    """A request whose method has run, though its outcome may still be on its way to the disk."""

    call_id: Any
    wants_reply: bool
    outcome: Any
    """The result, an RpcError, or a future of either."""
    name: str = ""

    def finish(self) -> dict[str, Any] | None:
        """Return the reply, None for a notification."""
        outcome = self.outcome
        if isinstance(outcome, Future):
            try:
                outcome = _guarded(self.name, lambda: hexed(self.outcome.result(POOL_SECONDS)))
            except RpcError as error:
                outcome = error
        if not self.wants_reply:
            return None
        if isinstance(outcome, RpcError):
            return _failure(self.call_id, outcome)
        return {"jsonrpc": "2.0", "id": self.call_id, "result": outcome}


def _start(context: Context, request: Any) -> _Started:
    problem = RpcError("invalid request", INVALID_REQUEST)
    if not isinstance(request, dict):
        return _Started(None, True, problem)
    call_id, name = request.get("id"), request.get("method")
    if isinstance(call_id, (dict, list, bool)):
        return _Started(None, True, problem)
    if request.get("jsonrpc") != "2.0" or not isinstance(name, str):
        return _Started(call_id, True, problem)
    try:
        outcome = _run(context, name, request.get("params"))
    except RpcError as error:
        outcome = error
    return _Started(call_id, "id" in request, outcome, name)


def _run(context: Context, name: str, params: Any) -> Any:
    if time.monotonic() > context.deadline:
        raise RpcError("request timed out", TIMED_OUT)
    found = METHODS.get(name)
    if found is None:
        raise RpcError(f"the method {name} does not exist/is not available", METHOD_NOT_FOUND)

    def call() -> Any:
        with context.database.snapshot():
            return found.call(context, params)

    return _guarded(name, call)


def _guarded(name: str, work: Callable[[], Any]) -> Any:
    """Do a method's work; whatever goes wrong becomes an RpcError."""
    try:
        return work()
    except RpcError:
        raise
    except Refused as refusal:
        raise RpcError(str(refusal)) from None
    except TimeoutError:
        raise RpcError("the pool doesn't answer", INTERNAL_ERROR) from None
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise RpcError("request timed out; ask for less at once", TIMED_OUT) from None
        log.warning("%s failed: %s", name, error)
        raise RpcError(str(error), INTERNAL_ERROR) from error
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
