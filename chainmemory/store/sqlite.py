"""SQLite: WAL, every commit on disk, one writer at a time.

Threads of this process queue for the write transaction at a lock, processes at a turnstile: SQLite's own busy
handler sleeps and polls, and is fair to nobody.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from chainmemory.errors import ConfigurationError, Unavailable
from chainmemory.store.backend import commit, rollback
from chainmemory.store.sql import Session
from chainmemory.store.turnstile import Turnstile
from chainmemory.store_file import refuse_emptied, refuse_lost

_WAIT_S = 30.0  # for another writer, in this process or in another
_IDLE_READERS = 16
_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA secure_delete=ON",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-32000",  # KiB
    "PRAGMA wal_autocheckpoint=4000",  # pages (16 MB): a page that changes often is copied back less often
)


class SqliteBackend:
    """One file; see `chainmemory.store.backend.Backend`."""

    def __init__(self, path: Path, *, wait_s: float = _WAIT_S) -> None:
        """Open the file, creating it readable by its owner alone, unless it was there before and is lost.

        Raises ConfigurationError.

        A write waits for its turn for about `wait_s` at each door.
        """
        self.path = path
        refuse_lost(path)
        self._wait_s = wait_s
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._turnstile = Turnstile(path.with_name(f"{path.name}-turn"))
        except OSError as error:
            raise ConfigurationError(
                f"The database file {path} can't be opened: {error.strerror}."
            ) from error
        self._engine = create_engine("sqlite://", creator=self._connect, poolclass=NullPool)
        self._turn = threading.Lock()
        self._turn_of: int | None = None
        self._writer: Session | None = None
        self._writer_waits_s = wait_s  # what SQLite was told last
        self._readers: list[Session] = []
        self._closed = False

    def begin_write(self, wait_s: float | None = None) -> Session:
        """Wait for this thread's turn, for at most about `wait_s` at each door, and begin immediately."""
        wait_s = self._wait_s if wait_s is None else wait_s
        me = threading.get_ident()
        if self._turn_of == me:
            raise RuntimeError("a write transaction is already open in this thread")
        if not self._turn.acquire(timeout=wait_s):
            raise Unavailable("The store is busy with other writes; try again.")
        self._turn_of = me
        try:
            if self._writer is None:
                self._writer = self._open()
                self._writer_waits_s = self._wait_s
            if wait_s != self._writer_waits_s:
                self._writer.raw.execute(f"PRAGMA busy_timeout={int(wait_s * 1000)}")
                self._writer_waits_s = wait_s
            self._turnstile.enter(wait_s)
            try:
                self._writer.raw.execute("BEGIN IMMEDIATE")
            finally:
                self._turnstile.leave()
        except BaseException:
            self._pass_turn()
            raise
        return self._writer

    def begin_read(self) -> Session:
        """Begin on a connection of its own, so that a writer never blocks it."""
        try:
            session = self._readers.pop()
        except IndexError:
            session = self._open()
            session.raw.execute("PRAGMA query_only=ON")
        try:
            session.raw.execute("BEGIN")
        except BaseException:
            session.connection.close()
            raise
        return session

    def commit(self, session: Session) -> None:
        """Commit: one fsync of the write-ahead log."""
        if session.connection.in_transaction():
            commit(session)
        else:
            session.raw.execute("COMMIT")  # prepared once; sqlite3's own commit() prepares it each time

    def end(self, session: Session, error: BaseException | None) -> None:  # noqa: ARG002
        """Roll back what is open; keep the connection for the next one, unless rolling back failed."""
        writing = session is self._writer
        try:
            if session.connection.in_transaction() or session.raw.in_transaction:
                rollback(session)
            if not writing and not self._closed and len(self._readers) < _IDLE_READERS:
                self._readers.append(session)
            elif not writing:
                session.connection.close()
        except BaseException:
            if writing:
                self._writer = None
            session.connection.invalidate()
            session.connection.close()
            raise
        finally:
            if writing:
                self._pass_turn()

    def lock_schema(self, connection: Connection) -> None:
        """Refuse a file that had tables once; the transaction began immediately, so it locks already."""
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, sqlite3.Connection)
        refuse_emptied(self.path, raw)

    def scrub(self) -> None:
        """Move the write-ahead log into the file and truncate it; deleted content is overwritten there
        already.
        """
        session = self.begin_write()
        try:
            session.raw.execute("ROLLBACK")
            busy = session.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            self._pass_turn()
        if busy:
            raise Unavailable("A long read keeps the write-ahead log from being truncated; try again.")

    def close(self) -> None:
        """Close every idle connection; the last one to close folds the write-ahead log into the file."""
        self._closed = True
        with self._turn:
            for session in [*self._readers, *([self._writer] if self._writer else [])]:
                session.connection.close()
            self._readers.clear()
            self._writer = None
        self._engine.dispose()
        self._turnstile.close()

    def _pass_turn(self) -> None:
        self._turn_of = None
        self._turn.release()

    def _open(self) -> Session:
        connection = self._engine.connect()
        return Session(connection, connection.connection.dbapi_connection, "sqlite")

    def _connect(self) -> sqlite3.Connection:
        # isolation_level None: the sqlite3 module begins nothing by itself. Connections wander between
        # threads, but are in one thread's hands at a time.
        raw = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=self._wait_s)
        raw.text_factory = _text
        for pragma in _PRAGMAS:
            raw.execute(pragma)
        _use_wal(raw, self._wait_s)
        return raw


def _text(stored: bytes) -> str | bytes:
    """Read text; what is none comes as it is, and whoever checks hashes finds that row altered: the module's
    own way raises, and so makes all rows beside it unreadable.
    """
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _use_wal(raw: Any, wait_s: float) -> None:
    """Switch to WAL; another process doing the same at this moment makes SQLite answer `locked` without
    waiting.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            mode = raw.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise ConfigurationError("SQLite can't use write-ahead logging here (a network file system?).")
        return
