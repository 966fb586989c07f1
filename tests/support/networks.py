"""Real chains for the worker: the embedded node, anvil, geth with three Clique signers, and eth-tester.

Each can be started, go back some blocks, and be restarted on what it keeps on disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eth_keyfile import create_keyfile_json
from eth_keys.datatypes import PrivateKey

from chainmemory.chain.failures import ChainUnavailable
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.node.genesis import new_genesis
from tests.support.chains import SIGNER_KEY, MoodyProvider, TesterChain
from tests.support.clique_chains import address, authority_keys
from tests.support.node_process import NodeProcess

RINGS = Path(__file__).resolve().parents[2] / ".rings"
ANVIL_PACKAGE = {"private": True, "dependencies": {"@foundry-rs/anvil": "1.7.1"}}
WAIT_S = 60


class Network(ABC):
    """A chain with our signer funded on it."""

    gateway: Gateway
    signers = 0
    """How many authorities it tells of."""
    keeps = True
    """Whether it is on disk, so that it can be stopped and started again."""

    def __init__(self) -> None:
        self.signer = Signer.from_key(SIGNER_KEY)

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers."""

    @abstractmethod
    def go_back(self, block: int) -> None:
        """Make the chain forget everything above a block, and go on from there."""

    @abstractmethod
    def restart(self) -> None:
        """Stop it in an orderly way, and start it on what it kept."""

    @abstractmethod
    def close(self) -> None:
        """End it."""


class EthTester(Network):
    """In this process; it keeps nothing, so it can't be restarted."""

    keeps = False

    def start(self) -> None:
        self._chain = TesterChain()
        self.gateway = self._chain.gateway
        self._snapshots = {self.gateway.head().number: self._chain.tester.take_snapshot()}
        node: MoodyProvider = self._chain.node

        def keep(method: str, params: Any) -> None:
            if method == "eth_sendRawTransaction":
                head = self._chain.tester.get_block_by_number("latest")["number"]
                self._snapshots[head] = self._chain.tester.take_snapshot()

        node.afterwards = keep

    def go_back(self, block: int) -> None:
        self._chain.tester.revert_to_snapshot(self._snapshots[block])
        self._chain.mine()

    def restart(self) -> None:
        raise NotImplementedError("eth-tester's chain ends with its process")

    def close(self) -> None:
        pass


class Embedded(Network):
    """Our own node; it goes back by being put on an older copy of its file."""

    signers = 1

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._node = NodeProcess(folder / "node", alloc=[self.signer.address])
        self._copies: dict[int, Path] = {}

    def start(self) -> None:
        self._node.start().close()
        self.gateway = Gateway(f"http://127.0.0.1:{self._node.port}")

    def remember(self) -> int:
        """Keep a copy of the chain as it is, to go back to; return its head."""
        head = self.gateway.head().number
        self._node.stop()
        self._copies[head] = self._folder / f"copy-{head}"
        shutil.copytree(self._folder / "node", self._copies[head])
        self._node.start().close()
        return head

    def go_back(self, block: int) -> None:
        self._node.kill()
        time.sleep(0.2)
        self._node.ensure_gone()
        shutil.rmtree(self._folder / "node")
        shutil.copytree(self._copies[block], self._folder / "node")
        self._node.start().close()

    def restart(self) -> None:
        self._node.kill()
        self._node.start().close()

    def close(self) -> None:
        self._node.ensure_gone()


class Process(Network):
    """A chain of several processes of another program, over HTTP."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def _launch(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, start_new_session=True)
            )

    def _stop(self, how: signal.Signals) -> None:
        for process in self._processes:
            # npm's anvil is a script that starts the program: the group has both.
            os.killpg(process.pid, how)
        for process in self._processes:
            process.wait(30)
        self._processes = []

    def close(self) -> None:
        self._stop(signal.SIGKILL)


class Anvil(Process):
    """Foundry's anvil: no seals, a block for each transaction."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self.gateway = Gateway(f"http://127.0.0.1:{self._port}")

    def start(self) -> None:
        command = [str(anvil_binary()), "--port", str(self._port), "--chain-id", "20250", "--silent"]
        self._launch("anvil", [*command, "--state", str(self._folder / "state.json")])
        until_it_answers(self.gateway)
        self.gateway.ask("anvil_setBalance", [self.signer.address, hex(10**24)])

    def go_back(self, block: int) -> None:
        depth = self.gateway.head().number - block
        self.gateway.ask("anvil_rollback", [depth])
        self.gateway.ask("evm_mine", [])

    def restart(self) -> None:
        self._stop(signal.SIGTERM)
        self.start()


class GethClique(Process):
    """geth 1.13 with three Clique signers that seal in turn."""

    signers = 3

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._keys: list[PrivateKey] = authority_keys(3)
        self._ports = [free_port() for _ in self._keys]
        self._gateways = [Gateway(f"http://127.0.0.1:{port}") for port in self._ports]
        self.gateway = self._gateways[0]
        genesis = new_genesis(
            signers=[address(key) for key in self._keys],
            alloc=[self.signer.address],
            chain_id=20250,
            period=1,
            epoch=30_000,
            gas_limit=30_000_000,
            timestamp=int(time.time()) - 10,
        )
        (folder / "genesis.json").write_text(genesis.dump())
        (folder / "password").write_text("secret")
        for index, key in enumerate(self._keys):
            self._make_folder(index, key)

    def start(self) -> None:
        for index, key in enumerate(self._keys):
            self._launch(f"geth-{index}", self._command(index, key))
        for gateway in self._gateways:
            until_it_answers(gateway)
        self._connect()
        # Only now: three that each sealed a block before they met would first have to catch up.
        for gateway in self._gateways:
            gateway.ask("miner_start", [])
        self._wait_for_agreement()

    def go_back(self, block: int) -> None:
        """Set all three back at once, apart from each other, so that none brings the others forward."""
        for gateway in self._gateways:
            gateway.ask("miner_stop", [])
            for peer in gateway.ask("admin_peers", []):
                gateway.ask("admin_removePeer", [peer["enode"]])
        for gateway in self._gateways:
            gateway.ask("debug_setHead", [hex(block)])
        # A geth that was told to leave a peer calls it again after half a minute, a new one at once.
        self.restart()

    def restart(self) -> None:
        self._stop(signal.SIGTERM)
        self.start()

    def _make_folder(self, index: int, key: PrivateKey) -> None:
        data = self._folder / f"data-{index}"
        command = [str(geth_binary()), "--datadir", str(data), "init", str(self._folder / "genesis.json")]
        subprocess.run(command, check=True, capture_output=True)
        document = create_keyfile_json(key.to_bytes(), b"secret", kdf="scrypt", iterations=2)
        (data / "keystore").mkdir(exist_ok=True)
        (data / "keystore" / "UTC--key").write_text(json.dumps(document))

    def _command(self, index: int, key: PrivateKey) -> list[str]:
        signer = "0x" + address(key).hex()
        return [
            *(str(geth_binary()), "--datadir", str(self._folder / f"data-{index}"), "--networkid", "20250"),
            *("--nodiscover", "--nat", "none", "--port", "0", "--authrpc.port", "0", "--ipcdisable"),
            *("--http", "--http.port", str(self._ports[index]), "--syncmode", "full", "--verbosity", "2"),
            "--txpool.nolocals",  # else it keeps what the chain is to forget
            *("--maxpeers", "2"),  # with fewer peers than that, and than 5, it catches up each 10 s only
            *("--http.api", "eth,net,web3,clique,admin,debug,miner", "--cache", "64"),
            *("--miner.etherbase", signer, "--unlock", signer, "--allow-insecure-unlock"),
            *("--password", str(self._folder / "password")),
        ]

    def _connect(self) -> None:
        enodes = [gateway.ask("admin_nodeInfo", [])["enode"] for gateway in self._gateways]
        for gateway in self._gateways:
            for enode in enodes:
                gateway.ask("admin_addTrustedPeer", [enode])
                gateway.ask("admin_addPeer", [enode])

        def met(gateway: Gateway) -> bool:
            spoken = [peer["protocols"].get("eth") for peer in gateway.ask("admin_peers", [])]
            return [type(words) for words in spoken] == [dict, dict]  # "handshake" until then

        until(lambda: all(map(met, self._gateways)), "the three to meet")

    def _wait_for_agreement(self) -> None:
        """Wait until the three seal on one another's blocks."""
        start = self.gateway.head().number

        def agreed() -> bool:
            heads = [gateway.head() for gateway in self._gateways]
            lowest = min(head.number for head in heads)
            hashes = {(gateway.block(lowest) or heads[0]).hash for gateway in self._gateways}
            return lowest >= start + 2 and len(hashes) == 1

        until(agreed, "the three signers to agree")


def until(probe: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def until_it_answers(gateway: Gateway) -> None:
    """Wait for a node's RPC."""

    def answers() -> bool:
        try:
            return gateway.chain_id() > 0
        except ChainUnavailable:
            return False

    until(answers, f"{gateway.name} to answer")


def free_port() -> int:
    """Choose a port below those the system gives to outgoing connections, which would take it meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


def geth_binary() -> Path:
    """Return geth 1.13's path, as the ring `geth` provides it."""
    given = os.environ.get("CHAINMEMORY_TEST_GETH")
    return Path(given) if given else RINGS / "bin" / "geth"


def anvil_binary() -> Path:
    """Return anvil's path, installed with npm at first use."""
    folder = RINGS / "anvil"
    binary = folder / "node_modules" / ".bin" / "anvil"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            (folder / "package.json").write_text(json.dumps(ANVIL_PACKAGE))
            command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
            subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
    return binary
