"""Moving to other contracts: what they lack is brought there, and what can't be is covered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.deploy import Deployment, deploy
from chainmemory.chain.fees import FeePolicy
from chainmemory.protocol.hashing import ZERO
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE
from tests.support.chains import TesterChain
from tests.support.databases import ENGINES
from tests.support.onchain import OnChain
from tests.support.rounds import drain, free_the_lease, rows_of, worker_on
from tests.support.saving import append_state, create_account, create_project, save


def _on(db: Database, chain: TesterChain, deployment: Deployment) -> AnchorWorker:
    options = replace(
        chain.options,
        anchor_address=deployment.anchors.address,
        registry_address=deployment.registry.address,
    )
    return AnchorWorker(db, chain.gateway, chain.signer, options)


@pytest.mark.parametrize("db_url", ENGINES, indirect=True)
def test_the_new_contracts_get_every_memory_and_each_projects_latest_state(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    memories = save(db, person, "one", "two")
    quiet, busy = create_project(db, person, "quiet"), create_project(db, person, "busy")
    for version in (1, 2, 3):
        append_state(db, person, quiet, version)
        append_state(db, person, busy, version)
    drain(worker_on(db, chain))
    new = deploy(chain.gateway, chain.signer, policy=FeePolicy(10**12))
    append_state(db, person, busy, 4)
    free_the_lease(db)

    drain(_on(db, chain, new))

    seen = OnChain(chain.gateway, new)
    assert seen.memory_hashes(person.account_id, 2) == [row.event_hash for row in memories]
    quiet_rows, busy_rows = rows_of(db, STATE, quiet.project_id), rows_of(db, STATE, busy.project_id)
    assert [row.status for row in quiet_rows] == ["covered", "covered", "anchored"]
    assert [row.status for row in busy_rows] == ["covered", "covered", "covered", "anchored"]
    assert seen.state_hashes(quiet.project_id, 3) == [ZERO, ZERO, quiet_rows[2].hash]
    assert seen.state_hashes(busy.project_id, 4) == [ZERO, ZERO, ZERO, busy_rows[3].hash]
    assert [row.tx_hash for row in quiet_rows[:2]] == [None, None]
    heads = rows_of(db, HEAD, person.account_id)
    assert [row.status for row in heads][-1] == "anchored"
    assert all(seen.event_is_at(row) for row in [*rows_of(db, MEMORY, person.account_id), heads[-1]])
    assert seen.skipped() == []

    append_state(db, person, quiet, 4)
    free_the_lease(db)
    drain(_on(db, chain, new))
    assert [row.status for row in rows_of(db, STATE, quiet.project_id)][2:] == ["anchored", "anchored"]


def test_a_project_in_conflict_goes_on_on_new_contracts(db: Database, chain: TesterChain) -> None:
    person = create_account(db)
    project = create_project(db, person, "forked")
    chain.seen.anchor(chain.signer, project.project_id, 1, "0x" + "ab" * 32)
    states = [append_state(db, person, project, version) for version in (1, 2)]
    drain(worker_on(db, chain))
    assert [row.status for row in rows_of(db, STATE, project.project_id)] == ["conflict", "pending"]
    new = deploy(chain.gateway, chain.signer, policy=FeePolicy(10**12))
    free_the_lease(db)

    drain(_on(db, chain, new))

    assert [row.status for row in rows_of(db, STATE, project.project_id)] == ["anchored", "anchored"]
    held = OnChain(chain.gateway, new).state_hashes(project.project_id, 2)
    assert held == [row.state_hash for row in states]


def _swallow(method: str, _: object) -> dict[str, object] | None:
    if method != "eth_sendRawTransaction":
        return None
    return {"jsonrpc": "2.0", "id": 1, "result": "0x" + "00" * 32}


def test_what_was_on_its_way_to_the_old_contracts_goes_to_the_new_ones(
    db: Database, chain: TesterChain
) -> None:
    new = deploy(chain.gateway, chain.signer, policy=FeePolicy(10**12))
    person = create_account(db)
    (memory,) = save(db, person, "one")
    swallow: Callable[..., object] = _swallow
    chain.node.mood = swallow  # type: ignore[assignment]
    worker_on(db, chain).run_once()
    chain.node.in_good_mood()
    free_the_lease(db)

    drain(_on(db, chain, new))

    assert OnChain(chain.gateway, new).memory_hashes(person.account_id, 1) == [memory.event_hash]
    assert chain.seen.memory_hashes(person.account_id, 1) == [None]
