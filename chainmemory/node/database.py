"""The chain's one SQLite file, and its two faces for py-evm: a writer whose block is one commit, and readers.

What a crash leaves behind: everything a block changes (state, block, receipts, logs, signers, the pool's
removals) waits in memory until `BlockWriter.commit` writes it in one transaction with `synchronous=FULL`, so
after SIGKILL or power loss the file holds whole blocks only. A transaction offered by a client is a commit of
its own before its hash is returned. The file is in WAL mode: readers see the last commit and never wait.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chainmemory.errors import ConfigurationError, Unavailable
from chainmemory.node.evm import AtomicDBWriteBatch, BaseAtomicDB

SCHEMA_VERSION = 1
BUSY_SECONDS = 10.0
"""How long a write waits for the other process's; writes last milliseconds."""

_SCHEMA = """
CREATE TABLE kv(
    key BLOB PRIMARY KEY, value BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE pool(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE, sender BLOB NOT NULL,
    nonce BLOB NOT NULL, raw BLOB NOT NULL, UNIQUE(sender, nonce)
);
CREATE TABLE logs(
    block INTEGER NOT NULL, log_index INTEGER NOT NULL, tx_index INTEGER NOT NULL, tx_hash BLOB NOT NULL,
    address BLOB NOT NULL, topic0 BLOB, topic1 BLOB, topic2 BLOB, topic3 BLOB, data BLOB NOT NULL,
    PRIMARY KEY(block, log_index)
) WITHOUT ROWID;
CREATE INDEX logs_address ON logs(address, topic0, block);
CREATE INDEX logs_topic1 ON logs(topic1, block) WHERE topic1 IS NOT NULL;
CREATE INDEX logs_topic2 ON logs(topic2, block) WHERE topic2 IS NOT NULL;
CREATE INDEX logs_topic3 ON logs(topic3, block) WHERE topic3 IS NOT NULL;
CREATE TABLE proposals(
    address BLOB PRIMARY KEY, authorize INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE meta(
    name TEXT PRIMARY KEY, value TEXT NOT NULL
) WITHOUT ROWID;
"""


def open_connection(path: Path, *, read_only: bool = False, cache_mib: int = 8) -> sqlite3.Connection:
    """Open the chain's file; a writing connection creates the tables where there are none.

    The connection may cross threads but serves one at a time. Raises ConfigurationError for a file of another
    schema version, or that is no SQLite database.
    """
    try:
        return _opened(path, read_only, cache_mib)
    except sqlite3.DatabaseError as error:
        # An OperationalError (a permission, a lock) is no damage.
        damaged = not isinstance(error, sqlite3.OperationalError)
        advice = " Keep the file, and restore it from a backup." if damaged else ""
        raise ConfigurationError(f"{path} can't be opened as a chain: {error}.{advice}") from error


def _opened(path: Path, read_only: bool, cache_mib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA cache_size=-{cache_mib * 1024}")
    connection.execute("PRAGMA journal_size_limit=67108864")
    if not read_only:
        _create_tables(connection)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        connection.close()
        raise ConfigurationError(f"{path} has schema version {version}; this node reads {SCHEMA_VERSION}.")
    if read_only:
        connection.execute("PRAGMA query_only=ON")
    return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Make the writes inside one commit, or none of them.

    Raises Unavailable when the other process holds the file for longer than `BUSY_SECONDS`.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        raise Unavailable(f"The chain's file is busy: {error}.") from error
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _fetch(connection: sqlite3.Connection, key: bytes) -> bytes | None:
    row = connection.execute("SELECT value FROM kv WHERE key = ?", (bytes(key),)).fetchone()
    return None if row is None else row[0]


class ReadDatabase(BaseAtomicDB):
    """py-evm's view of one read-only connection; what a call computes is never written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads inside see the same commit, whatever is sealed meanwhile."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("COMMIT")

    def __getitem__(self, key: bytes) -> bytes:
        value = _fetch(self.connection, key)
        if value is None:
            raise KeyError(key)
        return value

    def _exists(self, key: bytes) -> bool:
        return _fetch(self.connection, key) is not None

    def __setitem__(self, key: bytes, value: bytes) -> None:
        raise TypeError("this database is read-only")

    def __delitem__(self, key: bytes) -> None:
        raise TypeError("this database is read-only")

    def atomic_batch(self) -> Any:
        """Never available here."""
        raise TypeError("this database is read-only")


class BlockWriter(BaseAtomicDB):
    """py-evm's view of the writing connection: writes wait in memory until `commit`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._pending: dict[bytes, bytes | None] = {}
        self._statements: list[tuple[str, list[tuple[Any, ...]]]] = []

    def __getitem__(self, key: bytes) -> bytes:
        value = self._pending[key] if key in self._pending else _fetch(self.connection, key)
        if value is None:
            raise KeyError(key)
        return value

    def _exists(self, key: bytes) -> bool:
        value = self._pending[key] if key in self._pending else _fetch(self.connection, key)
        return value is not None

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._pending[bytes(key)] = bytes(value)

    def __delitem__(self, key: bytes) -> None:
        if not self._exists(key):
            raise KeyError(key)
        self._pending[bytes(key)] = None

    @contextlib.contextmanager
    def atomic_batch(self) -> Iterator[Any]:
        """Collect py-evm's batch; it reaches the file with the block it belongs to."""
        with AtomicDBWriteBatch._commit_unless_raises(self) as batch:
            yield batch

    def later(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Have `statement` executed for each row within the next commit."""
        if rows:
            self._statements.append((statement, rows))

    def commit(self) -> None:
        """Write everything collected in one durable transaction."""
        written = [(key, value) for key, value in self._pending.items() if value is not None]
        deleted = [(key,) for key, value in self._pending.items() if value is None]
        with transaction(self.connection):
            self.connection.executemany("INSERT OR REPLACE INTO kv VALUES (?, ?)", sorted(written))
            self.connection.executemany("DELETE FROM kv WHERE key = ?", deleted)
            for statement, rows in self._statements:
                self.connection.executemany(statement, rows)
        self.forget()

    def forget(self) -> None:
        """Drop everything collected since the last commit."""
        self._pending.clear()
        self._statements.clear()
