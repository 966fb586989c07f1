"""eth_getLogs: search the index of logs, with a bound on what one answer holds."""

from __future__ import annotations

import time
from typing import Any

from chainmemory.node import logs
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import LIMIT_EXCEEDED, TIMED_OUT, RpcError
from chainmemory.node.rpc.params import BlockRef, ParamError
from chainmemory.node.rpc.registry import method
from chainmemory.node.rpc.shapes import log_json

MOST_LOGS = 10_000
MOST_LOG_BYTES = 10 * 1024 * 1024
MOST_ALTERNATIVES = 1_000
"""Addresses in a query, and values for one topic."""


class LogQuery:
    """A filter object, read."""

    def __init__(self, value: Any) -> None:
        criteria = params.json_object(value)
        self.block_hash: bytes | None = None
        self.first = BlockRef(tag="latest")
        self.last = BlockRef(tag="latest")
        if criteria.get("blockHash") is not None:
            if criteria.get("fromBlock") is not None or criteria.get("toBlock") is not None:
                raise ParamError(
                    "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other"
                )
            self.block_hash = params.hash32(criteria["blockHash"])
        if criteria.get("fromBlock") is not None:
            self.first = params.block_number(criteria["fromBlock"])
        if criteria.get("toBlock") is not None:
            self.last = params.block_number(criteria["toBlock"])
        self.addresses = _one_or_many(criteria.get("address"), params.address, "addresses")
        topics = criteria.get("topics")
        if topics is not None and not isinstance(topics, list):
            raise ParamError("invalid topic(s)")
        if topics and len(topics) > logs.TOPICS:
            raise ParamError("exceed max topics")
        self.topics = [_one_or_many(topic, params.hash32, "topics") for topic in topics or []]

    def is_upside_down(self) -> bool:
        """Say whether both ends are numbers and the first is the higher one."""
        first, last = self.first.number, self.last.number
        return first is not None and last is not None and first > last


def _one_or_many(value: Any, parser: params.Parser, what: str) -> list[bytes]:
    """Read one value, a list of alternatives, or nothing (any); a null among alternatives allows any."""
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    if len(items) > MOST_ALTERNATIVES:
        raise ParamError(f"at most {MOST_ALTERNATIVES} {what} are allowed")
    if any(item is None for item in items):
        return []
    return [parser(item) for item in items]


@method("eth_getLogs", LogQuery, slow=True)
def get_logs(context: Context, query: LogQuery) -> list[Any]:
    return find_logs(context, query)


def find_logs(context: Context, query: LogQuery) -> list[Any]:
    """Run a query; RpcError for a range that is upside down or an answer beyond `MOST_LOGS`."""
    if query.block_hash is not None:
        header = context.find_header(BlockRef(hash=query.block_hash))
        if header is None or not context.is_canonical(header):
            raise RpcError("unknown block")
        first = last = int(header.block_number)
    else:
        head = int(context.head.block_number)
        first, last = _height(query.first, head), min(_height(query.last, head), head)
        if query.is_upside_down():
            raise RpcError("invalid block range params")
    return search_range(context, query, first, last)


def search_range(context: Context, query: LogQuery, first: int, last: int) -> list[Any]:
    """Return the matching logs of canonical blocks `first` to `last` (RpcError beyond `MOST_LOGS`)."""
    try:
        found = logs.search(
            context.connection,
            first=first,
            last=last,
            addresses=query.addresses,
            topics=query.topics,
            limit=MOST_LOGS + 1,
            max_bytes=MOST_LOG_BYTES,
        )
    except logs.TooManyLogs as error:
        fits = max(first, error.block - 1)
        raise RpcError(
            f"query returned more than {MOST_LOGS} results or {MOST_LOG_BYTES} bytes; "
            f"try blocks {hex(first)} to {hex(fits)}",
            LIMIT_EXCEEDED,
            {"from": hex(first), "to": hex(fits), "limit": MOST_LOGS},
        ) from None
    hashes: dict[int, bytes] = {}
    for log in found:
        if time.monotonic() > context.deadline:
            raise RpcError("request timed out; ask for less at once", TIMED_OUT)
        if log.block not in hashes:
            hashes[log.block] = context.header(BlockRef(number=log.block)).hash
    return [log_json(log, hashes[log.block]) for log in found]


def _height(ref: BlockRef, head: int) -> int:
    if ref.number is not None:
        return ref.number
    return 0 if ref.tag == "earliest" else head
