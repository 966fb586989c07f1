"""What the ledger's check reads: entries and headers as the bytes they are, whoever wrote them.

Text comes as bytes, so that a row somebody damaged past this program, even one that is no text any more, is
named and doesn't stop the check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import LargeBinary, bindparam, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from chainmemory.store.outbox_rows import ENQUEUE_ONCE, fresh
from chainmemory.store.sql import Session, Statement
from chainmemory.store.tables import ledger_entries, memories, state_versions

LOWEST = -(2**63)
HIGHEST = 2**63 - 1


class bytes_of(FunctionElement[bytes]):  # noqa: N801 - named like an SQL function
    """`bytes_of(column)`: a text column's bytes, in UTF-8 where it is text."""

    type = LargeBinary()
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        super().__init__(column)


@compiles(bytes_of, "sqlite")
def _cast(element: bytes_of, compiler: SQLCompiler, **kw: Any) -> str:
    (column,) = element.clauses
    return f"CAST({compiler.process(column, **kw)} AS BLOB)"


@compiles(bytes_of, "postgresql")
def _convert(element: bytes_of, compiler: SQLCompiler, **kw: Any) -> str:
    (column,) = element.clauses
    return f"convert_to({compiler.process(column, **kw)}, 'UTF8')"


class SealedMemory(NamedTuple):
    """What a memory's seals are computed from; `number` is as stored, in a damaged SQLite anything at all."""

    number: Any
    event_hash: Any
    forgotten: Any
    header: bytes
    content_blob: Any


class WholeMemory(NamedTuple):
    """A memory with all that is checked against its header, and what opens it."""

    number: Any
    event_hash: Any
    forgotten: Any
    header: bytes
    content_blob: Any
    wrapped_seed: Any
    project: Any
    importance: Any
    source: Any
    kind: Any
    occurred_at: Any
    recorded_at: Any


class SealedState(NamedTuple):
    """What a state version's seal is compared with."""

    version: Any
    account_id: Any
    state_hash: Any


_M, _L, _S = memories.c, ledger_entries.c, state_versions.c


def _columns(row: type[NamedTuple]) -> list[ColumnElement[Any]]:
    return [bytes_of(_M.header) if name == "header" else _M[name] for name in row._fields]


def _memories(row: type[NamedTuple]) -> Statement:
    return Statement(
        select(*_columns(row))
        .where(
            _M.account_id == bindparam("of"), _M.number >= bindparam("first"), _M.number <= bindparam("last")
        )
        .order_by(_M.number),
        "of",
        "first",
        "last",
    )


def _memories_after(row: type[NamedTuple]) -> Statement:
    return Statement(
        select(*_columns(row))
        .where(_M.account_id == bindparam("of"), _M.number > bindparam("after"))
        .order_by(_M.number)
        .limit(bindparam("limit")),
        "of",
        "after",
        "limit",
    )


_RANGE, _WHOLE_RANGE = _memories(SealedMemory), _memories(WholeMemory)
_AFTER, _WHOLE_AFTER = _memories_after(SealedMemory), _memories_after(WholeMemory)
_LINES = Statement(
    select(_L.seq, bytes_of(_L.entry))
    .where(_L.account_id == bindparam("of"), _L.seq > bindparam("after"))
    .order_by(_L.seq)
    .limit(bindparam("limit")),
    "of",
    "after",
    "limit",
)
_STATE = Statement(
    select(*(_S[name] for name in SealedState._fields)).where(
        _S.project_id == bindparam("of"), _S.version == bindparam("nr")
    ),
    "of",
    "nr",
)
_STATES = Statement(
    select(*(_S[name] for name in SealedState._fields))
    .where(_S.project_id == bindparam("of"), _S.version > bindparam("after"))
    .order_by(_S.version)
    .limit(bindparam("limit")),
    "of",
    "after",
    "limit",
)
_FOREIGN = Statement(
    select(_S.project_id).distinct().where(_S.account_id == bindparam("of")).order_by(literal_column("1")),
    "of",
)


class SealedRecords:
    """`tx.ledger.records`: reads as stored, for whoever checks."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def lines(
        self, account_id: str, *, after: Any = LOWEST, chunk: int = 1_024
    ) -> Iterator[tuple[Any, bytes]]:
        """Yield (seq, entry as it is stored) of every entry behind seq `after`, ascending by seq."""
        while rows := self._session.all(_LINES, (account_id, after, chunk)):
            yield from ((row[0], _bytes(row[1])) for row in rows)
            after = rows[-1][0]

    def memories(self, account_id: str, first: int, last: int) -> list[SealedMemory]:
        """Return the memories numbered `first` to `last`, ascending."""
        return [SealedMemory(*row) for row in self._session.all(_RANGE, (account_id, first, last))]

    def whole_memories(self, account_id: str, first: int, last: int) -> list[WholeMemory]:
        """Return the memories numbered `first` to `last`, ascending, with all that belongs to them."""
        return [WholeMemory(*row) for row in self._session.all(_WHOLE_RANGE, (account_id, first, last))]

    def whole_memory(self, account_id: str, number: Any) -> WholeMemory | None:
        """Return one memory, or None."""
        found = self._session.all(_WHOLE_RANGE, (account_id, number, number))
        return WholeMemory(*found[0]) if found else None

    def memories_after(self, account_id: str, after: Any, *, chunk: int = 500) -> Iterator[WholeMemory]:
        """Yield every memory numbered above `after`, ascending."""
        while rows := self._session.all(_WHOLE_AFTER, (account_id, after, chunk)):
            yield from (WholeMemory(*row) for row in rows)
            after = rows[-1][0]

    def state(self, project_id: str, version: int) -> SealedState | None:
        """Return one state version, or None."""
        row = self._session.one(_STATE, (project_id, version))
        return None if row is None else SealedState(*row)

    def states_after(self, project_id: str, after: Any, *, chunk: int = 500) -> Iterator[SealedState]:
        """Yield every version above `after` of a project, ascending."""
        while rows := self._session.all(_STATES, (project_id, after, chunk)):
            yield from (SealedState(*row) for row in rows)
            after = rows[-1][0]

    def projects_with_states(self, account_id: str) -> Sequence[str]:
        """Return the ids of all projects that have a state version under this account's name."""
        return [row[0] for row in self._session.all(_FOREIGN, (account_id,))]

    def enqueue(self, kind: str, subject: str, position: int, account_id: str, hash: str, now: str) -> None:
        """Let the worker anchor an adopted record, unless it is in the outbox already."""
        self._session.run(ENQUEUE_ONCE, fresh(kind, subject, position, account_id, hash, now))


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, (bytes, memoryview)) else b""
