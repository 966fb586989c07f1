"""The database: opened by URL, migrated, and used one transaction at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from chainmemory.errors import ConfigurationError, Conflict, Unavailable
from chainmemory.store.backend import Backend, in_session
from chainmemory.store.groups import GroupCommit
from chainmemory.store.migrate import migrate
from chainmemory.store.postgresql import PostgresqlBackend
from chainmemory.store.sqlite import SqliteBackend
from chainmemory.store.tx import Tx, tx_of
from chainmemory.store_file import damage_is_final, refuse_full, remember

T = TypeVar("T")

_ATTEMPTS = 5


class Database:
    """The store of one deployment.

    `with db.write() as tx:` commits at the end of the block and rolls back on any exception; `with db.read()
    as tx:` sees one consistent moment. Safe to share between threads; each process opens its own.
    """

    def __init__(self, backend: Backend) -> None:
        """Wrap an engine whose tables are migrated; use `Database.open`."""
        self._backend = backend
        # PostgreSQL runs writers side by side, and groups their commits itself.
        self._groups = GroupCommit(backend) if isinstance(backend, SqliteBackend) else None

    @classmethod
    def open(cls, url: str | Path) -> Database:
        """Open and migrate the database at `url`.

        `url` is a path or `sqlite:///path`, or `postgresql://…` (psycopg 3). Raises ConfigurationError for an
        address that is neither, tables of a newer version, or a file that is damaged or was lost; Unavailable
        where the server doesn't answer.
        """
        backend = _backend(str(url))
        try:
            if isinstance(backend, SqliteBackend):
                with damage_is_final(backend.path):
                    migrate(backend)
                remember(backend.path)
            else:
                migrate(backend)
        except BaseException:
            backend.close()
            raise
        return cls(backend)

    @property
    def path(self) -> Path | None:
        """The file it lies in; None for PostgreSQL."""
        return self._backend.path if isinstance(self._backend, SqliteBackend) else None

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """Open a transaction; one commit at the end, or nothing.

        A driver's error leaves as Conflict (a constraint; `try_again` for a lost race) or Unavailable.
        """
        with in_session(self._backend, self._backend.begin_write) as session:
            yield tx_of(session)
            self._backend.commit(session)

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """Open a transaction that only reads; Unavailable where the database doesn't answer."""
        with in_session(self._backend, self._backend.begin_read) as session:
            yield tx_of(session)

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a write transaction and return its result once that is durable.

        It runs again where the database lost a race and asks for it, so it must change nothing outside its
        transaction; on SQLite it may share the transaction with works of other threads
        (chainmemory.store.groups), and run in another thread. Raises what `work` raises, Conflict and
        Unavailable as `write` does.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._run(work)
            except Conflict as error:
                if error.code != "try_again" or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def transact_now(self, work: Callable[[Tx], T], *, wait_s: float) -> T:
        """Run `work` as `transact` does, if the turn to write comes within about `wait_s` seconds.

        For a caller that must not be kept waiting, such as an event loop. Raises Unavailable, with nothing
        done, where the turn doesn't come; always on PostgreSQL, where each statement is a wait of its own.
        """
        if not isinstance(self._backend, SqliteBackend):
            raise Unavailable("This store can't be written to without waiting.", code="busy")
        with in_session(self._backend, partial(self._backend.begin_write, wait_s)) as session:
            result = work(tx_of(session))
            self._backend.commit(session)
        return result

    def _run(self, work: Callable[[Tx], T]) -> T:
        if self._groups is not None:
            return self._groups.run(work)
        with self.write() as tx:
            return work(tx)

    def check(self) -> None:
        """Raise Unavailable unless the database answers with this version's tables, and its disk has room."""
        with in_session(self._backend, self._backend.begin_read) as session:
            session.raw.execute("SELECT version_num FROM alembic_version").fetchone()
        if self.path is not None:
            refuse_full(self.path)

    def scrub(self) -> None:
        """Wipe deleted content out of the files (protocol §4, forget): SQLite's write-ahead log is truncated.

        Raises Unavailable where a long read is in the way.
        """
        self._backend.scrub()

    def close(self) -> None:
        """Close every connection; the object is of no more use."""
        self._backend.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _backend(url: str) -> Backend:
    if "://" not in url:
        return SqliteBackend(Path(url))
    try:
        parsed = make_url(url)
    except ArgumentError:
        # Not quoted: it may hold a password.
        raise ConfigurationError(
            "The database URL can't be read; use sqlite:///path or postgresql://…"
        ) from None
    if parsed.get_backend_name() in ("postgresql", "postgres"):
        return PostgresqlBackend(parsed.set(drivername="postgresql+psycopg"))
    if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
        return SqliteBackend(Path(parsed.database))
    raise ConfigurationError(
        "The database must be a SQLite file (sqlite:///path) or PostgreSQL (postgresql://…)."
    )
