"""Several authorities as processes on loopback: they agree, outlive one, and vote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainmemory.node.genesis import new_genesis
from chainmemory.node.keystore import create_authority
from tests.support.evm_code import ANCHOR, creation
from tests.support.networks import free_port
from tests.support.node_process import CHAIN_ID, USER, Client, NodeProcess, sign, wait_for


class Network:
    """Authorities of one chain; the last of them is not a signer at genesis."""

    def __init__(self, folder: Path, signers: int, others: int) -> None:
        self.ports: list[int] = []
        while len(self.ports) < signers + others:
            port = free_port()
            self.ports += [port] if port not in self.ports else []
        keys = [folder / f"key{i}" for i in range(len(self.ports))]
        self.addresses = [
            "0x" + create_authority(key, key.with_suffix(".password")).public_key.to_canonical_address().hex()
            for key in keys
        ]
        genesis = new_genesis(
            signers=self.addresses[:signers],
            alloc=[USER.address],
            chain_id=CHAIN_ID,
            period=1,
            epoch=30_000,
            gas_limit=30_000_000,
            timestamp=int(time.time()) - 10,
        )
        (folder / "genesis.json").write_text(genesis.dump())
        self.nodes = []
        for i, key in enumerate(keys):
            peers = [f"http://127.0.0.1:{port}" for port in self.ports if port != self.ports[i]]
            arguments = ["--genesis", str(folder / "genesis.json"), "--keystore", str(key)]
            arguments += ["--password-file", str(key.with_suffix(".password")), "--votes-over-rpc"]
            arguments += [word for peer in peers for word in ("--peer", peer)]
            self.nodes.append(NodeProcess(folder / f"node{i}", *arguments, port=self.ports[i]))
        self.clients: dict[int, Client] = {}

    def start(self, *indexes: int) -> None:
        for i in indexes:
            self.clients[i] = self.nodes[i].start(wait=False)
        for i in indexes:
            self.clients[i] = self.nodes[i].wait()

    def kill(self, index: int) -> None:
        self.nodes[index].kill()
        self.clients.pop(index).close()

    def heads(self) -> list[dict[str, Any]]:
        return [client.call("eth_getBlockByNumber", "latest", False) for client in self.clients.values()]

    def agreed(self) -> dict[str, Any] | None:
        heads = self.heads()
        return heads[0] if len({head["hash"] for head in heads}) == 1 else None

    def signers_seen(self, client: Client, first: int) -> set[str]:
        last = int(client.call("eth_blockNumber"), 16)
        return {client.call("clique_getSigner", hex(number)) for number in range(first, last + 1)}


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    made = Network(tmp_path, signers=3, others=1)
    yield made
    for node in made.nodes:
        node.ensure_gone()


class User:
    """Sends anchors, a nonce each, and knows what must be on every node in the end."""

    def __init__(self) -> None:
        self.nonce = 0
        self.sent: list[str] = []

    def send(self, client: Client, **fields: Any) -> str:
        self.sent.append(client.call("eth_sendRawTransaction", sign(self.nonce, **fields)))
        self.nonce += 1
        return self.sent[-1]


def test_three_authorities_live_and_vote(network: Network) -> None:
    user = User()
    network.start(0, 1, 2)
    clients = network.clients

    deployed = clients[2].receipt(user.send(clients[0], to=None, data=creation(ANCHOR), gas=300_000))
    contract = deployed["contractAddress"]
    for i in range(3):  # each time to another node, which passes it on
        clients[(i + 1) % 3].receipt(user.send(clients[i % 3], to=contract, data=f"0x{i:064x}{7:064x}"))
    wait_for(network.agreed, 30, "agreement")
    assert len(network.signers_seen(clients[0], 1)) >= 2

    # One dies; two of three go on, and it catches up when it returns.
    network.kill(2)
    before = int(clients[0].call("eth_blockNumber"), 16)
    for i in range(3):
        clients[1].receipt(user.send(clients[0], to=contract, data=f"0x{i + 10:064x}{8:064x}"), 40)
    assert network.signers_seen(clients[0], before + 1) == set(network.addresses[:2])
    network.start(2)
    head = wait_for(network.agreed, 30, "the returned one's catching up")
    assert int(head["number"], 16) > before

    # Two votes of three bring the fourth in; it seals.
    for i in (0, 1):
        clients[i].call("clique_propose", network.addresses[3], True)
    assert clients[0].call("clique_proposals") == {network.addresses[3]: True}
    wait_for(lambda: len(clients[2].call("clique_getSigners")) == 4, 40, "the vote")
    network.start(3)
    first = int(wait_for(network.agreed, 30, "the newcomer's catching up")["number"], 16) + 1
    wait_for(
        lambda: (
            clients[3].receipt(user.send(clients[2], to=contract, data="0x"))
            and network.addresses[3] in network.signers_seen(clients[0], first)
        ),
        40,
        "a block of the newcomer",
    )

    # Three votes of four drop the first; it can't seal any more and the others go on without it.
    for i in (1, 2, 3):
        clients[i].call("clique_propose", network.addresses[0], False)
    clients[0].call("clique_discard", network.addresses[3])
    remaining = sorted(network.addresses[1:])
    wait_for(lambda: clients[0].call("clique_getSigners") == remaining, 60, "the drop")
    first = int(clients[1].call("eth_blockNumber"), 16) + 1
    clients[0].receipt(user.send(clients[0], to=contract, data="0x"))
    assert network.addresses[0] not in network.signers_seen(clients[1], first)

    head = wait_for(network.agreed, 30, "agreement at the end")
    for client in clients.values():
        receipts = [client.call("eth_getTransactionReceipt", tx_hash) for tx_hash in user.sent]
        assert all(receipt and receipt["status"] == "0x1" for receipt in receipts)
        assert client.call("txpool_status") == {"pending": "0x0", "queued": "0x0"}
        assert client.call("eth_getBlockByNumber", "latest", True) == clients[1].call(
            "eth_getBlockByNumber", head["number"], True
        )
