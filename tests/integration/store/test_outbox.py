"""The outbox: what is due in which order, and what only the lease's holder may change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chainmemory.errors import Conflict
from chainmemory.store.database import Database
from chainmemory.store.leases import Lease
from chainmemory.store.outbox import Anchored, Depth
from chainmemory.store.outbox_rows import OutboxRow
from chainmemory.store.transactions import SignedTransaction
from chainmemory.store.tx import Tx
from tests.support.saving import (
    NOW,
    Person,
    append_state,
    at,
    check_ledger,
    create_account,
    create_project,
    made_up_hash,
    save,
)

LATER = at(86_000)


def _lease(db: Database, holder: str = "me", now: str = NOW) -> Lease:
    with db.write() as tx:
        lease = tx.leases.acquire("worker", holder, now=now, until=LATER)
    assert lease is not None
    return lease


def _anchor(db: Database, lease: Lease, *rows: OutboxRow, block: int = 5) -> None:
    with db.write() as tx:
        tx.outbox.mark_anchored(
            lease, [Anchored(row.id, "0xt", block, "0xb", str(row.id), at(60)) for row in rows]
        )


def _row(db: Database, kind: str, subject: str, position: int) -> OutboxRow:
    with db.read() as tx:
        row = tx.outbox.get(kind, subject, position)
    assert row is not None
    return row


def _due_states(db: Database, now: str = NOW, limit: int = 100) -> list[tuple[str, int]]:
    with db.read() as tx:
        return [(row.subject, row.position) for row in tx.outbox.due_states(now=now, limit=limit)]


def test_memories_are_due_oldest_first_and_sorted(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    save(db, one, "a", "b")
    save(db, two, "c")
    save(db, one, "d")
    with db.read() as tx:
        due = tx.outbox.due("memory", now=NOW, limit=100)
        first_three = tx.outbox.due("memory", now=NOW, limit=3)
    places = [(row.subject, row.position) for row in due]
    assert places == sorted(
        [(one.account_id, 1), (one.account_id, 2), (one.account_id, 3), (two.account_id, 1)]
    )
    assert {(row.subject, row.position) for row in first_three} == set(places) - {(one.account_id, 3)}


def test_a_failed_row_rests_until_its_next_attempt(db: Database) -> None:
    person = create_account(db)
    save(db, person, "a", "b")
    lease = _lease(db)
    first = _row(db, "memory", person.account_id, 1)
    with db.write() as tx:
        tx.outbox.mark_failed(lease, [first.id], reason="the node is down", next_attempt_at=at(100))
    with db.read() as tx:
        assert [row.position for row in tx.outbox.due("memory", now=at(99), limit=9)] == [2]
        assert [row.position for row in tx.outbox.due("memory", now=at(100), limit=9)] == [1, 2]
    failed = _row(db, "memory", person.account_id, 1)
    assert (failed.status, failed.attempts, failed.reason) == ("failed", 1, "the node is down")
    with db.write() as tx:
        assert tx.outbox.retry_now(lease, now=at(50)) == 1
        assert [row.position for row in tx.outbox.due("memory", now=at(50), limit=9)] == [1, 2]


def test_a_row_goes_from_pending_to_anchored_and_back(db: Database) -> None:
    person = create_account(db)
    save(db, person, "a")
    lease = _lease(db)
    row = _row(db, "memory", person.account_id, 1)
    with db.write() as tx:
        tx.outbox.mark_submitted(lease, [row.id], tx_hash="0xt")
        assert tx.outbox.due("memory", now=LATER, limit=9) == []
        assert [one.id for one in tx.outbox.submitted()] == [row.id]
        assert [one.id for one in tx.outbox.by_transaction("0xt")] == [row.id]
        assert [one.id for one in tx.outbox.by_ids([row.id, 10**9])] == [row.id]
    _anchor(db, lease, row, block=7)
    anchored = _row(db, "memory", person.account_id, 1)
    assert anchored == row._replace(
        status="anchored",
        tx_hash="0xt",
        block_number=7,
        block_hash="0xb",
        anchor_id=str(row.id),
        anchored_at=at(60),
    )
    with db.read() as tx:
        assert tx.memories.get(person.account_id, 1).sync == "anchored"
        assert tx.outbox.latest_anchored("memory", person.account_id) == anchored
        assert [one.id for one in tx.outbox.anchored_from_block(7)] == [row.id]
        assert tx.outbox.anchored_from_block(8) == []
        assert tx.outbox.submitted() == []
    with db.write() as tx:
        tx.outbox.mark_unconfirmed(lease, [row.id])
    assert _row(db, "memory", person.account_id, 1) == row._replace(status="submitted", tx_hash="0xt")
    with db.write() as tx:
        tx.outbox.mark_pending(lease, [row.id], now=at(70))
    assert _row(db, "memory", person.account_id, 1) == row._replace(next_attempt_at=at(70))


def test_a_state_waits_for_the_memories_it_newly_cites(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    save(db, person, "a", "b")
    append_state(db, person, project, 1, cited=[("dec_0001", 1), ("dec_0001", 2)])
    append_state(db, person, project, 2)
    lease = _lease(db)
    assert _due_states(db) == []
    _anchor(db, lease, _row(db, "memory", person.account_id, 1))
    assert _due_states(db) == []
    _anchor(db, lease, _row(db, "memory", person.account_id, 2))
    assert _due_states(db) == [(project.project_id, 1), (project.project_id, 2)]
    assert _due_states(db, limit=1) == [(project.project_id, 1)]


def test_versions_of_a_project_keep_their_order_and_others_go_on(db: Database) -> None:
    person = create_account(db)
    alpha, beta = create_project(db, person, "alpha"), create_project(db, person, "beta")
    save(db, person, "a")
    append_state(db, person, alpha, 1)
    append_state(db, person, alpha, 2, cited=[("dec_0001", 1)])
    append_state(db, person, alpha, 3)
    append_state(db, person, beta, 1)
    assert _due_states(db) == sorted([(alpha.project_id, 1), (beta.project_id, 1)])
    lease = _lease(db)
    with db.write() as tx:
        tx.outbox.mark_failed(
            lease, [_row(db, "state", alpha.project_id, 1).id], reason="no", next_attempt_at=at(100)
        )
    assert _due_states(db, now=at(99)) == [(beta.project_id, 1)]
    assert _due_states(db, now=at(100)) == sorted([(alpha.project_id, 1), (beta.project_id, 1)])
    with db.write() as tx:
        tx.outbox.mark_submitted(lease, [_row(db, "state", alpha.project_id, 1).id], tx_hash="0xt")
    _anchor(db, lease, _row(db, "memory", person.account_id, 1))
    assert _due_states(db) == sorted([(alpha.project_id, 2), (alpha.project_id, 3), (beta.project_id, 1)])


def test_a_conflict_stops_its_project_alone(db: Database) -> None:
    person = create_account(db)
    alpha, beta = create_project(db, person, "alpha"), create_project(db, person, "beta")
    append_state(db, person, alpha, 1)
    append_state(db, person, alpha, 2)
    append_state(db, person, beta, 1)
    lease = _lease(db)
    with db.write() as tx:
        tx.outbox.mark_conflict(lease, [_row(db, "state", alpha.project_id, 1).id], reason="another hash")
    assert _due_states(db) == [(beta.project_id, 1)]
    with db.read() as tx:
        version = tx.states.get(alpha.project_id, 1)
    assert version is not None
    assert version.anchor == "conflict"


def test_covered_rows_are_done(db: Database) -> None:
    person = create_account(db)
    alpha = create_project(db, person, "alpha")
    append_state(db, person, alpha, 1)
    append_state(db, person, alpha, 2)
    lease = _lease(db)
    with db.write() as tx:
        tx.outbox.mark_covered(lease, [_row(db, "state", alpha.project_id, 1).id])
    assert _due_states(db) == [(alpha.project_id, 2)]


def test_many_resting_states_do_not_hide_the_ones_behind_them(db: Database) -> None:
    person = create_account(db)
    alpha, beta = create_project(db, person, "alpha"), create_project(db, person, "beta")
    for version in range(1, 8):
        append_state(db, person, alpha, version)
    append_state(db, person, beta, 1)
    lease = _lease(db)
    with db.write() as tx:
        tx.outbox.mark_failed(
            lease, [_row(db, "state", alpha.project_id, 1).id], reason="no", next_attempt_at=LATER
        )
        pages = list(tx.outbox._open_states(size=3))
        assert [len(page) for page in pages] == [3, 3, 2]
    assert _due_states(db, limit=2) == [(beta.project_id, 1)]


def test_heads_are_enqueued_when_the_ledger_moved_and_none_is_on_the_way(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    save(db, one, "a", "b")
    lease = _lease(db)
    with db.write() as tx:
        assert tx.outbox.enqueue_moved_heads(lease, now=NOW) == 1
        assert tx.outbox.enqueue_moved_heads(lease, now=NOW) == 0
    head = _row(db, "head", one.account_id, 2)
    with db.read() as tx:
        assert tx.ledger.entries(one.account_id, first=2)[0].hash == head.hash
        assert [row.id for row in tx.outbox.due("head", now=NOW, limit=9)] == [head.id]
    save(db, one, "c")
    save(db, two, "d")
    with db.write() as tx:
        assert tx.outbox.enqueue_moved_heads(lease, now=NOW) == 1
        assert tx.outbox.get("head", two.account_id, 1) is not None
        assert tx.outbox.get("head", one.account_id, 3) is None
    _anchor(db, lease, head)
    with db.write() as tx:
        assert tx.outbox.enqueue_moved_heads(lease, now=NOW) == 1
        assert tx.outbox.get("head", one.account_id, 3) is not None
        assert check_ledger(tx, one.account_id) == 3


def test_depths_count_by_kind_and_status(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    save(db, one, "a", now=at(5))
    save(db, one, "b", now=at(6))
    save(db, two, "c", now=at(7))
    lease = _lease(db)
    _anchor(db, lease, _row(db, "memory", one.account_id, 1))
    with db.read() as tx:
        assert sorted(tx.outbox.depth()) == [
            Depth("memory", "anchored", 1, at(5)),
            Depth("memory", "pending", 2, at(6)),
        ]
        assert tx.outbox.depth_of(one.account_id) == {"anchored": 1, "pending": 1}
        assert tx.outbox.depth_of(two.account_id) == {"pending": 1}
        assert tx.outbox.depth_of(two.account_id, "head") == {}


def test_rows_of_a_subject_are_paged_highest_first(db: Database) -> None:
    person = create_account(db)
    save(db, person, *"abcde")
    with db.read() as tx:
        assert [row.position for row in tx.outbox.page("memory", person.account_id, limit=2)] == [5, 4]
        assert [row.position for row in tx.outbox.page("memory", person.account_id, before=4)] == [3, 2, 1]
        assert tx.outbox.statuses("memory", person.account_id, [2, 9]).keys() == {2}
        assert tx.outbox.latest_anchored("memory", person.account_id) is None


def test_a_lease_is_held_by_one_until_it_lapses(db: Database) -> None:
    with db.write() as tx:
        mine = tx.leases.acquire("worker", "me", now=at(0), until=at(10))
        assert mine == Lease("worker", "me", 1, at(10))
        assert tx.leases.acquire("worker", "you", now=at(9), until=at(19)) is None
        assert tx.leases.acquire("worker", "me", now=at(9), until=at(19)) is None
        assert tx.leases.acquire("other", "you", now=at(9), until=at(19)) is not None
        mine = tx.leases.renew(mine, until=at(20))
        assert tx.leases.acquire("worker", "you", now=at(19), until=at(29)) is None
        yours = tx.leases.acquire("worker", "you", now=at(20), until=at(30))
        assert yours == Lease("worker", "you", 2, at(30))
        for call in (lambda: tx.leases.renew(mine, until=at(40)), lambda: tx.leases.guard(mine)):
            with pytest.raises(Conflict) as caught:
                call()
            assert caught.value.code == "lease_lost"
        tx.leases.release(mine, now=at(21))
        assert tx.leases.get("worker") == yours
        tx.leases.release(yours, now=at(21))
        assert tx.leases.acquire("worker", "me", now=at(21), until=at(31)) == Lease("worker", "me", 3, at(31))
        assert [lease.name for lease in tx.leases.all()] == ["other", "worker"]
        assert tx.leases.get("none") is None


def test_a_lapsed_lease_nobody_took_still_fences(db: Database) -> None:
    with db.write() as tx:
        mine = tx.leases.acquire("worker", "me", now=at(0), until=at(10))
        assert mine is not None
        tx.leases.guard(mine)
        assert tx.leases.renew(mine, until=at(50)).token == 1


CHANGES: list[Callable[[Tx, Lease, int], object]] = [
    lambda tx, lease, row: tx.outbox.mark_submitted(lease, [row], tx_hash="0xt"),
    lambda tx, lease, row: tx.outbox.mark_anchored(lease, [Anchored(row, "0xt", 1, "0xb", None, NOW)]),
    lambda tx, lease, row: tx.outbox.mark_failed(lease, [row], reason="no", next_attempt_at=NOW),
    lambda tx, lease, row: tx.outbox.mark_pending(lease, [row], now=at(9)),
    lambda tx, lease, row: tx.outbox.mark_unconfirmed(lease, [row]),
    lambda tx, lease, row: tx.outbox.mark_covered(lease, [row]),
    lambda tx, lease, row: tx.outbox.mark_conflict(lease, [row], reason="no"),
    lambda tx, lease, row: tx.outbox.retry_now(lease, now=at(9)),
    lambda tx, lease, row: tx.outbox.enqueue_moved_heads(lease, now=NOW),
    lambda tx, lease, row: tx.transactions.add(lease, _transaction("0xnew")),
    lambda tx, lease, row: tx.transactions.mark(lease, "0xold", "mined", now=NOW),
]


def _transaction(tx_hash: str, nonce: int = 0, created_at: str = NOW) -> SignedTransaction:
    return SignedTransaction(
        tx_hash=tx_hash,
        chain_id=20250,
        signer="0xs",
        nonce=nonce,
        raw=b"\x02raw",
        purpose="memories",
        outbox_ids=(1, 2),
        gas_limit=100_000,
        max_fee=10**30,
        priority_fee=None,
        created_at=created_at,
    )


def test_a_worker_with_an_old_token_changes_nothing(db: Database) -> None:
    person = create_account(db)
    save(db, person, "a")
    old = _lease(db, "old")
    with db.write() as tx:
        tx.transactions.add(old, _transaction("0xold"))
    _lease(db, "new", now=LATER)
    row = _row(db, "memory", person.account_id, 1)
    for change in CHANGES:
        with pytest.raises(Conflict) as caught, db.write() as tx:
            change(tx, old, row.id)
        assert caught.value.code == "lease_lost"
    with db.read() as tx:
        assert tx.outbox.get("memory", person.account_id, 1) == row
        assert tx.outbox.get("head", person.account_id, 1) is None
        stored = tx.transactions.get("0xold")
        assert stored is not None
        assert stored.status == "signed"
        assert tx.transactions.get("0xnew") is None


def test_signed_transactions_are_stored_byte_for_byte(db: Database) -> None:
    lease = _lease(db)
    one, two = _transaction("0x1", nonce=4), _transaction("0x2", nonce=4, created_at=at(9))
    with db.write() as tx:
        tx.transactions.add(lease, one)
        tx.transactions.add(lease, two._replace(priority_fee=10**20))
        tx.transactions.add(lease, _transaction("0x3", nonce=3, created_at=at(1)))
    with pytest.raises(Conflict), db.write() as tx:
        tx.transactions.add(lease, one)
    with db.read() as tx:
        stored = tx.transactions.get("0x1")
        assert stored is not None
        assert tuple(stored[: len(one)]) == tuple(one)
        assert (stored.status, stored.block_number) == ("signed", None)
        assert [row.tx_hash for row in tx.transactions.open(20250, "0xs")] == ["0x3", "0x2", "0x1"]
        assert [row.tx_hash for row in tx.transactions.of_nonce(20250, "0xs", 4)] == ["0x2", "0x1"]
        assert tx.transactions.of_nonce(1, "0xs", 4) == []
        assert tx.transactions.highest_nonce(20250, "0xs") == 4
        assert tx.transactions.highest_nonce(20250, "0xother") is None
        assert [row.tx_hash for row in tx.transactions.recent(limit=2)] == ["0x1", "0x2"]
    with db.write() as tx:
        tx.transactions.mark(
            lease, "0x1", "mined", now=at(20), block_number=3, block_hash="0xb", gas_used=21_000
        )
        tx.transactions.mark(lease, "0x2", "dropped", now=at(21))
        tx.transactions.mark(lease, "0x3", "confirmed", now=at(22), block_number=3)
    with db.read() as tx:
        assert [(row.tx_hash, row.gas_used) for row in tx.transactions.open(20250, "0xs")] == [
            ("0x1", 21_000)
        ]
        second = tx.transactions.get("0x2")
    assert second is not None
    assert (second.priority_fee, second.max_fee) == (10**20, 10**30)


def test_hashes_of_states_are_their_own(db: Database) -> None:
    person: Person = create_account(db)
    project = create_project(db, person, "alpha")
    append_state(db, person, project, 1)
    assert _row(db, "state", project.project_id, 1).hash == made_up_hash(project.project_id, 1)
