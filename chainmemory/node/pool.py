"""The transactions waiting for a block, kept in the chain's own file.

A row is a promise: it is committed before its hash is returned, and leaves only with the block that holds the
transaction, with a better paying one of the same sender and nonce, or when it can never be executed any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chainmemory.node.evm import SignedTransactionAPI

INSERT = "INSERT OR IGNORE INTO pool(hash, sender, nonce, raw) VALUES (?, ?, ?, ?)"
DELETE = "DELETE FROM pool WHERE hash = ?"
DELETE_NONCE = "DELETE FROM pool WHERE sender = ? AND nonce = ?"


@dataclass(frozen=True, slots=True)
class Entry:
    """A waiting transaction, decoded as far as ordering and bounds need it."""

    seq: int
    hash: bytes
    sender: bytes
    nonce: int
    raw: bytes


def place_of(transaction: SignedTransactionAPI) -> tuple[bytes, bytes]:
    """Return the sender and nonce a transaction takes, for `DELETE_NONCE`."""
    return bytes(transaction.sender), transaction.nonce.to_bytes(8, "big")


def row_of(transaction: SignedTransactionAPI) -> tuple[Any, ...]:
    """Return the row that stores `transaction`, for `INSERT`."""
    return bytes(transaction.hash), *place_of(transaction), transaction.encode()


def find(connection: sqlite3.Connection, tx_hash: bytes) -> Entry | None:
    """Return the waiting transaction with this hash."""
    return next(_entries(connection.execute(f"{_SELECT} WHERE hash = ?", (tx_hash,))), None)


def of_sender(connection: sqlite3.Connection, sender: bytes) -> list[Entry]:
    """Return one sender's waiting transactions by rising nonce."""
    return list(_entries(connection.execute(f"{_SELECT} WHERE sender = ? ORDER BY nonce", (sender,))))


def everything(connection: sqlite3.Connection, after: int = 0, limit: int = -1) -> list[Entry]:
    """Return the waiting transactions in order of arrival, those after sequence number `after`."""
    return list(_entries(connection.execute(f"{_SELECT} WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit))))


def count(connection: sqlite3.Connection) -> int:
    """Return how many transactions wait."""
    number = connection.execute("SELECT count(*) FROM pool").fetchone()[0]
    assert isinstance(number, int)
    return number


def next_nonce(connection: sqlite3.Connection, sender: bytes, current: int) -> int:
    """Return the first nonce from `current` on that no waiting transaction of `sender` has taken."""
    taken = connection.execute(
        "SELECT nonce FROM pool WHERE sender = ? AND nonce >= ? ORDER BY nonce",
        (sender, current.to_bytes(8, "big")),
    )
    for (nonce,) in taken:
        if int.from_bytes(nonce, "big") != current:
            break
        current += 1
    return current


_SELECT = "SELECT seq, hash, sender, nonce, raw FROM pool"


def _entries(rows: Iterable[Any]) -> Any:
    for seq, tx_hash, sender, nonce, raw in rows:
        yield Entry(seq, tx_hash, sender, int.from_bytes(nonce, "big"), raw)
