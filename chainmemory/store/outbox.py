"""The outbox: what waits for the chain, what was sent, and what is witnessed (design.md, The anchor worker).

Every change needs the worker's lease: a worker that lost it writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, func, or_, select, text, tuple_, update
from sqlalchemy.sql import Select

from chainmemory.store.leases import Lease, Leases
from chainmemory.store.outbox_rows import (
    ANCHORED,
    COLUMNS,
    CONFLICT,
    COVERED,
    ENQUEUE_ONCE,
    FAILED,
    HEAD,
    MEMORY,
    PENDING,
    STATE,
    SUBMITTED,
    OutboxRow,
    fresh,
)
from chainmemory.store.parts import WHOLE, Part
from chainmemory.store.sql import Session, Statement
from chainmemory.store.tables import OPEN, accounts, chain_transactions, citations, outbox

_CHUNK = 5_000


class Anchored(NamedTuple):
    """Where an outbox row was witnessed; `anchored_at` is the block's time."""

    id: int
    tx_hash: str
    block_number: int
    block_hash: str
    anchor_id: str | None
    anchored_at: str


class Depth(NamedTuple):
    """How many rows of a kind have a status, and since when the oldest waits (time)."""

    kind: str
    status: str
    rows: int
    oldest: str


_O = outbox.c
_IS_OPEN = text(OPEN)
_WAITING = _O.status.in_([PENDING, FAILED])
_DONE = [ANCHORED, COVERED]

_GET = Statement(
    select(*COLUMNS).where(
        _O.kind == bindparam("sort"), _O.subject == bindparam("of"), _O.position == bindparam("at")
    ),
    "sort",
    "of",
    "at",
)
_PAGE = Statement(
    select(*COLUMNS)
    .where(_O.kind == bindparam("sort"), _O.subject == bindparam("of"), _O.position < bindparam("before"))
    .order_by(_O.position.desc())
    .limit(bindparam("limit")),
    "sort",
    "of",
    "before",
    "limit",
)
_LATEST = Statement(
    select(*COLUMNS)
    .where(_O.kind == bindparam("sort"), _O.subject == bindparam("of"), _O.status == ANCHORED)
    .order_by(_O.position.desc())
    .limit(1),
    "sort",
    "of",
)
_ANCHORED = Statement(
    update(outbox)
    .where(_O.id == bindparam("row"))
    .values(
        status=ANCHORED,
        reason=None,
        tx_hash=bindparam("tx"),
        block_number=bindparam("height"),
        block_hash=bindparam("block"),
        anchor_id=bindparam("anchor"),
        anchored_at=bindparam("at"),
    ),
    "tx",
    "height",
    "block",
    "anchor",
    "at",
    "row",
)
_QUEUED = Statement(
    update(accounts)
    .where(accounts.c.account_id == bindparam("of"), accounts.c.queued_head < bindparam("seq"))
    .values(queued_head=bindparam("seq")),
    "seq",
    "of",
)
_DEPTH = Statement(
    select(_O.kind, _O.status, func.count(), func.min(_O.created_at)).group_by(_O.kind, _O.status)
)
_DEPTH_OF = Statement(
    select(_O.kind, _O.status, func.count(), func.min(_O.created_at))
    .where(_O.account_id == bindparam("of"), _O.kind == bindparam("sort"), _O.subject == bindparam("of"))
    .group_by(_O.kind, _O.status),
    "of",
    "sort",
)


class Outbox:
    """`tx.outbox`."""

    def __init__(self, session: Session, leases: Leases) -> None:
        self._session = session
        self._leases = leases

    # Reading, for anyone

    def get(self, kind: str, subject: str, position: int) -> OutboxRow | None:
        """Return the row of a memory (account, number), state (project, version) or head (account, seq),
        or None.
        """
        row = self._session.one(_GET, (kind, subject, position))
        return None if row is None else OutboxRow(*row)

    def page(self, kind: str, subject: str, *, before: int | None = None, limit: int = 50) -> list[OutboxRow]:
        """Return up to `limit` rows of one subject, highest position first, from below `before` if given."""
        last = before if before is not None else 2**62
        return [OutboxRow(*row) for row in self._session.all(_PAGE, (kind, subject, last, limit))]

    def latest_anchored(self, kind: str, subject: str) -> OutboxRow | None:
        """Return the anchored row with the highest position of one subject, or None."""
        row = self._session.one(_LATEST, (kind, subject))
        return None if row is None else OutboxRow(*row)

    def statuses(self, kind: str, subject: str, positions: Iterable[int]) -> dict[int, OutboxRow]:
        """Return the rows of these positions of one subject, by position."""
        found: dict[int, OutboxRow] = {}
        for part in _chunks(positions):
            query = select(*COLUMNS).where(_O.kind == kind, _O.subject == subject, _O.position.in_(part))
            found.update((row[3], OutboxRow(*row)) for row in self._session.query(query))
        return found

    def depth(self) -> list[Depth]:
        """Return the counts of the whole outbox by kind and status (metrics, `/v1/chain`)."""
        return [Depth(*row) for row in self._session.all(_DEPTH)]

    def depth_of(self, account_id: str, kind: str = MEMORY) -> dict[str, int]:
        """Return how many of an account's own rows (memories or heads) have each status."""
        return {row[1]: int(row[2]) for row in self._session.all(_DEPTH_OF, (account_id, kind))}

    # Finding work

    def due(self, kind: str, *, now: str, limit: int, part: Part = WHOLE) -> list[OutboxRow]:
        """Return up to `limit` rows of `memory` or `head` in this part to send at `now`, the longest waiting
        ones, sorted by (subject, position).

        What was never tried is always due: a clock that was set back must not hold it up.
        """
        query = (
            select(*COLUMNS)
            .where(_O.kind == kind, _IS_OPEN, _WAITING, or_(_O.status == PENDING, _O.next_attempt_at <= now))
            .where(part.condition())
            .order_by(_O.id)
            .limit(limit)
        )
        rows = [OutboxRow(*row) for row in self._session.query(query)]
        return sorted(rows, key=lambda row: (row.subject, row.position))

    def due_states(self, *, now: str, limit: int, part: Part = WHOLE) -> list[OutboxRow]:
        """Return up to `limit` states in this part that may be sent at `now`, sorted by (project, version).

        A version waits for every earlier one of its project that still waits, and for every memory it newly
        cites to be anchored; a project with a `conflict` is left alone. (Versions already submitted don't
        hold up the next.)
        """
        ready: list[OutboxRow] = []
        blocked = set(self._subjects_in_conflict())
        for page in self._open_states(part):
            uncovered = self._citing_unanchored(page)
            for row in page:
                if row.subject in blocked:
                    continue
                rests = row.status == FAILED and row.next_attempt_at > now
                if rests or (row.subject, row.position) in uncovered:
                    blocked.add(row.subject)
                    continue
                ready.append(row)
                if len(ready) == limit:
                    return sorted(ready, key=lambda row: (row.subject, row.position))
        return sorted(ready, key=lambda row: (row.subject, row.position))

    def submitted(self, *, limit: int = 10_000) -> list[OutboxRow]:
        """Return rows whose transaction is out, oldest first."""
        return self._rows(
            select(*COLUMNS).where(_IS_OPEN, _O.status == SUBMITTED).order_by(_O.id).limit(limit)
        )

    def by_ids(self, ids: Iterable[int]) -> list[OutboxRow]:
        """Return the rows with these ids, by id."""
        found: list[OutboxRow] = []
        for part in _chunks(ids):
            found.extend(self._rows(select(*COLUMNS).where(_O.id.in_(part)).order_by(_O.id)))
        return found

    def by_transaction(self, tx_hash: str) -> list[OutboxRow]:
        """Return the rows last sent or anchored by this transaction, by id."""
        return self._rows(select(*COLUMNS).where(_O.tx_hash == tx_hash).order_by(_O.id))

    def anchored_from_block(self, block_number: int, *, part: Part = WHOLE) -> list[OutboxRow]:
        """Return the part's rows anchored at this height or above, for the reorganisation re-check, by id."""
        query = (
            select(*COLUMNS)
            .where(_O.block_number >= block_number, _O.status == ANCHORED, part.condition())
            .order_by(_O.id)
        )
        return self._rows(query)

    def left_by_others(self, signer: str, *, part: Part = WHOLE, limit: int = 1_000) -> list[OutboxRow]:
        """Return the part's rows that are out in a transaction of another signer, oldest first."""
        sent = chain_transactions.c
        of_another = select(sent.tx_hash).where(sent.tx_hash == _O.tx_hash, sent.signer != signer)
        query = (
            select(*COLUMNS)
            .where(_IS_OPEN, _O.status == SUBMITTED, part.condition(), of_another.correlate(outbox).exists())
            .order_by(_O.id)
            .limit(limit)
        )
        return self._rows(query)

    # Changing, for the holder of the lease

    def enqueue_moved_heads(self, lease: Lease, *, now: str, limit: int = 1_000, part: Part = WHOLE) -> int:
        """Enqueue the head of each ledger in this part that moved since its last one and has none on the way;
        return how many.
        """
        self._leases.guard(lease)
        moved = list(self._session.query(_moved(part).limit(limit)))
        for account_id, seq, entry_hash in moved:
            self._session.run(ENQUEUE_ONCE, fresh(HEAD, account_id, seq, account_id, entry_hash, now))
            self._session.run(_QUEUED, (seq, account_id))
        return len(moved)

    def enqueue_head(self, account_id: str, seq: int, entry_hash: str, *, now: str) -> None:
        """Put a ledger's head in the queue, if it isn't there yet; needs no lease, as a save needs none.

        For a ledger that no account of this store has: the worker asks for nothing but the outbox row.
        """
        self._session.run(ENQUEUE_ONCE, fresh(HEAD, account_id, seq, account_id, entry_hash, now))

    def mark_submitted(self, lease: Lease, ids: Iterable[int], *, tx_hash: str) -> None:
        """Note the transaction the rows are in (call it before sending)."""
        self._change(lease, ids, status=SUBMITTED, tx_hash=tx_hash, reason=None)

    def mark_anchored(self, lease: Lease, anchored: Sequence[Anchored]) -> None:
        """Note where each row was witnessed, after enough confirmations."""
        self._leases.guard(lease)
        self._session.run_many(
            _ANCHORED,
            [(a.tx_hash, a.block_number, a.block_hash, a.anchor_id, a.anchored_at, a.id) for a in anchored],
        )

    def mark_failed(self, lease: Lease, ids: Iterable[int], *, reason: str, next_attempt_at: str) -> None:
        """Note why an attempt failed, and when the next one is due."""
        self._change(
            lease,
            ids,
            status=FAILED,
            reason=reason,
            next_attempt_at=next_attempt_at,
            attempts=_O.attempts + 1,
        )

    def mark_pending(self, lease: Lease, ids: Iterable[int], *, now: str) -> None:
        """Put rows back into the queue, due at once: their transaction is gone without a trace."""
        self._change(
            lease,
            ids,
            status=PENDING,
            tx_hash=None,
            block_number=None,
            block_hash=None,
            anchor_id=None,
            anchored_at=None,
            next_attempt_at=now,
        )

    def mark_unconfirmed(self, lease: Lease, ids: Iterable[int]) -> None:
        """Take anchored rows back to submitted: their block is no longer in the chain (rule 4)."""
        self._change(
            lease, ids, status=SUBMITTED, block_number=None, block_hash=None, anchor_id=None, anchored_at=None
        )

    def mark_covered(self, lease: Lease, ids: Iterable[int], *, reason: str | None = None) -> None:
        """End rows that lie before their project's first anchor on this contract."""
        self._change(lease, ids, status=COVERED, reason=reason)

    def mark_conflict(self, lease: Lease, ids: Iterable[int], *, reason: str) -> None:
        """End rows for which the chain holds another hash; their project stops."""
        self._change(lease, ids, status=CONFLICT, reason=reason)

    def retry_now(self, lease: Lease, *, now: str, part: Part = WHOLE) -> int:
        """Make the part's failed rows due at `now` and return how many."""
        self._leases.guard(lease)
        return self._session.execute(
            update(outbox).where(_IS_OPEN, _O.status == FAILED, part.condition()).values(next_attempt_at=now)
        )

    def _change(self, lease: Lease, ids: Iterable[int], **values: Any) -> None:
        self._leases.guard(lease)
        for part in _chunks(ids):
            self._session.execute(update(outbox).where(_O.id.in_(part)).values(**values))

    def _rows(self, query: Select[Any]) -> list[OutboxRow]:
        return [OutboxRow(*row) for row in self._session.query(query)]

    def _subjects_in_conflict(self) -> list[str]:
        query = select(_O.subject).where(_O.kind == STATE, _IS_OPEN, _O.status == CONFLICT).distinct()
        return [row[0] for row in self._session.query(query)]

    def _open_states(self, part: Part = WHOLE, *, size: int = 1_000) -> Iterator[list[OutboxRow]]:
        """Yield the waiting states by id, which for one project is the order of its versions."""
        after = 0
        while page := self._rows(
            select(*COLUMNS)
            .where(_O.kind == STATE, _IS_OPEN, _WAITING, _O.id > after, part.condition())
            .order_by(_O.id)
            .limit(size)
        ):
            yield page
            after = page[-1].id

    def _citing_unanchored(self, states: Sequence[OutboxRow]) -> set[tuple[str, int]]:
        """Return (project, version) of those states that newly cite a memory not yet on chain."""
        of_memory = outbox.alias()
        query = (
            select(citations.c.project_id, citations.c.version)
            .join(
                of_memory,
                and_(
                    of_memory.c.kind == MEMORY,
                    of_memory.c.subject == citations.c.account_id,
                    of_memory.c.position == citations.c.number,
                ),
            )
            .where(
                tuple_(citations.c.project_id, citations.c.version).in_(
                    [(row.subject, row.position) for row in states]
                ),
                of_memory.c.status.not_in(_DONE),
            )
            .distinct()
        )
        return {(row[0], row[1]) for row in self._session.query(query)}


def _moved(part: Part) -> Select[Any]:
    on_the_way = select(_O.id).where(_O.kind == HEAD, _O.subject == accounts.c.account_id, _IS_OPEN)
    return (
        select(accounts.c.account_id, accounts.c.ledger_seq, accounts.c.ledger_hash)
        .where(
            accounts.c.ledger_seq > accounts.c.queued_head,
            ~on_the_way.correlate(accounts).exists(),
            part.condition(accounts.c.account_id),
        )
        .order_by(accounts.c.account_id)
    )


def _chunks(values: Iterable[int]) -> Iterator[list[int]]:
    wanted = sorted(set(values))
    for start in range(0, len(wanted), _CHUNK):
        yield wanted[start : start + _CHUNK]
