"""Workers in real processes on the embedded chain, killed and frozen: each anchor is there exactly once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chainmemory.chain.deploy import Deployment, deploy
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.errors import Unavailable
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import MEMORY, STATE
from chainmemory.store.transactions import DROPPED, REPLACED
from tests.support.chains import QUICK, SIGNER_KEY, embedded_node
from tests.support.databases import fresh_database_url
from tests.support.onchain import OnChain
from tests.support.rounds import Work, rows_of, transactions
from tests.support.saving import append_state, create_account, create_project, save
from tests.support.worker_process import Workers

STEPS = ("leased", "planned", "signed", "stored", "sent", "receipt", "settled", "reported")
LEASE_S = 0.6
# Rounds of the random test; the whole fault run of a release sets more.
ROUNDS = int(os.environ.get("CHAINMEMORY_TEST_KILLS", "8"))


class Chain:
    """A node of one's own with both contracts on it, and the means to start workers on it."""

    def __init__(self, url: str, workers: Workers) -> None:
        self.url = url
        self.workers = workers
        self.gateway = Gateway(url)
        self.deployment: Deployment = deploy(
            self.gateway, Signer.from_key(SIGNER_KEY), policy=FeePolicy(QUICK.max_fee)
        )
        self.seen = OnChain(self.gateway, self.deployment)

    def start(self, db_url: str, *, die_at: str = "", nth: int = 1) -> int:
        """Start a worker process with a short lease."""
        return self.workers.start(
            db_url,
            self.url,
            SIGNER_KEY,
            die_at=die_at,
            nth=nth,
            deploys=False,
            anchor_address=self.deployment.anchors.address,
            registry_address=self.deployment.registry.address,
            lease_s=LEASE_S,
        )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("kill")
    workers = Workers(folder / "workers.log")
    try:
        with embedded_node(folder / "node") as node:
            yield Chain(f"http://127.0.0.1:{node.port}", workers)
            workers.close()
    finally:
        workers.close()


@pytest.fixture
def chain(running: Chain) -> Chain:
    """Give the chain with nothing of an earlier test on its way: that would take a nonce of this one's."""
    idle = {"pending": "0x0", "queued": "0x0"}
    until(lambda: running.gateway.ask("txpool_status", []) == idle, "the node's pool to be empty")
    return running


def until(probe: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not probe():
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        time.sleep(0.05)


def test_sigkill_at_each_step_loses_nothing_and_doubles_nothing(chain: Chain, tmp_path: Path) -> None:
    """One worker after the other dies, each at its step, and takes over where the one before it died."""
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    before = [chain.seen.events(name) for name in ("MemoryRecordedWithPayload", "StateAnchored")]
    with Database.open(url) as db:
        work = Work(db)
        for step in STEPS:
            work.add()
            assert chain.workers.wait(chain.start(url, die_at=step)) == -signal.SIGKILL
        survivor = chain.start(url)
        until(lambda: set(work.statuses) == {"anchored"}, "everything to be anchored")
        assert chain.workers.stop(survivor) == 0

        assert all(chain.seen.event_is_at(row) for row in work.rows)
        _check_nonces(db)
    after = [chain.seen.events(name) for name in ("MemoryRecordedWithPayload", "StateAnchored")]
    count = 2 + len(STEPS)
    print(
        f"\n{len(STEPS)} workers killed, one at each of {', '.join(STEPS)}: "
        f"{count} memories and {count} states there once"
    )
    assert [new - old for new, old in zip(after, before, strict=True)] == [count, count]
    assert chain.seen.skipped() == []


def test_sigkill_at_random_moments_under_load(chain: Chain, tmp_path: Path) -> None:
    """Rows are written all the while; the seed is in the failure's output."""
    seed = random.randrange(2**32)
    print(f"\nseed {seed}")
    rng = random.Random(seed)
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with Database.open(url) as db:
        person = create_account(db)
        projects = [create_project(db, person, f"p{n}") for n in range(3)]
        for n in range(ROUNDS):
            save(db, person, f"memory {n}")
            for project in projects:
                append_state(db, person, project, n + 1, cited=[("dec_0001", n + 1)])
            pid = chain.start(url)
            time.sleep(rng.uniform(0.05, 1.2))
            assert chain.workers.kill(pid) == -signal.SIGKILL
        survivor = chain.start(url)

        def rows() -> list[str]:
            states = [row for project in projects for row in rows_of(db, STATE, project.project_id)]
            return [row.status for row in [*rows_of(db, MEMORY, person.account_id), *states]]

        until(lambda: set(rows()) == {"anchored"}, "everything to be anchored")
        assert chain.workers.stop(survivor) == 0
        assert len(rows()) == 4 * ROUNDS
        for project in projects:
            held = chain.seen.state_hashes(project.project_id, ROUNDS)
            assert held == [row.hash for row in rows_of(db, STATE, project.project_id)]
        recorded = chain.seen.memory_hashes(person.account_id, ROUNDS)
        assert recorded == [row.hash for row in rows_of(db, MEMORY, person.account_id)]
    assert chain.seen.skipped() == []
    print(
        f"{ROUNDS} workers killed at random moments: "
        f"{len(projects) * ROUNDS} states and {ROUNDS} memories there once"
    )


@pytest.mark.parametrize(("engine", "how"), [("postgresql", signal.SIGKILL), ("sqlite", signal.SIGSTOP)])
def test_the_other_worker_takes_over_within_a_lease(
    chain: Chain, tmp_path: Path, engine: str, how: signal.Signals
) -> None:
    with fresh_database_url(engine, tmp_path) as url, Database.open(url) as db:
        person = create_account(db)
        save(db, person, "for the first")
        first = chain.start(url)
        until(lambda: _anchored(db, person.account_id) == 1, "the first worker's anchor")
        second = chain.start(url)
        time.sleep(LEASE_S)
        holder = _holder(db)

        _stop_outside_a_write(first, db) if how is signal.SIGSTOP else os.kill(first, how)
        stopped_at = time.monotonic()
        save(db, person, "for the second")
        until(lambda: _holder(db) != holder, "the take-over")
        took_s = time.monotonic() - stopped_at
        until(lambda: _anchored(db, person.account_id) == 2, "the second worker's anchor")

        # A lease from the last heartbeat; the rest is for a machine that is busy with other tests.
        assert took_s < LEASE_S + 5
        os.kill(first, signal.SIGCONT if how is signal.SIGSTOP else 0)
        save(db, person, "for whoever holds it now")
        until(lambda: _anchored(db, person.account_id) == 3, "the next anchor")
        assert chain.workers.stop(second) == 0
        if how is signal.SIGSTOP:
            assert chain.workers.stop(first) == 0
        else:
            assert chain.workers.wait(first) == -signal.SIGKILL
        hashes = chain.seen.memory_hashes(person.account_id, 3)
        assert hashes == [row.hash for row in rows_of(db, MEMORY, person.account_id)]
        _check_nonces(db)
    assert chain.seen.skipped() == []


def _stop_outside_a_write(pid: int, db: Database) -> None:
    """Stop a process that isn't writing: one stopped in a write keeps SQLite's lock until it goes on."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        try:
            db.transact_now(lambda tx: tx.leases.all(), wait_s=0.2)
        except Unavailable:
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
        else:
            return


def _check_nonces(db: Database) -> None:
    """Where the base fee rises past a transaction's, a dearer one takes its nonce: one of them counts."""
    sent = [(row.nonce, row.purpose, row.status, row.max_fee) for row in transactions(db)]
    counted = [nonce for nonce, _, status, _ in sent if status not in (REPLACED, DROPPED)]
    assert sorted(counted) == sorted({nonce for nonce, *_ in sent}), sent


def _anchored(db: Database, account_id: str) -> int:
    return sum(row.status == "anchored" for row in rows_of(db, MEMORY, account_id))


def _holder(db: Database) -> str:
    with db.read() as tx:
        (lease,) = tx.leases.all()
    return lease.holder
