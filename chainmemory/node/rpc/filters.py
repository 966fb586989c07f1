"""eth_newFilter and its kin: what happened since the caller last asked, kept in memory for five minutes."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from typing import Any

from chainmemory.node import pool
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import LIMIT_EXCEEDED, RpcError
from chainmemory.node.rpc.eth_logs import LogQuery, find_logs, search_range
from chainmemory.node.rpc.params import BlockRef, ParamError
from chainmemory.node.rpc.registry import Param, method
from chainmemory.node.rpc.shapes import hexed

MOST_FILTERS = 1_000
IDLE_SECONDS = 300.0
REMEMBERED_BLOCKS = 128
"""How deep a reorganisation can be for a filter to report the logs that were taken back."""


class Filter:
    """One filter: follows the canonical chain block by block, noticing when it turned to another branch."""

    def __init__(self, context: Context) -> None:
        head = context.head
        self.lock = threading.Lock()
        self.used = time.monotonic()
        self._seen: OrderedDict[int, tuple[bytes, list[Any]]] = OrderedDict()
        self._seen[head.block_number] = (bytes(head.hash), [])

    def changes(self, context: Context) -> list[Any]:
        """Return what happened since the last call."""
        gone, first = self._turn_back(context)
        fresh: list[Any] = []
        for number in range(first, context.head.block_number + 1):
            found = self.at(context, number)
            fresh += found
            self._seen[number] = (bytes(context.header(BlockRef(number=number)).hash), found)
        while len(self._seen) > REMEMBERED_BLOCKS:
            self._seen.popitem(last=False)
        return gone + fresh

    def at(self, context: Context, number: int) -> list[Any]:
        """Return what block `number` has for this filter."""
        return [hexed(context.header(BlockRef(number=number)).hash)]

    def taken_back(self, found: list[Any]) -> list[Any]:
        """Return what to say about results of blocks that left the chain."""
        del found
        return []

    def _turn_back(self, context: Context) -> tuple[list[Any], int]:
        """Forget blocks that left the chain; return what to say of them, and the next number to look at."""
        gone: list[Any] = []
        number = next(reversed(self._seen))
        while self._seen:
            number, (block_hash, found) = self._seen.popitem()
            header = context.find_header(BlockRef(number=number))
            if header is not None and header.hash == block_hash:
                self._seen[number] = (block_hash, found)
                return gone, number + 1
            gone = self.taken_back(found) + gone
        return gone, number  # turned deeper than remembered: go on from the oldest number known


class LogFilter(Filter):
    """Logs that match a query."""

    def __init__(self, context: Context, query: LogQuery) -> None:
        super().__init__(context)
        self.query = query

    def at(self, context: Context, number: int) -> list[Any]:
        if self.query.first.number is not None and number < self.query.first.number:
            return []
        if self.query.last.number is not None and number > self.query.last.number:
            return []
        return search_range(context, self.query, number, number)

    def taken_back(self, found: list[Any]) -> list[Any]:
        return [{**log, "removed": True} for log in found]


class PendingFilter(Filter):
    """Hashes of transactions that joined the pool."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        waiting = pool.everything(context.connection)
        self._last = waiting[-1].seq if waiting else 0

    def changes(self, context: Context) -> list[Any]:
        waiting = pool.everything(context.connection, self._last)
        self._last = waiting[-1].seq if waiting else self._last
        return [hexed(entry.hash) for entry in waiting]


class Filters:
    """The filters of all callers, bounded in number and idle time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._filters: dict[str, Filter] = {}

    def add(self, one: Filter) -> str:
        """Keep a filter; return its id (RpcError when there are too many)."""
        with self._lock:
            deadline = time.monotonic() - IDLE_SECONDS
            self._filters = {name: kept for name, kept in self._filters.items() if kept.used > deadline}
            if len(self._filters) >= MOST_FILTERS:
                raise RpcError(f"too many filters, at most {MOST_FILTERS} are kept", LIMIT_EXCEEDED)
            name = hex(secrets.randbits(120) | 1 << 120)
            self._filters[name] = one
            return name

    def get(self, name: str) -> Filter:
        """Return a filter (RpcError when it isn't, or is no longer, known)."""
        with self._lock:
            one = self._filters.get(name)
            if one is None or one.used < time.monotonic() - IDLE_SECONDS:
                self._filters.pop(name, None)
                raise RpcError("filter not found")
            one.used = time.monotonic()
            return one

    def remove(self, name: str) -> bool:
        """Forget a filter; say whether it was known."""
        with self._lock:
            return self._filters.pop(name, None) is not None


def _filter_id(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 66:
        raise ParamError("a filter id is a string")
    return value.lower()


@method("eth_newFilter", LogQuery)
def new_filter(context: Context, query: LogQuery) -> str:
    if query.block_hash is not None:
        raise RpcError("a filter follows the chain; use eth_getLogs for one block")
    return context.filters.add(LogFilter(context, query))


@method("eth_newBlockFilter")
def new_block_filter(context: Context) -> str:
    return context.filters.add(Filter(context))


@method("eth_newPendingTransactionFilter", Param(params.boolean, False))
def new_pending_filter(context: Context, _full: bool) -> str:
    return context.filters.add(PendingFilter(context))


@method("eth_getFilterChanges", _filter_id, slow=True)
def get_filter_changes(context: Context, name: str) -> list[Any]:
    one = context.filters.get(name)
    with one.lock:
        return one.changes(context)


@method("eth_getFilterLogs", _filter_id, slow=True)
def get_filter_logs(context: Context, name: str) -> list[Any]:
    one = context.filters.get(name)
    if not isinstance(one, LogFilter):
        raise RpcError("filter not found")
    return find_logs(context, one.query)


@method("eth_uninstallFilter", _filter_id)
def uninstall_filter(context: Context, name: str) -> bool:
    return context.filters.remove(name)
