"""PostgreSQL and engines that speak its protocol, through psycopg 3 and SQLAlchemy's pool."""

from __future__ import annotations

from typing import Any

import psycopg
from sqlalchemy import URL, Connection, create_engine, event, exc, inspect, text

from chainmemory.store.backend import commit, rollback
from chainmemory.store.faults import is_disconnect
from chainmemory.store.sql import Session

_POOL = 10
_OVERFLOW = 30
_WAIT_S = 30.0
# No transaction of ours pauses for anything but its own computing; a worker's lease is 15 s by default.
_FROZEN_S = 10


class PostgresqlBackend:
    """One database by URL; see `chainmemory.store.backend.Backend`."""

    def __init__(self, url: URL) -> None:
        """Take a `postgresql+psycopg` URL; nothing is connected yet."""
        self._engine = create_engine(
            url,
            pool_size=_POOL,
            max_overflow=_OVERFLOW,
            pool_timeout=_WAIT_S,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
        )
        event.listen(self._engine, "connect", _limit_idling)
        # One snapshot for all statements of a read, as SQLite gives.
        self._reading = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

    def begin_write(self) -> Session:
        """Take a connection; PostgreSQL begins with the first statement."""
        return _session(self._engine.connect())

    def begin_read(self) -> Session:
        """Take a connection for reading one snapshot."""
        return _session(self._reading.connect())

    def commit(self, session: Session) -> None:
        """Commit."""
        commit(session)

    def end(self, session: Session, error: BaseException | None) -> None:
        """Roll back what is open and give the connection back, or throw it away if it broke."""
        connection = session.connection
        try:
            if (error is not None and is_disconnect(error)) or session.raw.closed:
                connection.invalidate()
            else:
                _roll_back_or_drop(session)
        finally:
            connection.close()

    def lock_schema(self, connection: Connection) -> None:
        """Lock the row that tells the revision, where there is one already.

        Two processes that both find none run into each other at CREATE TABLE; the later one fails and looks
        again.
        """
        if inspect(connection).has_table("alembic_version"):
            connection.execute(text("SELECT version_num FROM alembic_version FOR UPDATE"))

    def scrub(self) -> None:
        """Vacuum: dead rows' space may be used again. (What the disk and old WAL files hold is the
        operator's.)
        """
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM memories, idempotency, state_versions, state_snapshots"))

    def close(self) -> None:
        """Close the pool."""
        self._engine.dispose()


def _roll_back_or_drop(session: Session) -> None:
    """Roll back; where that fails, close the connection, and the server rolls back itself.

    So it is no failure of the transaction's: what it read was read, what it committed is committed.
    """
    try:
        rollback(session)
    except (exc.SQLAlchemyError, psycopg.Error):
        session.connection.invalidate()


def _limit_idling(connection: Any, _: Any) -> None:
    """Let the server end a transaction whose process froze: its row locks would hold up everyone else."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{_FROZEN_S}s'")
    connection.commit()


def _session(connection: Connection) -> Session:
    return Session(connection, connection.connection.dbapi_connection, "postgresql")
