"""A worker that dies, freezes or races between any two steps: nothing is lost, nothing is done twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.lease import LeaseKeeper
from chainmemory.anchoring.setup import known_deployment
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import MEMORY
from tests.support.chains import QUICK, TesterChain
from tests.support.onchain import OnChain
from tests.support.rounds import Work, drain, free_the_lease, purposes, rows_of, transactions, worker_on
from tests.support.saving import create_account, save

STEPS = ("leased", "planned", "signed", "stored", "sent", "receipt", "settled", "reported")


class Died(BaseException):
    """Stands for SIGKILL: no handler of ours may catch it."""


class DieAt:
    """A step hook that dies at the n-th time of one step, and counts all."""

    def __init__(self, step: str, nth: int = 1) -> None:
        self.step = step
        self.nth = nth
        self.seen: Counter[str] = Counter()

    def __call__(self, step: str) -> None:
        self.seen[step] += 1
        if step == self.step and self.seen[step] == self.nth:
            raise Died


def run_until_death(worker: AnchorWorker, rounds: int = 30) -> bool:
    """Do rounds until the hook kills the worker; False where it outlived them."""
    for _ in range(rounds):
        try:
            worker.run_once()
        except Died:
            return True
    return False


@pytest.mark.parametrize(
    ("step", "nth"), [*((step, 1) for step in STEPS), ("stored", 2), ("sent", 2), ("settled", 2)]
)
def test_a_crash_at_any_step_is_made_up_for(db: Database, chain: TesterChain, step: str, nth: int) -> None:
    work = Work(db)

    assert run_until_death(worker_on(db, chain, step=DieAt(step, nth)))
    free_the_lease(db)
    drain(worker_on(db, chain))

    work.check(chain.seen)
    assert chain.seen.skipped() == []
    assert len({row.nonce for row in transactions(db)}) == len(transactions(db))
    assert {row.status for row in transactions(db)} == {"confirmed"}


@pytest.mark.parametrize("step", ["signed", "stored", "sent", "receipt", "deployed"])
def test_a_crash_while_deploying_deploys_once(db: Database, step: str) -> None:
    chain = TesterChain()
    work = Work(db)

    assert run_until_death(AnchorWorker(db, chain.gateway, chain.signer, QUICK, step=DieAt(step)))
    free_the_lease(db)
    drain(worker_on(db, chain))

    counted = Counter(purposes(db))
    assert (counted["deploy:ProjectStateAnchor"], counted["deploy:MemoryRegistry"]) == (1, 1)
    with db.read() as tx:
        deployment = known_deployment(tx, chain.gateway.chain_id())
    assert deployment is not None
    work.check(OnChain(chain.gateway, deployment))


@pytest.mark.parametrize("step", ["planned", "signed", "stored", "receipt"])
def test_a_worker_that_wakes_up_with_an_old_token_changes_nothing(
    db: Database, chain: TesterChain, step: str
) -> None:
    work = Work(db)
    second = worker_on(db, chain)
    slept: list[list[object]] = []

    def sleep(at: str) -> None:
        """Freeze here for as long as another worker needs to take over and do it all."""
        if at == step and not slept:
            free_the_lease(db)
            drain(second)
            slept.append([work.rows, transactions(db)])

    first = worker_on(db, chain, step=sleep)
    while not slept:
        progress = first.run_once()

    assert progress.state == "standby"
    assert [work.rows, transactions(db)] == slept[0]
    work.check(chain.seen)
    assert chain.seen.skipped() == []


def test_two_workers_race_to_deploy_and_deploy_once(db: Database) -> None:
    chain = TesterChain()
    second = worker_on(db, chain)
    raced: list[str] = []

    def race(step: str) -> None:
        if step == "signed" and not raced:
            raced.append(step)
            free_the_lease(db)
            drain(second)

    first = worker_on(db, chain, step=race)
    assert first.run_once().state == "standby"
    for _ in range(5):
        first.run_once()
        second.run_once()

    assert purposes(db) == ["deploy:ProjectStateAnchor", "deploy:MemoryRegistry"]
    assert chain.gateway.nonce(chain.signer.address) == 2


@pytest.mark.parametrize("depth", range(1, 7))
@pytest.mark.parametrize("known", [True, False], ids=["in the pool", "forgotten"])
def test_a_reorganisation_sends_again_what_it_took(
    db: Database, chain: TesterChain, depth: int, known: bool
) -> None:
    work = Work(db)
    worker = worker_on(db, chain)
    before = chain.tester.take_snapshot()
    drain(worker)
    chain.mine(depth)
    sent = [row.tx_hash for row in transactions(db)]
    raw = [row.raw for row in transactions(db)]

    chain.tester.revert_to_snapshot(before)
    if known:
        chain.mine()
        for bytes_sent in raw:
            chain.gateway.send_raw(bytes_sent)
    chain.mine(2)
    worker.run_once()
    assert "submitted" in work.statuses or known
    drain(worker)

    work.check(chain.seen)
    assert [row.tx_hash for row in transactions(db)] == sent


def test_a_node_on_an_older_block_gets_what_it_lost(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    worker = worker_on(db, chain)
    before = chain.tester.take_snapshot()
    drain(worker)

    chain.tester.revert_to_snapshot(before)
    drain(worker)

    work.check(chain.seen)


def test_a_chain_that_lost_everything_gets_it_again_in_the_same_places(db: Database) -> None:
    chain = TesterChain()
    before = chain.tester.take_snapshot()
    work = Work(db)
    drain(worker_on(db, chain, recheck_s=0))
    with db.read() as tx:
        deployment = known_deployment(tx, chain.gateway.chain_id())
    assert deployment is not None
    sent = [row.tx_hash for row in transactions(db)]

    chain.tester.revert_to_snapshot(before)
    free_the_lease(db)
    drain(worker_on(db, chain, recheck_s=0))

    work.check(OnChain(chain.gateway, deployment))
    assert [row.tx_hash for row in transactions(db)] == sent


@dataclass(frozen=True)
class Jumping(Clock):
    """A wall clock that the test sets forward or back."""

    offset: list[float]

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.offset[0])


@dataclass(frozen=True)
class Slow(Clock):
    """Both clocks, ahead by what the steps took."""

    taken: list[float]

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.taken[0])

    def steady(self) -> float:
        return super().steady() + self.taken[0]


def test_a_round_longer_than_the_lease_keeps_it_by_heartbeats(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    clock = Slow([0.0])
    options = replace(chain.options, lease_s=10, missing_s=3600)
    rival = LeaseKeeper(db, f"anchor:{chain.signer.address}", "rival", 10, clock)
    steps: list[str] = []

    def slowly(step: str) -> None:
        steps.append(step)
        clock.taken[0] += 4
        assert rival.hold() is None, step

    drain(AnchorWorker(db, chain.gateway, chain.signer, options, clock=clock, step=slowly))

    work.check(chain.seen)
    assert any("leased" not in steps[i : i + 4] for i in range(len(steps) - 4)), "some round was longer"


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_clock_that_jumps_an_hour_holds_nothing_up(db: Database, chain: TesterChain, jump_s: float) -> None:
    offset = [0.0]
    worker = AnchorWorker(db, chain.gateway, chain.signer, chain.options, clock=Jumping(offset))
    person = create_account(db)
    save(db, person, "before")
    drain(worker)

    offset[0] = jump_s
    # Its row was written by the other clock, the one before the jump.
    year = 2199 if jump_s < 0 else 2026
    save(db, person, "after", now=f"{year}-01-01T00:00:00.000000Z")
    drain(worker)

    assert [row.status for row in rows_of(db, MEMORY, person.account_id)] == ["anchored", "anchored"]


def test_a_next_attempt_an_hour_away_by_a_clock_that_was_wrong_is_made_now(
    db: Database, chain: TesterChain
) -> None:
    offset = [3600.0]
    clock = Jumping(offset)
    worker = AnchorWorker(db, chain.gateway, chain.signer, chain.options, clock=clock)
    drain(worker)
    person = create_account(db)
    save(db, person, "one")
    with db.write() as tx:
        (lease,) = tx.leases.all()
        row = tx.outbox.get(MEMORY, person.account_id, 1)
        assert row is not None
        tx.outbox.mark_failed(lease, [row.id], reason="away", next_attempt_at=clock.after(5))

    drain(worker)
    assert [row.status for row in rows_of(db, MEMORY, person.account_id)] == ["failed"]
    offset[0] = 0
    drain(worker)

    assert [row.status for row in rows_of(db, MEMORY, person.account_id)] == ["anchored"]


def test_a_backlog_is_drained_by_a_worker_that_dies_again_and_again(
    db: Database, chain: TesterChain, tmp_path: Path
) -> None:
    """Each step kills one worker after the other, at ever later occurrences, over one store."""
    person = create_account(db)
    deaths = 0
    for nth, step in enumerate(STEPS * 2, start=1):
        save(db, person, f"memory {nth}")
        deaths += run_until_death(worker_on(db, chain, step=DieAt(step, 1 + nth % 2)), rounds=3)
        free_the_lease(db)
    drain(worker_on(db, chain))

    rows = rows_of(db, MEMORY, person.account_id)
    assert [row.status for row in rows] == ["anchored"] * 16
    assert chain.seen.memory_hashes(person.account_id, 16) == [row.hash for row in rows]
    assert chain.seen.skipped() == []
    assert deaths >= 8
