"""What a node may do to a worker, each with the status and the reason it must lead to, and its end.

Here, over real HTTP before a real embedded node: stops answering, answers late, answers HTML, loses what it
took. The others, in tests/integration/worker unless said otherwise:

| the node | where |
| --- | --- |
| restarts on an older block | test_crashes.py: a_node_on_an_older_block_gets_what_it_lost |
| reorganises, with and without ours | test_crashes.py: a_reorganisation_sends_again_what_it_took |
| loses the whole chain | test_crashes.py: a_chain_that_lost_everything_gets_it_again_in_the_same_places |
| has no funds for us | test_troubles.py: a_signer_without_funds_waits_for_them |
| says another chain id | test_troubles.py: another_chain_stops_the_worker, …_under_way_stops_the_worker |
| has another contract at the address | test_troubles.py: something_else_at_the_address_stops_the_worker |
| while the clock jumps an hour | test_crashes.py: a_clock_that_jumps_an_hour_holds_nothing_up |
| all of it at random | test_simulation.py |
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.deploy import Deployment, deploy
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.store.database import Database
from tests.support.chains import QUICK, SIGNER_KEY, Behaviour, Door, embedded_node, result
from tests.support.onchain import OnChain
from tests.support.rounds import Work, transactions
from tests.support.server import eventually

LATE_S = 0.4


@dataclass
class Node:
    """An embedded node behind a door, with both contracts on it."""

    door: Door
    deployment: Deployment
    direct: Gateway


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with Database.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as database:
        yield database


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with embedded_node(tmp_path_factory.mktemp("moods") / "node") as process:
        url = f"http://127.0.0.1:{process.port}"
        direct = Gateway(url)
        made = deploy(direct, Signer.from_key(SIGNER_KEY), policy=FeePolicy(QUICK.max_fee))
        door = Door(url)
        yield Node(door, made, direct)
        door.close()


def html(request: dict[str, Any]) -> tuple[int, bytes] | None:
    return 200, b"<html><h1>Please log in</h1></html>"


def bad_gateway(request: dict[str, Any]) -> tuple[int, bytes] | None:
    return 502, b"<html>bad gateway</html>"


def silent(request: dict[str, Any]) -> tuple[int, bytes] | None:
    time.sleep(2 * LATE_S)
    return 200, b""


def late_once_it_took_it(request: dict[str, Any]) -> tuple[int, bytes] | None:
    """Deliver a transaction, and answer too late; everything else as it should be."""
    if request["method"] != "eth_sendRawTransaction":
        return None
    time.sleep(2 * LATE_S)
    return None


def forgetful(request: dict[str, Any]) -> tuple[int, bytes] | None:
    """Take a transaction and lose it: a mempool that didn't live through a restart."""
    if request["method"] != "eth_sendRawTransaction":
        return None
    return result(request, "0x" + "00" * 32)


# mood: (what the worker says meanwhile; None where it can't know that anything is wrong)
MOODS: dict[str, tuple[Behaviour, str | None]] = {
    "stops answering": (silent, "in time"),
    "answers late": (late_once_it_took_it, "in time"),
    "answers HTML": (html, "isn't JSON-RPC"),
    "stands behind a broken gateway": (bad_gateway, "HTTP 502"),
    "loses what it took": (forgetful, None),
}


@pytest.mark.parametrize("mood", MOODS)
def test_whatever_the_node_does_all_is_anchored_once_it_is_well(node: Node, db: Database, mood: str) -> None:
    behave, words = MOODS[mood]
    options = replace(
        QUICK,
        deploys=False,
        anchor_address=node.deployment.anchors.address,
        registry_address=node.deployment.registry.address,
    )
    # Short only where the node is to be late: on a busy machine a good one may take that long too.
    gateway = Gateway(node.door.url, timeout_s=LATE_S if behave in (silent, late_once_it_took_it) else 20)
    worker = AnchorWorker(db, gateway, Signer.from_key(SIGNER_KEY), options)
    seen = OnChain(node.direct, node.deployment)
    work = Work(db)
    node.door.behave = behave
    try:
        progress = worker.run_once()
        if words is None:
            assert (progress.state, progress.error) == ("working", None)
            assert "submitted" in work.statuses
        else:
            assert (progress.state, progress.error) == ("waiting", "chain_unavailable")
            assert words in progress.words
            reasons = {row.reason for row in work.rows if row.status == "failed"}
            assert reasons == {progress.words}
        assert "anchored" not in work.statuses
        assert "hunter22" not in progress.words
    finally:
        node.door.behave = lambda request: None

    def done() -> bool:
        worker.run_once()
        return set(work.statuses) == {"anchored"}

    eventually(done, "everything is anchored", within_s=60)
    assert all(seen.event_is_at(row) for row in work.rows)
    assert seen.skipped() == []
    assert len({row.nonce for row in transactions(db) if row.status == "confirmed"}) == len(
        [row for row in transactions(db) if row.status == "confirmed"]
    )
