"""What the anchor worker says of itself, and the blocks it counts on (design.md, rules 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from chainmemory.store.leases import Lease, Leases
from chainmemory.store.outbox_rows import ANCHORED, CONFLICT, COVERED, MEMORY, PENDING, STATE, SUBMITTED
from chainmemory.store.outbox_rows import FAILED as FAILED_ROW
from chainmemory.store.parts import WHOLE, Part
from chainmemory.store.sql import Session, Statement, one_of
from chainmemory.store.tables import chain_transactions, memories, outbox, worker_counts, worker_status
from chainmemory.store.transactions import CONFIRMED, DROPPED, FAILED, MINED, REPLACED, SENT, SIGNED


class WorkerStatus(NamedTuple):
    """A worker's own words.

    `state` is `working`, `waiting` (an error that may pass), or `stopped`; `words` a sentence for people;
    `balance` wei; `contracts` addresses by name; `part` its share of the work ("2/3"); `notice` what people
    must know of although the work goes on; times as `time`.
    """

    name: str
    holder: str
    state: str
    words: str
    error: str | None
    signer: str | None
    balance: int | None
    chain_id: int | None
    head_number: int | None
    head_at: str | None
    contracts: dict[str, str]
    started_at: str
    beat_at: str
    part: str = "1/1"
    notice: str | None = None
    notice_at: str | None = None


class Count(NamedTuple):
    """How often a worker has done something of a kind, since the store was made."""

    name: str
    what: str
    kind: str
    value: int


class KnownBlock(NamedTuple):
    """A height with anchors, and its block's hash as they were recorded with it (several: it changed)."""

    number: int
    hashes: frozenset[str]


_UNSENT: dict[str, Any] = dict.fromkeys(("tx_hash", "block_number", "block_hash", "anchor_id", "anchored_at"))
NO_START = "no start:"
"""Before a part, the name under which a worker that can't start says why."""
IN_A_BLOCK = (MINED, CONFIRMED, FAILED)

_S = worker_status.c
_O = outbox.c
_T = chain_transactions.c
_FIELDS = WorkerStatus._fields
_DELETE = Statement(delete(worker_status).where(_S.name == bindparam("of")), "of")
_INSERT = Statement(insert(worker_status).values({name: bindparam(name) for name in _FIELDS}), *_FIELDS)
_ALL = Statement(select(*(_S[name] for name in _FIELDS)).order_by(_S.name))
_N = worker_counts.c
_COUNTS = Statement(
    select(*(_N[name] for name in Count._fields)).order_by(_N.name, _N.what, _N.kind),
)
_COUNT = Statement(
    update(worker_counts)
    .where(_N.name == bindparam("of"), _N.what == bindparam("did"), _N.kind == bindparam("sort"))
    .values(value=_N.value + bindparam("more")),
    "more",
    "of",
    "did",
    "sort",
)
_FIRST_COUNT = Statement(
    insert(worker_counts).values({name: bindparam(name) for name in Count._fields}), *Count._fields
)
_ROW_HEIGHT = Statement(
    select(func.max(_O.block_number)).where(_O.block_number < bindparam("below")), "below"
)
_TX_HEIGHT = Statement(
    select(func.max(_T.block_number)).where(
        _T.chain_id == bindparam("chain"),
        _T.signer == bindparam("who"),
        _T.status == MINED,
        _T.block_number < bindparam("below"),
    ),
    "chain",
    "who",
    "below",
)
_ROW_HASHES = Statement(select(_O.block_hash).where(_O.block_number == bindparam("at")).distinct(), "at")
_TX_HASHES = Statement(
    select(_T.block_hash).where(
        _T.chain_id == bindparam("chain"),
        _T.signer == bindparam("who"),
        _T.status == MINED,
        _T.block_number == bindparam("at"),
    ),
    "chain",
    "who",
    "at",
)
_NONCES = Statement(
    select(_T.nonce).where(
        _T.chain_id == bindparam("chain"),
        _T.signer == bindparam("who"),
        _T.nonce >= bindparam("first"),
        # Named one by one, so that the index is of use.
        or_(*(_T.status == status for status in (SIGNED, SENT, MINED, CONFIRMED, FAILED, REPLACED))),
    ),
    "chain",
    "who",
    "first",
)
_REOPEN = Statement(
    update(chain_transactions)
    .where(_T.tx_hash == bindparam("tx"), one_of(_T.status, IN_A_BLOCK))
    .values(status=SENT, block_number=None, block_hash=None, gas_used=None, updated_at=bindparam("now")),
    "now",
    "tx",
)


class Worker:
    """`tx.worker`."""

    def __init__(self, session: Session, leases: Leases) -> None:
        self._session = session
        self._leases = leases

    def report(self, lease: Lease, status: WorkerStatus) -> None:
        """Replace what the worker under this lease says of itself."""
        self._leases.guard(lease)
        self._session.run(_DELETE, (status.name,))
        self._session.run(_DELETE, (NO_START + status.part,))
        self._write(status)

    def report_no_start(self, holder: str, words: str, *, part: str, now: str) -> None:
        """Say why the worker of this part can't even start; its next report takes that back.

        It needs no lease: without a signer there is none.
        """
        name = NO_START + part
        self._session.run(_DELETE, (name,))
        nothing = (None, None, None, None, None)
        self._write(
            WorkerStatus(name, holder, "stopped", words, "no_start", *nothing, {}, now, now, part=part)
        )

    def count(self, lease: Lease, done: Mapping[tuple[str, str], int]) -> None:
        """Add to the counts of (what, kind) of the worker under this lease."""
        self._leases.guard(lease)
        for (what, kind), more in done.items():
            if not self._session.run(_COUNT, (more, lease.name, what, kind)):
                self._session.run(_FIRST_COUNT, (lease.name, what, kind, more))

    def counts(self) -> list[Count]:
        """Return every worker's counts."""
        return [Count(row[0], row[1], row[2], int(row[3])) for row in self._session.all(_COUNTS)]

    def _write(self, status: WorkerStatus) -> None:
        balance = None if status.balance is None else str(status.balance)
        row = status._replace(
            balance=balance,  # type: ignore[arg-type]
            contracts=orjson.dumps(status.contracts).decode(),  # type: ignore[arg-type]
        )
        self._session.run(_INSERT, tuple(row))

    def statuses(self) -> list[WorkerStatus]:
        """Return what each worker last said, by name."""
        found = [WorkerStatus(*row) for row in self._session.all(_ALL)]
        return [
            row._replace(
                balance=None if row.balance is None else int(row.balance),
                contracts=orjson.loads(row.contracts),  # type: ignore[arg-type]
            )
            for row in found
        ]

    def status(self) -> WorkerStatus | None:
        """Return what the worker that spoke last said; None if none ever ran."""
        return max(self.statuses(), key=lambda status: status.beat_at, default=None)

    def block_below(
        self, chain_id: int, signer: str, number: int, *, part: Part = WHOLE
    ) -> KnownBlock | None:
        """Return the highest block below `number` that an anchor of this part, or a mined transaction of this
        signer, is recorded in.
        """
        heights = [
            row[0]
            for row in (
                self._row_height(number, part),
                self._session.one(_TX_HEIGHT, (chain_id, signer, number)),
            )
            if row is not None and row[0] is not None
        ]
        if not heights:
            return None
        height = int(max(heights))
        hashes = [
            *self._row_hashes(height, part),
            *self._session.all(_TX_HASHES, (chain_id, signer, height)),
        ]
        return KnownBlock(height, frozenset(row[0] for row in hashes))

    def _row_height(self, below: int, part: Part) -> Sequence[Any] | None:
        if part == WHOLE:
            return self._session.one(_ROW_HEIGHT, (below,))
        query = select(func.max(_O.block_number)).where(_O.block_number < below, part.condition())
        return next(iter(self._session.query(query)), None)

    def _row_hashes(self, height: int, part: Part) -> Iterable[Sequence[Any]]:
        if part == WHOLE:
            return self._session.all(_ROW_HASHES, (height,))
        query = select(_O.block_hash).where(_O.block_number == height, part.condition()).distinct()
        return self._session.query(query)

    def transactions_above(self, chain_id: int, signer: str, number: int) -> list[str]:
        """Return the hashes of a signer's transactions that were found in blocks above `number`."""
        query = select(_T.tx_hash).where(
            _T.chain_id == chain_id,
            _T.signer == signer,
            _T.status.in_(IN_A_BLOCK),
            _T.block_number > number,
        )
        return [row[0] for row in self._session.query(query)]

    def nonces_from(self, chain_id: int, signer: str, first: int) -> set[int]:
        """Return the nonces from `first` on that a transaction not given up was signed for, mined or not."""
        return {int(row[0]) for row in self._session.all(_NONCES, (chain_id, signer, first))}

    def reopen(self, lease: Lease, tx_hash: str, *, now: str) -> None:
        """Take a transaction back to `sent`: its block is no longer in the chain."""
        self._leases.guard(lease)
        self._session.run(_REOPEN, (now, tx_hash))

    def forgotten(self, account_id: str, numbers: Iterable[int]) -> set[int]:
        """Return those of an account's memories that were forgotten."""
        query = select(memories.c.number).where(
            memories.c.account_id == account_id,
            memories.c.number.in_(sorted(numbers)),
            memories.c.forgotten.is_(True),
        )
        return {row[0] for row in self._session.query(query)}

    def move(self, lease: Lease, *, now: str, covered: str) -> int:
        """Put everything back in the queue that other contracts witnessed; return how many rows.

        Of states and heads, what a later row of the same subject follows ends as `covered`, with that reason.
        Transactions to the old contracts are given up.
        """
        self._leases.guard(lease)
        self._session.execute(
            update(chain_transactions)
            .where(_T.status.in_([SIGNED, SENT, MINED]))
            .values(status=DROPPED, updated_at=now)
        )
        later = outbox.alias()
        followed = (
            select(later.c.id)
            .where(later.c.kind == _O.kind, later.c.subject == _O.subject, later.c.position > _O.position)
            .exists()
        )
        ended = self._session.execute(
            update(outbox)
            .where(_O.kind != MEMORY, _O.status.in_([SUBMITTED, ANCHORED]), followed)
            .values(**{**_UNSENT, "status": COVERED, "reason": covered})
        )
        waiting = self._session.execute(
            update(outbox)
            .where(_O.status.in_([SUBMITTED, ANCHORED, FAILED_ROW, CONFLICT]))
            .values(**_UNSENT, status=PENDING, reason=None, next_attempt_at=now)
        )
        return ended + waiting

    def requeue_states_above(self, lease: Lease, project_id: str, version: int, *, now: str) -> int:
        """Put a project's later states that count as anchored, or sent, back in the queue: the chain
        lacks them.

        Those in a transaction that is still out stay with it. Returns how many.
        """
        self._leases.guard(lease)
        still_out = select(_T.tx_hash).where(_T.status.in_([SIGNED, SENT, MINED]))
        return self._session.execute(
            update(outbox)
            .where(
                _O.kind == STATE,
                _O.subject == project_id,
                _O.position > version,
                _O.status.in_([SUBMITTED, ANCHORED]),
                _O.tx_hash.not_in(still_out),
            )
            .values(**_UNSENT, status=PENDING, next_attempt_at=now)
        )
