"""Driving a worker by hand, and looking at what it wrote."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from chainmemory.anchoring.health import Progress
from chainmemory.anchoring.station import Step, no_step
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.signer import Signer
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import FAILED, HEAD, MEMORY, STATE, OutboxRow
from chainmemory.store.projects import Project
from chainmemory.store.tables import outbox
from chainmemory.store.transactions import TransactionRow
from tests.support.chains import QUICK, TesterChain
from tests.support.onchain import OnChain
from tests.support.saving import Person, append_state, create_account, create_project, save

# More than QUICK's longest wait for a retry, less than any wait that a test means to last.
NEAR_S = 1.0


def worker_on(
    db: Database, chain: TesterChain, *, signer: Signer | None = None, step: Step = no_step, **changes: Any
) -> AnchorWorker:
    """Return a worker on the chain, with changed options."""
    options = replace(chain.options, **changes)
    return AnchorWorker(db, chain.gateway, signer or chain.signer, options, step=step)


def drain(worker: AnchorWorker, *, mine: TesterChain | None = None, rounds: int = 40) -> list[Progress]:
    """Do rounds, a block of `mine` after each, until two in a row have nothing to do and no retry is near."""
    done: list[Progress] = []
    idle = 0
    for _ in range(rounds):
        last = worker.run_once()
        done.append(last)
        if mine is not None:
            mine.mine()
        if last.sent or last.settled:
            idle = 0
        elif last.out or last.error:
            idle = 0
            time.sleep(min(last.wait_s, QUICK.poll_s))
        elif (rest_s := _until_a_retry(worker)) > 0:
            time.sleep(rest_s)
        elif (idle := idle + 1) == 2:
            return done
    raise AssertionError(f"still busy after {rounds} rounds: {done[-1]}")


def _until_a_retry(worker: AnchorWorker) -> float:
    """Return in how many seconds the first retry is due; 0 where none is within NEAR_S."""
    clock = worker._clock
    with worker._db.read() as tx:
        near = select(func.min(outbox.c.next_attempt_at)).where(
            outbox.c.status == FAILED,
            outbox.c.next_attempt_at > clock.now(),
            outbox.c.next_attempt_at <= clock.after(NEAR_S),
        )
        ((due,),) = tx.outbox._session.query(near)
    return max(0.0, (datetime.fromisoformat(due) - clock.wall()).total_seconds()) if due is not None else 0.0


def rows_of(db: Database, kind: str, subject: str) -> list[OutboxRow]:
    """Return one subject's outbox rows by position."""
    with db.read() as tx:
        return list(reversed(tx.outbox.page(kind, subject, limit=1_000)))


def transactions(db: Database) -> list[TransactionRow]:
    """Return every stored transaction by nonce, replacements in the order they were made."""
    with db.read() as tx:
        return sorted(tx.transactions.recent(limit=1_000), key=lambda row: (row.nonce, row.created_at))


def purposes(db: Database) -> list[str]:
    return [row.purpose for row in transactions(db)]


def free_the_lease(db: Database) -> None:
    """Let whoever holds a lease lose it, as if its time had run out."""
    with db.write() as tx:
        for lease in tx.leases.all():
            tx.leases.release(lease, now="2000-01-01T00:00:00.000000Z")


class Work:
    """Two memories, two states that cite them, and a ledger head: the least that has an order."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.person: Person = create_account(db)
        self.project: Project = create_project(db, self.person, "alpha")
        self.memories = save(db, self.person, "one", "two")
        self.states = [
            append_state(db, self.person, self.project, version, cited=[("dec_0001", version)])
            for version in (1, 2)
        ]

    def add(self) -> None:
        """Save another memory, and a state that cites it."""
        self.memories += save(self.db, self.person, f"memory {len(self.memories) + 1}")
        version = len(self.states) + 1
        cited = [("dec_0001", len(self.memories))]
        self.states.append(append_state(self.db, self.person, self.project, version, cited=cited))

    @property
    def rows(self) -> list[OutboxRow]:
        return [
            *rows_of(self.db, MEMORY, self.person.account_id),
            *rows_of(self.db, STATE, self.project.project_id),
            *rows_of(self.db, HEAD, self.person.account_id),
        ]

    @property
    def statuses(self) -> Counter[str]:
        return Counter(row.status for row in self.rows)

    def check(self, seen: OnChain) -> None:
        """Everything is on chain exactly once, and the store says where."""
        account, project = self.person.account_id, self.project.project_id
        assert [(row.status, row.reason) for row in self.rows] == [("anchored", None)] * len(self.rows)
        assert {row.kind for row in self.rows} == {MEMORY, STATE, HEAD}
        assert all(seen.event_is_at(row) for row in self.rows)
        assert seen.memory_hashes(account, 2) == [row.event_hash for row in self.memories]
        assert seen.state_hashes(project, 2) == [row.state_hash for row in self.states]
        recorded = seen.events("MemoryRecorded") + seen.events("MemoryRecordedWithPayload")
        assert (recorded, seen.events("StateAnchored")) == (2, 2)
