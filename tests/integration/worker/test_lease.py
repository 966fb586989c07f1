"""The worker's lease on a real store: one acts, the others take over, and a stale token writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.lease import LeaseKeeper
from chainmemory.errors import Conflict
from chainmemory.store.database import Database
from chainmemory.store.worker import WorkerStatus
from tests.support.databases import ENGINES

TTL = 10.0
pytestmark = pytest.mark.parametrize("db_url", ENGINES, indirect=True)


@dataclass(frozen=True)
class Hands(Clock):
    """A clock whose two hands the test moves."""

    hands: dict[str, float]

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.hands["wall"])

    def steady(self) -> float:
        return self.hands["steady"]

    def turn(self, seconds: float) -> None:
        self.hands["wall"] += seconds
        self.hands["steady"] += seconds


def _clock() -> Hands:
    return Hands({"wall": 0.0, "steady": 0.0})


def _keepers(db: Database, *clocks: Clock) -> list[LeaseKeeper]:
    return [LeaseKeeper(db, "anchor", f"w{i}", TTL, clock) for i, clock in enumerate(clocks)]


def test_one_holds_and_the_other_stands_by(db: Database) -> None:
    clock = _clock()
    first, second = _keepers(db, clock, clock)

    assert first.hold() is not None
    assert second.hold() is None
    assert second.other == "w0"


def test_a_heartbeat_keeps_it_for_longer_than_its_time(db: Database) -> None:
    clock = _clock()
    first, second = _keepers(db, clock, clock)
    held = first.hold()
    for _ in range(10):
        clock.turn(TTL / 2)
        assert second.hold() is None
        again = first.hold()
        assert again is not None
        assert held is not None
        assert again.token == held.token


def test_the_other_takes_over_when_it_lapses_and_the_stale_token_writes_nothing(db: Database) -> None:
    clock = _clock()
    first, second = _keepers(db, clock, clock)
    stale = first.hold()
    assert stale is not None
    clock.turn(TTL + 1)

    taken = second.hold()

    assert taken is not None
    assert taken.token == stale.token + 1
    status = WorkerStatus("anchor", "w0", "working", "", None, None, None, None, None, None, {}, "a", "b")
    with pytest.raises(Conflict, match="taken over") as raised, db.write() as tx:
        tx.worker.report(stale, status)
    assert raised.value.code == "lease_lost"
    with db.read() as tx:
        assert tx.worker.statuses() == []
    assert first.hold() is None
    assert first.held is None


def test_a_released_lease_is_free_at_once(db: Database) -> None:
    clock = _clock()
    first, second = _keepers(db, clock, clock)
    first.hold()

    first.release()

    assert first.held is None
    assert second.hold() is not None


def test_a_wall_clock_set_back_an_hour_delays_the_take_over_by_one_lease_only(db: Database) -> None:
    clock = _clock()
    first, second = _keepers(db, clock, clock)
    first.hold()
    clock.hands["wall"] -= 3600
    # The first one is dead now: nobody renews what it held.
    assert second.hold() is None
    clock.turn(TTL / 2)
    assert second.hold() is None
    clock.turn(TTL / 2 + 0.1)

    assert second.hold() is not None


def test_a_wall_clock_that_runs_ahead_takes_the_lease_early_but_fences_the_other(db: Database) -> None:
    slow, fast = _clock(), _clock()
    fast.hands["wall"] += 3600
    first, second = _keepers(db, slow, fast)
    assert first.hold() is not None

    assert second.hold() is not None

    slow.turn(TTL / 2)
    assert first.hold() is None


def test_a_status_comes_back_as_it_was_said(db: Database) -> None:
    (keeper,) = _keepers(db, _clock())
    lease = keeper.hold()
    assert lease is not None
    said = WorkerStatus(
        name="anchor",
        holder="w0",
        state="waiting",
        words="The node can't be reached.",
        error="unreachable",
        signer="0x01",
        balance=10**30,
        chain_id=20250,
        head_number=7,
        head_at="2026-01-01T00:00:00.000000Z",
        contracts={"ProjectStateAnchor": "0x02"},
        started_at="2026-01-01T00:00:00.000000Z",
        beat_at="2026-01-01T00:00:01.000000Z",
    )
    for _ in range(2):
        with db.write() as tx:
            tx.worker.report(lease, said)

    with db.read() as tx:
        assert tx.worker.status() == said


def test_a_holder_that_freezes_inside_a_transaction_doesnt_lock_the_others_out(db: Database) -> None:
    """PostgreSQL ends such a session; SQLite has one machine, and its lock goes with the process."""
    with db.read() as tx:
        session = tx.leases._session
        if session.dialect == "sqlite":
            assert session.raw.execute("PRAGMA busy_timeout").fetchone()[0] > 0
        else:
            shown = session.raw.execute("SHOW idle_in_transaction_session_timeout").fetchone()[0]
            assert shown == "10s"
