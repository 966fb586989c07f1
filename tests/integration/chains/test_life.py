"""The same contracts, gateway and worker on every kind of chain: deploy, batch, read, reorganise, restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chainmemory.anchoring.setup import known_deployment
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.deploy import check_code
from chainmemory.chain.reader import ChainReader
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import STATE
from tests.support.chains import QUICK
from tests.support.networks import Anvil, Embedded, EthTester, GethClique, Network
from tests.support.onchain import OnChain
from tests.support.rounds import Work, rows_of, transactions
from tests.support.saving import append_state

NETWORKS = [
    pytest.param("eth-tester"),
    pytest.param("embedded"),
    pytest.param("anvil", marks=pytest.mark.node),
    pytest.param("geth", marks=pytest.mark.geth),
]


@pytest.fixture
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Network]:
    kind = request.param
    made: Network
    if kind == "eth-tester":
        made = EthTester()
    else:
        made = {"embedded": Embedded, "anvil": Anvil, "geth": GethClique}[kind](tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


def _drain(worker: AnchorWorker, work: Work, timeout_s: float = 90) -> None:
    """Do rounds until everything of the work is anchored and no transaction is out."""
    end = time.monotonic() + timeout_s
    while True:
        progress = worker.run_once()
        if set(work.statuses) == {"anchored"} and not progress.out and not progress.sent:
            return
        assert time.monotonic() < end, (progress, work.rows)
        time.sleep(max(progress.wait_s, 0.02))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("network", NETWORKS, indirect=True)
def test_the_life_of_anchors(network: Network, tmp_path: Path) -> None:
    with Database.open(tmp_path / "store.sqlite") as db:
        work = Work(db)
        options = replace(QUICK, recheck_s=1, resend_s=1)
        worker = AnchorWorker(db, network.gateway, network.signer, options)

        # Deployed once, everything on chain in its order.
        _drain(worker, work)
        with db.read() as tx:
            deployment = known_deployment(tx, network.gateway.chain_id())
        assert deployment is not None
        seen = OnChain(network.gateway, deployment)
        work.check(seen)
        for contract in (deployment.anchors, deployment.registry):
            assert check_code(network.gateway, contract.name, contract.address) == contract.code_hash

        # Read by anybody.
        reader = ChainReader(network.gateway, deployment)
        hashes = [state.state_hash for state in work.states]
        assert reader.state_hashes_of(work.project.project_id, 1, 2) == hashes
        found = reader.memory(work.memories[0].event_hash)
        assert found is not None
        assert found.payload is not None
        assert found.payload.ciphertext == work.memories[0].content_blob
        assert len(network.gateway.signers()) == network.signers

        # A batch of many, in a chain that then forgets it.
        before = network.remember() if isinstance(network, Embedded) else network.gateway.head().number
        for version in range(3, 23):
            work.states.append(append_state(db, work.person, work.project, version))
        _drain(worker, work)
        assert network.gateway.head().number > before
        sent = {row.tx_hash for row in transactions(db)}
        network.go_back(before)
        held = seen.anchors.latest(work.project.project_id)[0]
        assert held == 2, f"{held} versions are still there"
        _drain_again(worker, work)
        assert {row.tx_hash for row in transactions(db)} == sent, "the same bytes, not new ones"
        _check_states(work, seen, 22)

        # Stopped and started, and on it goes.
        if network.keeps:
            network.restart()
        _check_states(work, seen, 22)
        work.states.append(append_state(db, work.person, work.project, 23))
        _drain(worker, work)
        _check_states(work, seen, 23)
        assert seen.skipped() == []


def _drain_again(worker: AnchorWorker, work: Work) -> None:
    """Let the worker find out first that something is gone."""
    end = time.monotonic() + 60
    while set(work.statuses) == {"anchored"}:
        worker.run_once()
        assert time.monotonic() < end, "the reorganisation went unnoticed"
        time.sleep(0.02)
    _drain(worker, work)


def _check_states(work: Work, seen: OnChain, count: int) -> None:
    rows = rows_of(work.db, STATE, work.project.project_id)
    assert [row.status for row in rows] == ["anchored"] * count
    assert seen.state_hashes(work.project.project_id, count) == [row.state_hash for row in work.states]
    assert all(seen.event_is_at(row) for row in work.rows)
