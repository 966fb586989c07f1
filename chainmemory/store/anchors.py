"""The outbox as an operator looks at it: listed, counted, explained, and made due (`chainmemory anchors`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, func, select, text, update

from chainmemory.store.outbox_rows import (
    ANCHORED,
    COLUMNS,
    COVERED,
    FAILED,
    MEMORY,
    PENDING,
    STATE,
    SUBMITTED,
    OutboxRow,
)
from chainmemory.store.sql import Session, Statement, one_of
from chainmemory.store.tables import OPEN, chain_transactions, citations, outbox, projects
from chainmemory.store.transactions import TransactionRow, read_transactions

_O = outbox.c
_IS_OPEN = text(OPEN)
# Open rows alone: the index of open rows answers, however much is anchored.
_OPEN_DEPTH = Statement(
    select(_O.kind, _O.status, func.count(), func.min(_O.created_at), func.sum(_O.attempts))
    .where(_IS_OPEN)
    .group_by(_O.kind, _O.status)
)
_WAITING = Statement(select(func.count()).where(_IS_OPEN, one_of(_O.status, [PENDING, FAILED, SUBMITTED])))
_NAME = Statement(
    select(projects.c.public_name).where(projects.c.project_id == bindparam("project")), "project"
)


class OpenDepth(NamedTuple):
    """How many rows of a kind and status are not finished, since when the oldest waits (time), and how many
    attempts they have behind them together.
    """

    kind: str
    status: str
    rows: int
    oldest: str
    attempts: int


class Anchors:
    """`tx.anchors`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def newest(
        self,
        *,
        kind: str | None = None,
        statuses: Sequence[str] = (),
        subject: str | None = None,
        limit: int = 50,
    ) -> list[OutboxRow]:
        """Return the newest rows of this kind, these statuses and this subject; None and () mean any."""
        query = select(*COLUMNS).order_by(_O.id.desc()).limit(limit)
        if kind is not None:
            query = query.where(_O.kind == kind)
        if statuses:
            query = query.where(_O.status.in_(statuses))
            if not {ANCHORED, COVERED}.intersection(statuses):
                query = query.where(_IS_OPEN)
        if subject is not None:
            query = query.where(_O.subject == subject)
        return self._rows(query)

    def get(self, outbox_id: int) -> OutboxRow | None:
        """Return one row by its id, or None."""
        return next(iter(self._rows(select(*COLUMNS).where(_O.id == outbox_id))), None)

    def project_name(self, project_id: str) -> str | None:
        """Return a project's public name, or None."""
        row = self._session.one(_NAME, (project_id,))
        return None if row is None else str(row[0])

    def open_depth(self) -> list[OpenDepth]:
        """Return the counts of what is not finished, by kind and status."""
        return [
            OpenDepth(row[0], row[1], row[2], row[3], int(row[4])) for row in self._session.all(_OPEN_DEPTH)
        ]

    def waiting(self) -> int:
        """Return how many rows wait for the chain, sent or not."""
        return int(self._session.all(_WAITING)[0][0])

    def transactions_with(self, outbox_id: int) -> list[TransactionRow]:
        """Return every transaction that ever carried a row, oldest first. Reads all of them: for people."""
        columns = [chain_transactions.c[name] for name in TransactionRow._fields]
        query = (
            select(*columns)
            .where(chain_transactions.c.outbox_ids.contains(str(outbox_id)))
            .order_by(chain_transactions.c.created_at)
        )
        found = read_transactions(self._session.query(query))
        return [row for row in found if outbox_id in row.outbox_ids]

    def waits_behind(self, row: OutboxRow) -> OutboxRow | None:
        """Return the lowest earlier version of a state's project that isn't finished, or None."""
        query = (
            select(*COLUMNS)
            .where(_IS_OPEN, _O.kind == STATE, _O.subject == row.subject, _O.position < row.position)
            .order_by(_O.position)
            .limit(1)
        )
        return next(iter(self._rows(query)), None) if row.kind == STATE else None

    def uncited(self, row: OutboxRow, *, limit: int = 10) -> list[int]:
        """Return memories, by number, that a state newly cites and that are not on chain yet."""
        query = (
            select(citations.c.number)
            .join(
                outbox,
                (_O.kind == MEMORY)
                & (_O.subject == citations.c.account_id)
                & (_O.position == citations.c.number),
            )
            .where(
                citations.c.project_id == row.subject,
                citations.c.version == row.position,
                _O.status.not_in([ANCHORED, COVERED]),
            )
            .distinct()
            .order_by(citations.c.number)
            .limit(limit)
        )
        return [int(found[0]) for found in self._session.query(query)] if row.kind == STATE else []

    def make_due(self, *, now: str, ids: Iterable[int] | None = None, subject: str | None = None) -> int:
        """Make failed rows (these, or a subject's, or all) due at `now`; return how many.

        Anyone may: it only moves a time, and whether and how to send stays with the lease's holder.
        """
        change = update(outbox).where(_IS_OPEN, _O.status == FAILED).values(next_attempt_at=now)
        if ids is not None:
            change = change.where(_O.id.in_(sorted(set(ids))))
        if subject is not None:
            change = change.where(_O.subject == subject)
        return self._session.execute(change)

    def _rows(self, query: Select[Any]) -> list[OutboxRow]:
        return [OutboxRow(*row) for row in self._session.query(query)]
