"""What a client was promised outlives the node's processes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.evm_code import ANCHOR, creation
from tests.support.node_process import USER, NodeProcess, sign


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path / "chain", alloc=[USER.address])
    yield process
    process.ensure_gone()


def test_accepted_transactions_outlive_sigkill_at_once(node: NodeProcess) -> None:
    client = node.start()
    deployed = client.receipt(client.call("eth_sendRawTransaction", sign(0, to=None, data=creation(ANCHOR))))
    assert deployed["status"] == "0x1"
    contract, head = deployed["contractAddress"], client.call("eth_getBlockByNumber", "latest", False)
    hashes = [
        client.call("eth_sendRawTransaction", sign(1 + i, to=contract, data=f"0x{i:064x}{i + 7:064x}"))
        for i in range(20)
    ]
    node.kill()

    client = node.start()
    receipts = [client.receipt(tx_hash) for tx_hash in hashes]
    assert {receipt["status"] for receipt in receipts} == {"0x1"}
    assert client.call("eth_getStorageAt", contract, "0x5", "latest") == f"0x{12:064x}"
    assert client.call("eth_getBlockByNumber", head["number"], False)["hash"] == head["hash"]
    with sqlite3.connect(node.folder / "chain.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_block_that_takes_long_holds_up_neither_readers_nor_the_end(node: NodeProcess) -> None:
    client = node.start()
    spinning = client.call("eth_sendRawTransaction", sign(0, to=None, data="0x5b600056", gas=30_000_000))
    time.sleep(1)  # the block is being executed now, for a quarter of a minute at least
    began = time.monotonic()
    for _ in range(20):
        assert client.call("eth_blockNumber") == "0x0"
        assert client.call("eth_getTransactionByHash", spinning)["blockHash"] is None
        assert client.call("eth_call", {"to": USER.address}, "latest") == "0x"
    # Offering more is no reading, and doesn't wait either.
    client.call("eth_sendRawTransaction", sign(1))
    assert client.call("eth_blockNumber") == "0x0", "the block is done: this showed nothing"
    assert time.monotonic() - began < 10

    began = time.monotonic()
    assert node.stop() == 0
    assert time.monotonic() - began < 15

    client = node.start()
    assert client.call("eth_blockNumber") == "0x0"
    assert client.call("eth_getTransactionByHash", spinning)["blockHash"] is None


def test_sigterm_ends_the_node_cleanly_and_keeps_the_pool(node: NodeProcess) -> None:
    client = node.start()
    waiting = client.call("eth_sendRawTransaction", sign(5))  # nonces 0 to 4 are missing
    assert node.stop() == 0

    client = node.start()
    assert client.call("eth_getTransactionByHash", waiting)["blockHash"] is None
    assert client.call("eth_blockNumber") == "0x0"
