"""The store's rows, by plain SQL on a connection of its own: one moment of it, and nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, get_type_hints
from urllib.parse import quote, unquote

from chainmemory.errors import ConfigurationError, IntegrityError, Unavailable

_SQLITE: Final = "sqlite:///"
_AT_ONCE: Final = 200


class Rows(Protocol):
    """Rows of one moment of the store."""

    def all(self, sql: str, *given: object) -> Iterator[tuple[Any, ...]]:
        """Yield what a query with `?` for each value given finds, some rows at a time."""


@contextmanager
def open_rows(url: str) -> Iterator[Rows]:
    """Open a store by its URL (or a SQLite file by its path) for reading one moment of it.

    Raises ConfigurationError where there is none, IntegrityError where the file is damaged, Unavailable where
    it can't be read now.
    """
    if url.startswith("postgresql"):
        with _postgresql(url) as rows:
            yield rows
        return
    path = unquote(url.removeprefix(_SQLITE)).partition("?")[0]
    try:
        with _sqlite(path) as rows:
            yield rows
    except sqlite3.OperationalError as error:
        raise Unavailable(f"The store {path} can't be read: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise IntegrityError(f"The store {path} is damaged: {error}.", code="store_damaged") from error


def misfits(row: NamedTuple) -> list[str]:
    """Return the fields that hold a value of another type than they are declared with: SQLite keeps in any
    column whatever somebody puts there."""
    kinds = _kinds(type(row))
    return [name for name, value in zip(row._fields, row, strict=True) if not isinstance(value, kinds[name])]


@cache
def _kinds(row: type[NamedTuple]) -> dict[str, Any]:
    # SQLite has no booleans; it keeps 0 and 1.
    return {name: int if kind is bool else kind for name, kind in get_type_hints(row).items()}


@contextmanager
def _sqlite(path: str) -> Iterator[Rows]:
    try:
        # Read-only: a file that isn't there isn't made, and a log that a crash left is only read.
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise ConfigurationError(f"There is no store at {path}.") from error
    try:
        connection.text_factory = _text
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute("BEGIN")
        (words,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if words != "ok":
            raise IntegrityError(f"The store {path} is damaged: {words}.", code="store_damaged")
        yield _SqliteRows(connection)
    finally:
        connection.close()


def _text(stored: bytes) -> str | bytes:
    """Read text; what is none stays as it is: damage of one row, not the end of the whole check."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


class _SqliteRows:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, sql: str, *given: object) -> Iterator[tuple[Any, ...]]:
        yield from self._connection.execute(sql, given)


@contextmanager
def _postgresql(url: str) -> Iterator[Rows]:
    import psycopg

    plain = "postgresql" + url[url.index("://") :]
    try:
        with psycopg.connect(plain) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            yield _PostgresqlRows(connection)
    except psycopg.OperationalError as error:
        raise Unavailable(f"The store can't be read ({type(error).__name__}).") from error
    except psycopg.errors.UndefinedTable as error:
        raise Unavailable("There is no ChainMemory store in that database.") from error


class _PostgresqlRows:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._count = 0

    def all(self, sql: str, *given: object) -> Iterator[tuple[Any, ...]]:
        self._count += 1
        # A cursor on the server, so that a large table isn't in memory at once.
        with self._connection.cursor(name=f"verify_{self._count}") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(sql.replace("?", "%s"), given)
            yield from cursor
