"""Driving a worker by hand, and looking at what it wrote."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from chainmemory.anchoring.health import Progress
from chainmemory.anchoring.station import Step, no_step
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.signer import Signer
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE, OutboxRow
from chainmemory.store.projects import Project
from chainmemory.store.transactions import TransactionRow
from tests.support.chains import TesterChain
from tests.support.onchain import OnChain
from tests.support.saving import Person, append_state, create_account, create_project, save


def worker_on(
    db: Database, chain: TesterChain, *, signer: Signer | None = None, step: Step = no_step, **changes: Any
) -> AnchorWorker:
    """Return a worker on the chain, with changed options."""
    options = replace(chain.options, **changes)
    return AnchorWorker(db, chain.gateway, signer or chain.signer, options, step=step)


def drain(worker: AnchorWorker, *, mine: TesterChain | None = None, rounds: int = 40) -> list[Progress]:
    """Do rounds until two in a row have nothing to do; `mine` makes a block after each."""
    done: list[Progress] = []
    for _ in range(rounds):
        done.append(worker.run_once())
        if mine is not None:
            mine.mine()
        idle = [not (last.sent or last.settled or last.out or last.error) for last in done[-2:]]
        if idle == [True, True]:
            return done
    raise AssertionError(f"still busy after {rounds} rounds: {done[-1]}")


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
