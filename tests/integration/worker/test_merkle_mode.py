"""Merkle mode: many states under one root, and every way in which it meets crashes and direct mode."""

from __future__ import annotations

from collections import Counter

import pytest

from chainmemory.anchoring.roots import root_proofs
from chainmemory.chain.deploy import deploy
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.merkle import State, verify_state_in_root
from chainmemory.protocol.hashing import ZERO
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import STATE, OutboxRow
from chainmemory.store.projects import Project
from tests.support.chains import TesterChain
from tests.support.databases import ENGINES
from tests.support.onchain import OnChain
from tests.support.rounds import Work, drain, free_the_lease, purposes, rows_of, worker_on
from tests.support.saving import append_state, create_account, create_project

OTHER_HASH = "0x" + "ab" * 32


def check_proved(db: Database, seen: OnChain, rows: list[OutboxRow]) -> None:
    """Each row's proof leads to its root, for the contract too; the root's event is where the row says."""
    with db.read() as tx:
        proofs = root_proofs(tx, rows)
    assert [row.id for row in rows if row.id not in proofs] == []
    for row in rows:
        root, proof, _ = proofs[row.id]
        state = State(row.subject, row.position, row.hash)
        verify_state_in_root(state, proof, root)
        assert seen.anchors.verify_in_root(root, state, proof)
        assert not seen.anchors.verify_in_root(root, state._replace(state_hash=OTHER_HASH), proof)
        log = seen.anchors.root_log(root, from_block=0)
        assert log is not None
        assert (row.anchor_id, row.tx_hash, row.block_hash) == (root, log.tx_hash, log.block_hash)


@pytest.mark.parametrize("db_url", ENGINES, indirect=True)
def test_states_of_several_projects_go_under_one_root_each_with_its_proof(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    projects = [create_project(db, person, f"p{n}") for n in range(3)]
    for version in range(1, 5):
        for project in projects:
            append_state(db, person, project, version)

    drain(worker_on(db, chain, merkle=True))

    rows = [row for project in projects for row in rows_of(db, STATE, project.project_id)]
    assert Counter(row.status for row in rows) == {"anchored": 12}
    assert Counter(purposes(db)) == {"root": 1, "head": 1}
    check_proved(db, chain.seen, rows)
    assert chain.seen.state_hashes(projects[0].project_id, 4) == [ZERO] * 4


def test_a_state_waits_for_its_memories_in_merkle_mode_too(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    worker = worker_on(db, chain, merkle=True)
    chain.hold_blocks()
    worker.run_once()
    worker.run_once()
    assert "root" not in purposes(db)

    drain(worker, mine=chain)

    memory, *_, state, _ = work.rows
    assert (memory.status, state.status) == ("anchored", "anchored")
    assert (memory.block_number or 0) < (state.block_number or 0)
    assert work.statuses == {"anchored": 5}


@pytest.mark.parametrize("step", ["planned", "signed", "stored", "sent", "receipt", "settled"])
def test_a_crash_at_any_step_leaves_one_root_with_every_state(
    db: Database, chain: TesterChain, step: str
) -> None:
    class Crash(BaseException):
        pass

    def strike(name: str) -> None:
        if name == step:
            raise Crash

    person = create_account(db)
    project = create_project(db, person, "alpha")
    for version in (1, 2, 3):
        append_state(db, person, project, version)
    with pytest.raises(Crash):
        drain(worker_on(db, chain, merkle=True, head_wait_s=3600, step=strike))
    free_the_lease(db)

    drain(worker_on(db, chain, merkle=True))

    check_proved(db, chain.seen, rows_of(db, STATE, project.project_id))
    assert chain.seen.events("RootAnchored") == 1


def test_a_root_whose_receipt_the_node_lost_is_found_by_its_event(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    append_state(db, person, project, 1)
    append_state(db, person, project, 2)
    worker = worker_on(db, chain, merkle=True, missing_s=0)
    worker.run_once()
    chain.node.mood = lambda method, _: (
        {"jsonrpc": "2.0", "id": 1, "result": None} if method == "eth_getTransactionReceipt" else None
    )

    for _ in range(4):
        worker.run_once()

    check_proved(db, chain.seen, rows_of(db, STATE, project.project_id))
    assert chain.seen.events("RootAnchored") == 1


def test_a_reorganisation_puts_the_same_root_on_chain_again(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    worker = worker_on(db, chain, merkle=True, head_wait_s=3600)
    drain(worker)
    before = chain.tester.take_snapshot()
    append_state(db, person, project, 1)
    append_state(db, person, project, 2)
    drain(worker)
    roots = [row.anchor_id for row in rows_of(db, STATE, project.project_id)]

    chain.tester.revert_to_snapshot(before)
    chain.mine(3)
    drain(worker)

    rows = rows_of(db, STATE, project.project_id)
    assert [row.anchor_id for row in rows] == roots
    check_proved(db, chain.seen, rows)


def versions(db: Database, project: Project) -> list[tuple[int, str, bool]]:
    """Return each version's status, and whether a root vouches for it."""
    return [
        (row.position, row.status, (row.anchor_id or "").startswith("0x"))
        for row in rows_of(db, STATE, project.project_id)
    ]


def test_a_living_store_changes_to_merkle_mode_and_back(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    old, new = create_project(db, person, "old"), create_project(db, person, "new")
    states = [append_state(db, person, old, version) for version in (1, 2)]
    drain(worker_on(db, chain))
    free_the_lease(db)
    states += [append_state(db, person, old, version) for version in (3, 4)]
    append_state(db, person, new, 1)

    drain(worker_on(db, chain, merkle=True))

    assert versions(db, old) == [
        (1, "anchored", False),
        (2, "anchored", False),
        (3, "anchored", True),
        (4, "anchored", True),
    ]
    check_proved(db, chain.seen, rows_of(db, STATE, old.project_id)[2:])
    free_the_lease(db)
    states.append(append_state(db, person, old, 5))
    append_state(db, person, new, 2)

    drain(worker_on(db, chain))

    # The contract has `old` up to 2, and takes no 5 before 3 and 4: they are anchored directly as well.
    assert versions(db, old) == [(version, "anchored", False) for version in range(1, 6)]
    assert chain.seen.state_hashes(old.project_id, 5) == [row.state_hash for row in states]
    # It has nothing of `new`, which may begin anywhere: version 1 stays under its root.
    assert versions(db, new) == [(1, "anchored", True), (2, "anchored", False)]
    check_proved(db, chain.seen, rows_of(db, STATE, new.project_id)[:1])


def test_what_the_contract_holds_for_a_version_counts_in_merkle_mode_too(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    forked, known = create_project(db, person, "forked"), create_project(db, person, "known")
    drain(worker_on(db, chain))
    free_the_lease(db)
    seen = chain.seen
    states = [append_state(db, person, known, version) for version in (1, 2, 3)]
    for version in (1, 2):
        append_state(db, person, forked, version)
    seen.anchor(chain.signer, forked.project_id, 1, OTHER_HASH)
    first = seen.anchor(chain.signer, known.project_id, 2, states[1].state_hash)

    drain(worker_on(db, chain, merkle=True))

    assert versions(db, forked) == [(1, "conflict", False), (2, "pending", False)]
    assert versions(db, known) == [(1, "covered", False), (2, "anchored", False), (3, "anchored", True)]
    assert rows_of(db, STATE, known.project_id)[1].tx_hash == first


def test_a_move_to_other_contracts_puts_the_latest_version_under_a_root_there(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    append_state(db, person, project, 1)
    append_state(db, person, project, 2)
    drain(worker_on(db, chain, merkle=True))
    free_the_lease(db)
    moved = deploy(chain.gateway, chain.signer, policy=FeePolicy(10**12))

    drain(
        worker_on(
            db,
            chain,
            merkle=True,
            anchor_address=moved.anchors.address,
            registry_address=moved.registry.address,
        )
    )

    assert [status for _, status, _ in versions(db, project)] == ["covered", "anchored"]
    check_proved(db, OnChain(chain.gateway, moved), rows_of(db, STATE, project.project_id)[1:])
