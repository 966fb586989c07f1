"""What the drivers raise, said in the errors of this project."""

from __future__ import annotations

import sqlite3

import psycopg
import psycopg.errors
from sqlalchemy import exc

from chainmemory.errors import ChainMemoryError, Conflict, Unavailable
from chainmemory.store_file import FULL, FULL_WORDS, damage, is_full_file

# Another transaction was in the way, and running the same work again can succeed.
_TRY_AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


def translate(error: BaseException) -> ChainMemoryError | None:
    """Return the domain error for a driver's or SQLAlchemy's error, or None if it is none of theirs.

    A broken constraint becomes Conflict, a lost race that may be run again Conflict with code `try_again`, a
    database that is locked, gone or not writable Unavailable, with a code of its own where its file is
    damaged (`store_damaged`) or its disk full (`store_full`). The text never quotes values: those may be
    secrets.
    """
    cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    if isinstance(cause, _TRY_AGAIN):
        return Conflict(
            "Another request changed the same rows at the same time; try again.", code="try_again"
        )
    if isinstance(cause, (sqlite3.IntegrityError, psycopg.IntegrityError)):
        return Conflict("The store already holds a row that forbids this one.")
    if isinstance(cause, sqlite3.Error) and (damaged := damage(cause)) is not None:
        return damaged
    if is_full(cause):
        return Unavailable(FULL_WORDS, code=FULL)
    if isinstance(cause, (sqlite3.OperationalError, psycopg.OperationalError)):
        return Unavailable(f"The database can't be used now ({_kind(cause)}); try again later.")
    if isinstance(cause, (sqlite3.DatabaseError, psycopg.DatabaseError, exc.SQLAlchemyError)):
        return Unavailable(f"The database failed ({_kind(cause)}).", code="store_failed")
    return None


def is_full(error: BaseException) -> bool:
    """Tell whether there was no room left on the database's disk."""
    return isinstance(error, psycopg.errors.DiskFull) or is_full_file(error)


def is_disconnect(error: BaseException) -> bool:
    """Tell whether the connection the error came from is of no more use."""
    cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    return isinstance(cause, psycopg.OperationalError) or isinstance(error, exc.DisconnectionError)


def _kind(error: BaseException) -> str:
    """Name an error without its message: PostgreSQL's quote values, SQLite's don't."""
    if isinstance(error, sqlite3.Error):
        return str(error)
    sqlstate = getattr(error, "sqlstate", None)
    return f"{type(error).__name__}{f' {sqlstate}' if sqlstate else ''}"
