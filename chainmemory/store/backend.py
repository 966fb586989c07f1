"""What the store asks of a database engine besides SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection

from chainmemory.store.faults import translate
from chainmemory.store.sql import Session


class Backend(Protocol):
    """Opens, ends and gives back transactions; SQLite and PostgreSQL differ in nothing else."""

    def begin_write(self) -> Session:
        """Open a transaction that may write; waits for its turn where only one can."""
        ...

    def begin_read(self) -> Session:
        """Open a transaction that sees one consistent moment and writes nothing."""
        ...

    def commit(self, session: Session) -> None:
        """Make the transaction durable."""
        ...

    def end(self, session: Session, error: BaseException | None) -> None:
        """Undo what was not committed and give the connection back; `error` is why, or None."""
        ...

    def lock_schema(self, connection: Connection) -> None:
        """Make other processes that want to migrate wait for this transaction."""
        ...

    def scrub(self) -> None:
        """Wipe what was deleted out of the files as far as the engine can; raises Unavailable if it can't
        now.
        """
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


@contextmanager
def in_session(backend: Backend, begin: Callable[[], Session]) -> Iterator[Session]:
    """Open a transaction with `begin`, undo what the block didn't commit, and say drivers' errors in ours."""
    failure: BaseException | None = None
    session: Session | None = None
    try:
        session = begin()
        yield session
    except BaseException as error:
        failure = error
        known = translate(error)
        if known is not None:
            raise known from error
        raise
    finally:
        if session is not None:
            backend.end(session, failure)


def commit(session: Session) -> None:
    """Commit through whichever side opened the transaction: SQLAlchemy, if it ran a statement, or the
    driver.
    """
    if session.connection.in_transaction():
        try:
            session.connection.commit()
        except BaseException:
            # SQLAlchemy counts a transaction whose commit failed as over, and yet refuses all that follows on
            # the connection until it is rolled back: one bad write would put the process out of work.
            session.connection.rollback()
            raise
    else:
        session.raw.commit()


def rollback(session: Session) -> None:
    """Roll back through whichever side opened the transaction."""
    if session.connection.in_transaction():
        session.connection.rollback()
    else:
        session.raw.rollback()
