"""Measure how fast the worker drains waiting states on the embedded chain, beside the chain alone.

`run()` anchors the same states twice in one run, each time on a fresh embedded node: once from a SQLite
outbox through the worker, once as batches of the same size, signed beforehand and all sent at once.
`python scripts/bench_worker.py STATES PROJECTS` prints the figures.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from chainmemory.anchoring.options import Options
from chainmemory.anchoring.setup import known_deployment
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain import gas
from chainmemory.chain.anchor_contract import StateAnchors, StateItem
from chainmemory.chain.deploy import Deployment, deploy
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import STATE
from chainmemory.store.states import StateRow
from chainmemory.store.transactions import CONFIRMED
from tests.support.chains import SIGNER_KEY, embedded_node
from tests.support.saving import create_account, new_project

NOW = "2026-01-01T00:00:00.000000Z"
OPTIONS = Options(
    memory_wait_s=0, state_wait_s=0, head_wait_s=3600, confirmations=1, deploys=True, poll_s=0.25
)


def run(states: int = 10_000, projects: int = 500) -> dict[str, float]:
    """Drain `states` waiting versions of `projects` projects; seconds are wall time."""
    signer = Signer.from_key(SIGNER_KEY)
    with tempfile.TemporaryDirectory() as folder:
        with _chain(Path(folder) / "worker") as gateway, Database.open(Path(folder) / "store.sqlite") as db:
            items = _fill(db, states, projects)
            worker_s, batch, gas_used = _drain(db, gateway, signer)
            _check(db, gateway, items)
        with _chain(Path(folder) / "alone") as gateway:
            alone_s = _alone(gateway, signer, items, batch)
    return {
        "states": states,
        "projects": projects,
        "states in a transaction, median": batch,
        "gas for each state": gas_used / states,
        "states per second, through the worker": states / worker_s,
        "states per second, pre-signed, the chain alone": states / alone_s,
        "worker / chain alone (goal: at least 0.7)": alone_s / worker_s,
    }


@contextmanager
def _chain(folder: Path) -> Iterator[Gateway]:
    with embedded_node(folder) as node:
        yield Gateway(f"http://127.0.0.1:{node.port}")


def _fill(db: Database, states: int, projects: int) -> list[StateItem]:
    """Write waiting versions, project after project taking turns, and return them in that order."""
    person = create_account(db)
    made = [new_project(person, f"project-{n}") for n in range(projects)]
    items: list[StateItem] = []
    with db.write() as tx:
        for project in made:
            tx.projects.create(project)
        for n in range(states):
            project_id, version = made[n % projects].project_id, n // projects + 1
            state_hash = "0x" + hashlib.sha256(f"{project_id}@{version}".encode()).hexdigest()
            items.append(StateItem(project_id, version, state_hash))
            row = StateRow(
                project_id, version, person.account_id, state_hash, state_hash, 0, NOW, None, 1, b"", b""
            )
            tx.states.append(row, cited=[])
    return items


def _drain(db: Database, gateway: Gateway, signer: Signer) -> tuple[float, int, int]:
    """Let the worker drain it all; return the seconds, a transaction's usual states, and the gas used."""
    worker = AnchorWorker(db, gateway, signer, OPTIONS)
    while worker.run_once().words.startswith("Deploying"):
        time.sleep(0.1)
    began = time.perf_counter()
    while True:
        progress = worker.run_once()
        with db.read() as tx:
            if not any(d.kind == STATE and d.status != "anchored" for d in tx.outbox.depth()):
                break
        time.sleep(progress.wait_s)
    seconds = time.perf_counter() - began
    with db.read() as tx:
        sent = [row for row in tx.transactions.recent(limit=100_000) if row.purpose == STATE]
    assert {row.status for row in sent} == {CONFIRMED}
    sizes = sorted(len(row.outbox_ids) for row in sent)
    return seconds, sizes[len(sizes) // 2], sum(row.gas_used or 0 for row in sent)


def _check(db: Database, gateway: Gateway, items: list[StateItem]) -> None:
    """Look at a few of them on the chain."""
    with db.read() as tx:
        deployment = known_deployment(tx, gateway.chain_id())
    assert deployment is not None
    anchors = StateAnchors(gateway, deployment.anchors.address)
    for item in items[:: max(1, len(items) // 20)]:
        assert anchors.state_hashes_of(item.project_id, item.version, 1) == [item.state_hash]


def _alone(gateway: Gateway, signer: Signer, items: list[StateItem], batch: int) -> float:
    """Sign everything beforehand, send it all at once; return the seconds until the last is in a block."""
    policy = FeePolicy(OPTIONS.max_fee)
    deployment: Deployment = deploy(gateway, signer, policy=policy)
    anchors = StateAnchors(gateway, deployment.anchors.address)
    nonce, fees = gateway.nonce(signer.address), policy.quote(gateway.fee_market())
    fees = replace(fees, max_fee=policy.cap)
    signed = []
    for start in range(0, len(items), batch):
        part = items[start : start + batch]
        signed.append(
            signer.sign(
                chain_id=deployment.chain_id,
                nonce=nonce + len(signed),
                to=anchors.address,
                data=anchors.encode_states(part),
                gas_limit=gas.TX_BASE + gas.STATES_BASE + gas.STATE_FIRST * len(part),
                fees=fees,
            )
        )
    began = time.perf_counter()
    for transaction in signed:
        gateway.send_raw(transaction.raw)
    while gateway.nonce(signer.address) < nonce + len(signed):
        time.sleep(0.05)
    seconds = time.perf_counter() - began
    receipts = [gateway.receipt(transaction.hash) for transaction in signed]
    assert all(receipt is not None and receipt.succeeded for receipt in receipts)
    return seconds


if __name__ == "__main__":
    print(json.dumps(run(*(int(argument) for argument in sys.argv[1:])), indent=1))
