"""SIGKILL at random moments, again and again: nothing accepted is lost, nothing sealed changes."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eth_utils import keccak

from chainmemory.node.export import export_chain
from chainmemory.node.genesis import read_genesis
from tests.support.clique_chains import ChainFile
from tests.support.evm_code import ANCHOR, creation
from tests.support.judging import split_rlp
from tests.support.node_process import USER, Client, NodeProcess, RpcFailure, sign

# The whole fault run of a release sets more.
SECONDS = float(os.environ.get("CHAINMEMORY_FAULT_SECONDS", "5"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path / "chain", alloc=[USER.address])
    yield process
    process.ensure_gone()


def children(node: NodeProcess) -> list[int]:
    assert node.process is not None
    main = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children")
    return [int(pid) for pid in main.read_text().split()]


def kill_rpc(node: NodeProcess) -> None:
    node.kill()


def kill_sealing(node: NodeProcess) -> None:
    """The RPC process must notice, say so, and end."""
    for pid in children(node):
        os.kill(pid, signal.SIGKILL)
    assert node.process is not None
    node.process.wait(60)


def kill_both(node: NodeProcess) -> None:
    assert node.process is not None
    os.killpg(node.process.pid, signal.SIGKILL)
    node.process.wait()


VICTIMS: list[Callable[[NodeProcess], None]] = [kill_rpc, kill_sealing, kill_both]


class Anchors:
    """Sends anchors and remembers what the node promised and showed."""

    def __init__(self, contract: str) -> None:
        self.contract = contract
        self.accepted: list[str] = []
        self.heads: dict[int, str] = {}

    def send_until_it_dies(self, client: Client) -> None:
        """Send one after another; the last is left without an answer, and is sent again next time."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                number = len(self.accepted)
                raw = sign(1 + number, to=self.contract, data=f"0x{number:064x}{number + 1:064x}")
                self.accepted.append(self._send(client, raw))
                if number % 5 == 0:
                    head = client.call("eth_getBlockByNumber", "latest", False)
                    self.heads[int(head["number"], 16)] = head["hash"]

    @staticmethod
    def _send(client: Client, raw: str) -> str:
        try:
            tx_hash = client.call("eth_sendRawTransaction", raw)
        except RpcFailure as failure:
            if failure.message == "already known" or failure.message.startswith("nonce too low"):
                return tx_hash_of(
                    raw
                )  # taken before the crash, though nobody heard it: a promise all the same
            raise
        assert tx_hash == tx_hash_of(raw)
        return tx_hash_of(raw)


def tx_hash_of(raw: str) -> str:
    return "0x" + keccak(bytes.fromhex(raw[2:])).hex()


@pytest.mark.timeout(600)
def test_kill_9_loses_nothing_and_rewrites_nothing(
    node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(2**32)
    chance, kills = random.Random(seed), Counter[str]()
    client = node.start()
    deployed = client.call("eth_sendRawTransaction", sign(0, to=None, data=creation(ANCHOR), gas=300_000))
    anchors = Anchors(client.receipt(deployed)["contractAddress"])
    began = time.monotonic()
    first = chance.sample(VICTIMS, len(VICTIMS))
    while first or time.monotonic() < began + SECONDS:
        victim = first.pop() if first else chance.choice(VICTIMS)
        killer = threading.Timer(chance.uniform(0.05, 1.6), victim, (node,))
        killer.start()
        anchors.send_until_it_dies(client)
        killer.join()
        assert node.process is not None
        assert node.process.returncode == (2 if victim is kill_sealing else -signal.SIGKILL)
        kills[victim.__name__] += 1
        with sqlite3.connect(node.folder / "chain.sqlite") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",), f"seed {seed}"
        client = node.start()
        for number, block_hash in anchors.heads.items():
            assert client.call("eth_getBlockByNumber", hex(number), False)["hash"] == block_hash, (
                f"seed {seed}"
            )

    receipts = [client.receipt(tx_hash, 120) for tx_hash in anchors.accepted]
    lost = [receipt for receipt in receipts if receipt["status"] != "0x1"]
    assert not lost, f"seed {seed}"
    logs = client.call("eth_getLogs", {"fromBlock": "0x0", "address": anchors.contract})
    assert [int(log["data"], 16) for log in logs] == list(range(1, len(anchors.accepted) + 1))
    assert client.call("txpool_status") == {"pending": "0x0", "queued": "0x0"}
    assert node.stop() == 0

    # And the whole chain, executed again from its genesis, leads to the same head.
    exported = export_chain(node.folder, node.folder.with_name("chain.rlp"))
    again = ChainFile(node.folder.with_name("again.sqlite"), read_genesis(exported.genesis))
    for raw in split_rlp(node.folder.with_name("chain.rlp").read_bytes())[1:]:
        again.store.import_raw(raw)
    assert "0x" + again.store.head.hash.hex() == exported.head_hash
    again.close()
    with capsys.disabled():
        print(
            f"\n  node: {sum(kills.values())} kills {dict(kills)}, {len(anchors.accepted)} anchors accepted, "
            f"{exported.blocks} blocks, nothing lost (seed {seed})"
        )
