"""What one request, and one address, may take: the size of a body, the rate of public requests."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from chainmemory.errors import RateLimited, TooLarge

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

IN_LOOP_BYTES = 16 * 1024  # a larger body is worked on in the pool, so that it doesn't hold up the others
MAX_ADDRESSES = 10_000  # addresses remembered at once; the longest unseen is dropped


class ClientGone(Exception):
    """The client hung up before its request was complete; nobody is there to answer."""


async def read_body(receive: Receive, declared: bytes | None, limit: int) -> bytes:
    """Return a request's body.

    `declared` is the Content-Length header, which may lie or be absent (chunked): the bytes themselves are
    counted. Raises TooLarge over `limit` bytes, ClientGone.
    """
    if declared is not None and declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise _too_large(limit)
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > limit:
            raise _too_large(limit)
        return body
    chunks = [body]
    size = len(body)
    while True:
        if size > limit:
            raise _too_large(limit)
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if not message.get("more_body", False):
            break
    if size > limit:
        raise _too_large(limit)
    return b"".join(chunks)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The body is larger than {limit} bytes; send less at once.", details={"limit_bytes": limit}
    )


class RateLimiter:
    """A token bucket per address: `burst` at once, then `per_minute`.

    An IPv6 address counts as its /64, since one host commonly owns that whole range. Used from the event loop
    alone.
    """

    def __init__(self, per_minute: int, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> None:
        """Count one request. Raises RateLimited with `retry_after` in whole seconds."""
        who = _network(address)
        now = self._clock()
        tokens, seen = self._buckets.pop(who, (self._burst, now))
        tokens = min(self._burst, tokens + (now - seen) * self._rate)
        allowed = tokens >= 1
        self._buckets[who] = (tokens - 1 if allowed else tokens, now)
        while len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = max(1, math.ceil((1 - tokens) / self._rate))
            raise RateLimited(
                f"Too many requests from your address; try again in {wait} seconds.",
                details={"retry_after": wait},
            )


def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        return str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
