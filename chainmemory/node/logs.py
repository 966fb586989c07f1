"""The index behind `eth_getLogs`: one row per log of a canonical block, written with the block."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chainmemory.node.evm import BlockAPI, ReceiptAPI

INSERT = "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
DELETE = "DELETE FROM logs WHERE block = ?"
TOPICS = 4


class TooManyLogs(Exception):
    """The answer would be too large; `block` is the first that doesn't fit."""

    def __init__(self, block: int) -> None:
        super().__init__(block)
        self.block = block


@dataclass(frozen=True)
class StoredLog:
    """One log with its place."""

    block: int
    log_index: int
    tx_index: int
    tx_hash: bytes
    address: bytes
    topics: tuple[bytes, ...]
    data: bytes


def rows_of(block: BlockAPI, receipts: Iterable[ReceiptAPI]) -> list[tuple[Any, ...]]:
    """Return the index rows of a block, for `INSERT`."""
    rows: list[tuple[Any, ...]] = []
    for tx_index, (transaction, receipt) in enumerate(zip(block.transactions, receipts, strict=True)):
        for log in receipt.logs:
            topics: list[bytes | None] = [topic.to_bytes(32, "big") for topic in log.topics]
            topics += [None] * (TOPICS - len(topics))
            place = (block.number, len(rows), tx_index, bytes(transaction.hash))
            rows.append((*place, bytes(log.address), *topics, bytes(log.data)))
    return rows


def of_block(connection: sqlite3.Connection, block: int, tx_index: int | None = None) -> list[StoredLog]:
    """Return the logs of one block, or of one of its transactions, in order."""
    statement, values = "SELECT * FROM logs WHERE block = ?", [block]
    if tx_index is not None:
        statement, values = statement + " AND tx_index = ?", [block, tx_index]
    return [_stored(row) for row in connection.execute(statement + " ORDER BY log_index", values)]


def search(
    connection: sqlite3.Connection,
    *,
    first: int,
    last: int,
    addresses: Sequence[bytes],
    topics: Sequence[Sequence[bytes]],
    limit: int,
    max_bytes: int,
) -> list[StoredLog]:
    """Return the logs of blocks `first` to `last`, oldest first.

    Raises TooManyLogs for `limit` of them or more, or more than `max_bytes` of data.

    No address means any; `topics[i]` lists what topic i may be, empty for anything (but a log must have at
    least `len(topics)` topics, as in geth).
    """
    conditions, values = ["block BETWEEN ? AND ?"], list[Any]([first, last])
    for column, allowed in [
        ("address", addresses),
        *((f"topic{i}", allowed) for i, allowed in enumerate(topics)),
    ]:
        if allowed:
            conditions.append(f"{column} IN ({','.join('?' * len(allowed))})")
            values.extend(allowed)
        elif column != "address":
            conditions.append(f"{column} IS NOT NULL")
    statement = f"SELECT * FROM logs WHERE {' AND '.join(conditions)} ORDER BY block, log_index LIMIT ?"
    found: list[StoredLog] = []
    size = 0
    for row in connection.execute(statement, [*values, limit]):
        found.append(_stored(row))
        size += len(found[-1].data)
        if len(found) == limit or size > max_bytes:
            raise TooManyLogs(found[-1].block)
    return found


def _stored(row: Sequence[Any]) -> StoredLog:
    block, log_index, tx_index, tx_hash, address, *topics, data = row
    return StoredLog(
        block, log_index, tx_index, tx_hash, address, tuple(t for t in topics if t is not None), data
    )
