"""Several signers share the work by parts, each with its own lease and nonces; a lost one loses nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from chainmemory.chain.deploy import grant
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.signer import Signer
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE, OutboxRow
from chainmemory.store.parts import WHOLE, Part
from tests.support.chains import OTHER_KEY, TesterChain
from tests.support.databases import ENGINES
from tests.support.rounds import Work, drain, free_the_lease, rows_of, transactions, worker_on
from tests.support.saving import append_state, create_account, create_project, save

FIRST, SECOND = Part(1, 2), Part(2, 2)


@pytest.fixture
def other(chain: TesterChain) -> Signer:
    """A second signer that may write."""
    signer = Signer.from_key(OTHER_KEY)
    chain.fund(signer.address)
    assert chain.deployment is not None
    grant(chain.gateway, chain.signer, chain.deployment, signer.address, policy=FeePolicy(10**12))
    return signer


def _rows(db: Database, accounts: list[str], projects: list[str]) -> list[OutboxRow]:
    return [
        *(row for kind in (MEMORY, HEAD) for account in accounts for row in rows_of(db, kind, account)),
        *(row for project in projects for row in rows_of(db, STATE, project)),
    ]


@pytest.mark.parametrize("db_url", ENGINES, indirect=True)
def test_two_workers_do_a_part_each_and_together_all(db: Database, chain: TesterChain, other: Signer) -> None:
    people = [create_account(db) for _ in range(6)]
    projects = [create_project(db, person, "alpha") for person in people]
    for person, project in zip(people, projects, strict=True):
        save(db, person, "one")
        for version in (1, 2, 3):
            append_state(db, person, project, version, cited=[("dec_0001", 1)] if version == 1 else [])
    one = worker_on(db, chain, part=FIRST)
    two = worker_on(db, chain, signer=other, part=SECOND)

    for _ in range(14):
        assert {one.run_once().state, two.run_once().state} == {"working"}

    rows = _rows(db, [p.account_id for p in people], [p.project_id for p in projects])
    assert Counter(row.status for row in rows) == {"anchored": len(rows)}
    assert chain.seen.skipped() == []
    signers = {row.tx_hash: row.signer for row in transactions(db)}
    for row in rows:
        expected = chain.signer if FIRST.holds(row.subject) else other
        assert signers[row.tx_hash or ""] == expected.address
    for project in projects:
        hashes = [row.hash for row in rows_of(db, STATE, project.project_id)]
        assert chain.seen.state_hashes(project.project_id, 3) == hashes
    with db.read() as tx:
        assert {lease.name for lease in tx.leases.all()} == {
            f"anchor:{chain.signer.address}",
            f"anchor:{other.address}",
        }
        assert {(one.signer, one.part) for one in tx.worker.statuses()} == {
            (chain.signer.address, "1/2"),
            (other.address, "2/2"),
        }


def test_two_signers_do_not_work_on_the_same_part(db: Database, chain: TesterChain, other: Signer) -> None:
    worker_on(db, chain).run_once()

    progress = worker_on(db, chain, signer=other, part=SECOND).run_once()

    assert (progress.state, progress.error) == ("waiting", "part_taken")
    assert "CHAINMEMORY_WORKER_PART" in progress.words


def test_what_a_lost_signer_had_sent_is_taken_over(db: Database, chain: TesterChain, other: Signer) -> None:
    work = Work(db)
    lost = worker_on(db, chain, merkle=True)
    drain(lost)
    work.add()
    chain.hold_blocks()
    lost.run_once()
    assert "submitted" in work.statuses
    # Its key is replaced; what it had sent never gets into a block, or does without anyone following it.
    free_the_lease(db)
    with db.write() as tx:
        (status,) = tx.worker.statuses()
        lease = tx.leases.acquire(status.name, "end", now="9999-01-01T00:00:00.000000Z", until="9999")
        assert lease is not None
        tx.worker.report(lease, status._replace(state="stopped"))
        tx.leases.release(lease, now="2000-01-01T00:00:00.000000Z")
    chain.tester.enable_auto_mine_transactions()
    chain.mine()

    drain(worker_on(db, chain, signer=other, merkle=True, recheck_s=0))

    assert work.statuses == {"anchored": len(work.rows)}
    assert chain.seen.skipped() == []
    assert {row.signer for row in transactions(db)} == {chain.signer.address, other.address}


def test_a_signer_at_work_is_not_taken_over(db: Database, chain: TesterChain, other: Signer) -> None:
    work = Work(db)
    busy = worker_on(db, chain, part=WHOLE)
    drain(busy)
    work.add()
    chain.hold_blocks()
    busy.run_once()
    before = work.rows
    index = 1 if FIRST.holds(work.person.account_id) else 2

    # The parts are cut anew while the first still runs: its beat is old, its lease is not.
    with db.write() as tx:
        (status,) = tx.worker.statuses()
        (lease,) = tx.leases.all()
        tx.worker.report(lease, status._replace(beat_at="2000-01-01T00:00:00.000000Z"))
    heir = worker_on(db, chain, signer=other, part=Part(index, 2), recheck_s=0)
    heir.run_once()

    sent = [row for row in before if row.status == "submitted"]
    assert sent
    assert [row for row in work.rows if row.status == "submitted" and row in sent] == sent
