"""Statements compiled once, and the connection they run on.

SQLAlchemy's `Connection.execute` costs 60–100 µs a statement beside the database's own work; a save runs six.
So the statements of the noun files are written in SQLAlchemy Core, compiled once per dialect, and run on the
driver's own cursor. Statements whose text depends on the question (filters, IN lists) go through SQLAlchemy
as usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Executable, LargeBinary, Table, bindparam, literal, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ClauseElement, ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import Integer

_TOGETHER = 50
"""Rows in one INSERT of many; its parameters stay far below SQLite's 32,766."""

_DIALECTS: dict[str, Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="qmark"),
    "postgresql": postgresql.psycopg.dialect(paramstyle="format"),  # type: ignore[no-untyped-call]
}


class Statement:
    """One SQLAlchemy statement with its parameters in a fixed order, for `Session.run`."""

    def __init__(self, statement: ClauseElement, *names: str) -> None:
        """Take `statement`, whose `bindparam`s are given at each run as a tuple in the order of `names`."""
        self._statement = statement
        self._names = names
        self._compiled: dict[str, tuple[str, list[tuple[int, Any]] | None]] = {}

    def on(self, dialect: str) -> tuple[str, list[tuple[int, Any]] | None]:
        """Return the SQL for `dialect`, and how to lay out its parameters: None if exactly as declared,
        else one (index into the given tuple, or -1 and a constant) per placeholder."""
        known = self._compiled.get(dialect)
        if known is None:
            known = self._compiled[dialect] = self._compile(dialect)
        return known

    def _compile(self, dialect: str) -> tuple[str, list[tuple[int, Any]] | None]:
        compiled = self._statement.compile(dialect=_DIALECTS[dialect])
        assert isinstance(compiled, SQLCompiler)
        order = compiled.positiontup or []
        if "POSTCOMPILE" in str(compiled):
            raise RuntimeError(f"in_ has no text of its own before it runs; use one_of: {compiled}")
        unused = set(self._names) - set(order)
        if unused:
            raise RuntimeError(f"parameters {sorted(unused)} are not in the statement {compiled}")
        if tuple(order) == self._names:
            return str(compiled), None
        constants: Mapping[str, Any] = compiled.params
        layout = [
            (self._names.index(name), None) if name in self._names else (-1, constants[name])
            for name in order
        ]
        return str(compiled), layout


def one_of(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """Return the condition that `column` is one of these constants, for a `Statement`."""
    return or_(*(column == value for value in values))


def _lay_out(layout: list[tuple[int, Any]] | None, given: Sequence[Any]) -> Sequence[Any]:
    if layout is None:
        return given
    return [given[index] if index >= 0 else constant for index, constant in layout]


class Session:
    """One open transaction: the SQLAlchemy connection, and the driver's connection under it."""

    def __init__(self, connection: Connection, raw: Any, dialect: str) -> None:
        """Join `connection` with `raw`, the sqlite3 or psycopg connection it wraps."""
        self.connection = connection
        self.dialect = dialect
        # The nouns bound to this session (chainmemory.store.tx), made at first use and kept with it.
        self.nouns: Any = None
        self.raw = raw

    def run(self, statement: Statement, given: Sequence[Any] = ()) -> int:
        """Execute once and return the number of rows touched."""
        sql, layout = statement.on(self.dialect)
        return int(self.raw.execute(sql, _lay_out(layout, given)).rowcount)

    def run_many(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """Execute for each row in one go."""
        sql, layout = statement.on(self.dialect)
        if len(rows) == 1:
            self.raw.execute(sql, _lay_out(layout, rows[0]))
        elif rows:
            laid_out = rows if layout is None else [_lay_out(layout, row) for row in rows]
            if self.dialect == "sqlite":
                laid_out = self._insert_together(sql, laid_out)
            cursor = self.raw.cursor()
            cursor.executemany(sql, laid_out)
            cursor.close()

    def _insert_together(self, sql: str, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Insert rows many at a time, and return those left over.

        To SQLite each execution of a statement costs a round of setting up and giving up the interpreter's
        lock, a sixth of what a row takes; PostgreSQL's driver sends all of them at once anyway.
        """
        head, found, values = sql.rpartition(" VALUES ")
        if not found or not head.startswith("INSERT ") or not values.endswith(")"):
            return rows
        many = f"{head} VALUES {', '.join([values] * _TOGETHER)}"
        whole = len(rows) - len(rows) % _TOGETHER
        for at in range(0, whole, _TOGETHER):
            self.raw.execute(many, list(chain.from_iterable(rows[at : at + _TOGETHER])))
        return rows[whole:]

    def one(self, statement: Statement, given: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Execute and return the first row, or None."""
        sql, layout = statement.on(self.dialect)
        row: tuple[Any, ...] | None = self.raw.execute(sql, _lay_out(layout, given)).fetchone()
        return row

    def all(self, statement: Statement, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute and return every row."""
        sql, layout = statement.on(self.dialect)
        rows: list[tuple[Any, ...]] = self.raw.execute(sql, _lay_out(layout, given)).fetchall()
        return rows

    def query(self, statement: Executable, given: Mapping[str, Any] | None = None) -> Iterable[Sequence[Any]]:
        """Execute a statement built for this one question, through SQLAlchemy."""
        return self.connection.execute(statement, given or {})

    def execute(self, statement: Executable, given: Mapping[str, Any] | None = None) -> int:
        """Execute a write built for this one question and return the number of rows touched."""
        return int(self.connection.execute(statement, given or {}).rowcount)


class byte_position(FunctionElement[int]):  # noqa: N801 - named like an SQL function
    """`byte_position(column, bytes)`: where the bytes first stand in the column, from 1; 0 if nowhere."""

    type = Integer()
    inherit_cache = True

    def __init__(self, column: ColumnElement[bytes], wanted: bytes) -> None:
        super().__init__(column, literal(wanted, LargeBinary))


@compiles(byte_position, "sqlite")
def _instr(element: byte_position, compiler: SQLCompiler, **kw: Any) -> str:
    column, wanted = element.clauses
    return f"instr({compiler.process(column, **kw)}, {compiler.process(wanted, **kw)})"


@compiles(byte_position, "postgresql")
def _position(element: byte_position, compiler: SQLCompiler, **kw: Any) -> str:
    column, wanted = element.clauses
    return f"position({compiler.process(wanted, **kw)} in {compiler.process(column, **kw)})"


def insert_or_ignore(table: Table, *given: str, **constants: Any) -> Statement:
    """Return `INSERT … ON CONFLICT DO NOTHING` taking the columns `given`; `run` then tells 1 or 0 rows.

    So the database decides who was first, without a SELECT beforehand and without aborting the transaction.
    """
    statement = (
        upsert(table).values({name: bindparam(name) for name in given} | constants).on_conflict_do_nothing()
    )
    return Statement(statement, *given)
