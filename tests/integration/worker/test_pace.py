"""What takes its time: ledger heads at their interval, and progress on a long catch-up; one clock by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chainmemory.anchoring.catch_up import CatchUp
from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import HEAD, MEMORY
from tests.support.chains import TesterChain
from tests.support.rounds import rows_of
from tests.support.saving import create_account, save


class ByHand(Clock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        object.__setattr__(self, "now_s", 0.0)

    now_s: float

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now_s)

    def steady(self) -> float:
        return self.now_s

    def move(self, seconds: float) -> None:
        object.__setattr__(self, "now_s", self.now_s + seconds)


def test_heads_are_anchored_at_their_interval_when_they_moved(db: Database, chain: TesterChain) -> None:
    clock = ByHand()
    options = replace(chain.options, head_wait_s=600, lease_s=3_600)
    worker = AnchorWorker(db, chain.gateway, chain.signer, options, clock=clock)
    person = create_account(db)

    def heads() -> list[tuple[int, str]]:
        for _ in range(4):
            worker.run_once()
        return [(row.position, row.status) for row in rows_of(db, HEAD, person.account_id)]

    save(db, person, "one")
    assert heads() == [(1, "anchored")]
    save(db, person, "two")
    clock.move(599)
    assert heads() == [(1, "anchored")]
    clock.move(1)
    assert heads() == [(1, "anchored"), (2, "anchored")]
    clock.move(600)
    # It didn't move since.
    assert heads() == [(1, "anchored"), (2, "anchored")]


def test_a_long_catch_up_says_how_much_how_fast_and_how_long(db: Database, chain: TesterChain) -> None:
    person, clock = create_account(db), ByHand()
    save(db, person, *[f"memory {n}" for n in range(1, 21)])
    catch_up = CatchUp(db, clock, least=10, every_s=5)

    catch_up.look()
    assert catch_up.words == "Catching up: 20 wait for the chain."
    _anchor(db, person.account_id, 5)
    clock.move(2)
    catch_up.look()
    assert catch_up.words == "Catching up: 20 wait for the chain."
    clock.move(3)
    catch_up.look()
    assert catch_up.words == "Catching up: 15 wait for the chain, 5 done, 1.0 a second, about 15 s left."
    save(db, person, *["and more"] * 10)
    clock.move(5)
    catch_up.look()
    assert catch_up.words == "Catching up: 25 wait for the chain."
    _anchor(db, person.account_id, 30)
    clock.move(5)
    catch_up.look()
    assert catch_up.words is None


def test_little_is_no_catch_up(db: Database, chain: TesterChain) -> None:
    save(db, create_account(db), "one")
    catch_up = CatchUp(db, ByHand(), least=10)
    catch_up.look()
    assert catch_up.words is None


def test_the_worker_says_so_in_its_status(db: Database, chain: TesterChain) -> None:
    save(db, create_account(db), *[f"memory {n}" for n in range(1_200)])
    chain.hold_blocks()
    said = AnchorWorker(db, chain.gateway, chain.signer, chain.options).run_once().words
    assert said.startswith("Catching up: 1,201 wait for the chain")


def _anchor(db: Database, account_id: str, up_to: int) -> None:
    """Count these as done without a chain: what is counted is the outbox."""
    with db.write() as tx:
        lease = tx.leases.acquire("test", "me", now="2026-01-01", until="2020-01-01")
        assert lease is not None
        rows = tx.outbox.page(MEMORY, account_id, limit=100)
        tx.outbox.mark_covered(lease, [row.id for row in rows if row.position <= up_to])
