"""The worker's rounds on an in-process chain and a real store: what gets on chain, in which order."""

from __future__ import annotations

from collections import Counter

import pytest

from chainmemory.chain.registry import Payload
from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.hashing import ZERO
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE
from tests.support.chains import TesterChain
from tests.support.databases import ENGINES
from tests.support.onchain import OnChain
from tests.support.rounds import drain, free_the_lease, purposes, rows_of, worker_on
from tests.support.saving import Person, append_state, create_account, create_project, save

BOTH_ENGINES = pytest.mark.parametrize("db_url", ENGINES, indirect=True)


@BOTH_ENGINES
def test_memories_states_and_the_head_get_on_chain_as_they_are_in_the_store(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    memories = save(db, person, *[f"memory {n}" for n in range(1, 6)])
    project = create_project(db, person, "alpha")
    states = [append_state(db, person, project, v, cited=[("dec_0001", v)]) for v in range(1, 4)]

    drain(worker_on(db, chain))

    seen = chain.seen
    assert seen.memory_hashes(person.account_id, 5) == [row.event_hash for row in memories]
    assert seen.state_hashes(project.project_id, 3) == [row.state_hash for row in states]
    with db.read() as tx:
        account = tx.accounts.get(person.account_id)
    assert seen.latest_head(person.account_id) == (account.ledger_seq, account.ledger_hash)
    for kind, subject, count in (
        (MEMORY, person.account_id, 5),
        (STATE, project.project_id, 3),
        (HEAD, person.account_id, 1),
    ):
        rows = rows_of(db, kind, subject)
        assert [row.status for row in rows] == ["anchored"] * count
        assert all(seen.event_is_at(row) for row in rows)
    assert Counter(seen.skipped()) == Counter()


def test_an_anchored_memory_leads_to_its_batch_root(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    memories = save(db, person, *[f"memory {n}" for n in range(1, 6)])

    drain(worker_on(db, chain))

    rows = rows_of(db, MEMORY, person.account_id)
    assert {row.anchor_id for row in rows} == {"1"}
    seen = chain.seen
    assert seen.batch_root(person.account_id, 1) == evidence_root(row.event_hash for row in memories)


@pytest.mark.parametrize("payload", [True, False])
def test_ciphertext_goes_along_only_where_the_setting_says_so(
    db: Database, chain: TesterChain, payload: bool
) -> None:
    person = create_account(db)
    (row,) = save(db, person, "nobody reads this on chain", category="DECISION")

    drain(worker_on(db, chain, payload=payload))

    found = chain.seen.memory(row.event_hash)
    assert found is not None
    expected = Payload("DECISION", 5, len("nobody reads this on chain"), row.content_blob or b"")
    assert found.payload == (expected if payload else None)


def test_too_long_ciphertext_stays_at_home(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    long, short = save(db, person, "x" * 65_536, "short")

    drain(worker_on(db, chain))

    seen = chain.seen
    assert seen.payload_of(long.event_hash) is None
    assert seen.payload_of(short.event_hash) is not None


def test_a_state_waits_until_its_memories_are_on_chain(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    worker = worker_on(db, chain)
    drain(worker)
    save(db, person, "first")
    append_state(db, person, project, 1, cited=[("dec_0001", 1)])
    chain.hold_blocks()

    for _ in range(3):
        worker.run_once()
    assert STATE not in purposes(db)
    assert [row.status for row in rows_of(db, STATE, project.project_id)] == ["pending"]
    chain.mine()
    for _ in range(2):
        worker.run_once()

    assert STATE in purposes(db)
    drain(worker, mine=chain)
    seen = chain.seen
    (memory,), (state,) = rows_of(db, MEMORY, person.account_id), rows_of(db, STATE, project.project_id)
    assert memory.block_number is not None
    assert state.block_number is not None
    assert memory.block_number < state.block_number
    assert seen.event_is_at(state)


@BOTH_ENGINES
def test_later_rounds_send_nothing_twice(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    save(db, person, "first")
    append_state(db, person, project, 1, cited=[("dec_0001", 1)])
    drain(worker_on(db, chain))
    before = purposes(db)

    other = worker_on(db, chain)
    assert other.run_once().state == "standby"
    # The first one is gone without giving its lease back; the next takes over when it lapses.
    free_the_lease(db)
    drain(other)

    assert purposes(db) == before


def test_hundreds_of_states_of_several_projects_are_batched_and_each_is_there_once(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    projects = [create_project(db, person, f"p{n}") for n in range(5)]
    for version in range(1, 41):
        for project in projects:
            append_state(db, person, project, version)

    drain(worker_on(db, chain))

    seen = chain.seen
    for project in projects:
        rows = rows_of(db, STATE, project.project_id)
        assert seen.state_hashes(project.project_id, 40) == [row.hash for row in rows]
    assert Counter(seen.skipped()) == Counter()
    # One version of each alone, to see that its history is ours; then all the others together.
    assert Counter(purposes(db))[STATE] == 2


def test_confirmations_are_waited_for(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    worker = worker_on(db, chain, confirmations=3, head_wait_s=3600)
    for _ in range(8):
        worker.run_once()
        chain.mine()
    save(db, person, "first")
    worker.run_once()

    for extra_blocks in range(2):
        worker.run_once()
        (row,) = rows_of(db, MEMORY, person.account_id)
        assert (row.status, row.block_number) == ("submitted", None), extra_blocks
        chain.mine()
    worker.run_once()

    (row,) = rows_of(db, MEMORY, person.account_id)
    assert row.status == "anchored"


@BOTH_ENGINES
def test_a_conflict_stops_that_project_alone(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    worker = worker_on(db, chain)
    drain(worker)
    seen = chain.seen
    forked, good = create_project(db, person, "forked"), create_project(db, person, "good")
    other_hash = "0x" + "ab" * 32
    seen.anchor(chain.signer, forked.project_id, 1, other_hash)
    for version in (1, 2, 3):
        append_state(db, person, forked, version)
        append_state(db, person, good, version)

    drain(worker)
    append_state(db, person, forked, 4)
    append_state(db, person, good, 4)
    drain(worker)

    statuses = [row.status for row in rows_of(db, STATE, forked.project_id)]
    assert statuses[0] == "conflict"
    assert other_hash in (rows_of(db, STATE, forked.project_id)[0].reason or "")
    assert "anchored" not in statuses
    with db.read() as tx:
        [told] = [status.notice or "" for status in tx.worker.statuses()]
    assert told.startswith("The chain holds other hashes than the store in 1 place")
    assert [row.status for row in rows_of(db, STATE, good.project_id)] == ["anchored"] * 4
    assert seen.state_hashes(forked.project_id, 2) == [other_hash, ZERO]


@BOTH_ENGINES
def test_what_the_contract_holds_already_is_recorded_where_it_was_written(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    worker = worker_on(db, chain)
    drain(worker)
    seen = chain.seen
    project = create_project(db, person, "alpha")
    states = [append_state(db, person, project, version) for version in (1, 2, 3, 4)]
    # Someone with the same store anchored version 3 first: on this contract the project begins there.
    first = seen.anchor(chain.signer, project.project_id, 3, states[2].state_hash)

    drain(worker)

    rows = rows_of(db, STATE, project.project_id)
    assert [row.status for row in rows] == ["covered", "covered", "anchored", "anchored"]
    assert rows[2].tx_hash == first
    assert "previous_state_hash" in (rows[0].reason or "")
    assert seen.state_hashes(project.project_id, 4) == [
        ZERO,
        ZERO,
        states[2].state_hash,
        states[3].state_hash,
    ]


def test_a_forgotten_memorys_hash_is_recorded_without_its_ciphertext(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    (row,) = save(db, person, "to be forgotten")
    OnChain.forget(db, person.account_id, 1)

    drain(worker_on(db, chain))

    found = chain.seen.memory(row.event_hash)
    assert found is not None
    assert found.payload is None


def test_a_memory_forgotten_between_reading_and_storing_is_not_sent_with_its_ciphertext(
    db: Database, chain: TesterChain
) -> None:
    person: Person = create_account(db)
    drain(worker_on(db, chain))
    (row,) = save(db, person, "forgotten in the nick of time")

    def forget(step: str) -> None:
        if step == "signed":
            OnChain.forget(db, person.account_id, 1)

    free_the_lease(db)
    worker = worker_on(db, chain, step=forget)
    assert worker.run_once().sent == 0
    drain(worker)

    found = chain.seen.memory(row.event_hash)
    assert found is not None
    assert found.payload is None


def test_ledger_heads_follow_the_ledger(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    worker = worker_on(db, chain)
    save(db, person, "one", "two")
    drain(worker)
    save(db, person, "three")
    drain(worker)

    assert [(row.position, row.status) for row in rows_of(db, HEAD, person.account_id)] == [
        (2, "anchored"),
        (3, "anchored"),
    ]
