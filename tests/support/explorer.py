"""A small world for the explorer: the embedded node, the API over real HTTP, anchors, and hostile data."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from eth_abi.abi import encode
from eth_hash.auto import keccak

from api.app import ChainMemoryAPI, create_app
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.abi import Abi
from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.settings import Settings
from tests.support.chains import QUICK, SIGNER_KEY, Door, embedded_node
from tests.support.node_process import USER, sign, wait_for

VERSIONS = 30
SECRETS = ("hunter22", "secret-path", "topsecret")
SCRIPT = '<script>alert("x")</script>\u202egnp.exe'
"""What a stranger puts wherever there is room: markup, and a character that turns the text around."""

# Reverts with its calldata as the reason.
REVERTER = "366000600037366000fd"
# Logs its calldata: four topics, then the data.
LOGGER = "60803603608060003760603560403560203560003560803603 6000a400".replace(" ", "")


@dataclass
class World:
    """Everything a test needs to know of what is on the chain."""

    rpc: Gateway
    """The node itself, past the door that the explorer uses."""
    folder: Path
    """Where the embedded node keeps its chain and its authority's key."""
    door: Door
    app: ChainMemoryAPI
    http: httpx.Client
    worker: AnchorWorker
    account_id: str = ""
    project_id: str = ""
    namesake_id: str = ""
    """Another account's project of the same slug: its public name is its id."""
    memories: list[dict[str, Any]] = field(default_factory=list)
    hostile: dict[str, str] = field(default_factory=dict)
    """Transaction hashes by what is wrong with them."""

    @property
    def addresses(self) -> dict[str, str]:
        """The contracts by name."""
        return self.app.site.engine.chain.contracts().addresses()

    @property
    def head(self) -> int:
        return int(self.ask("eth_blockNumber"), 16)

    def ask(self, method: str, *params: Any) -> Any:
        """Ask the node itself."""
        return self.rpc.ask(method, params)

    def page(self, path: str, **params: str) -> httpx.Response:
        """Return a page, as a browser without JavaScript would get it."""
        return self.http.get(path, params=params or None, headers={"accept": "text/html"})

    def text(self, path: str, **params: str) -> str:
        """Return the HTML of a page that must be there."""
        answer = self.page(path, **params)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:400]}"
        return answer.text

    def send(self, **transaction: Any) -> str:
        """Send a stranger's transaction; `settle` waits for it."""
        nonce = int(self.ask("eth_getTransactionCount", USER.address, "pending"), 16)
        return str(self.ask("eth_sendRawTransaction", sign(nonce, **transaction)))

    def settle(self, *hashes: str) -> list[dict[str, Any]]:
        """Wait until these transactions are in blocks; return their receipts."""

        def receipt(tx_hash: str) -> Any:
            return wait_for(lambda: self.ask("eth_getTransactionReceipt", tx_hash), 30, "a receipt")

        return [receipt(tx_hash) for tx_hash in hashes]

    def drain(self) -> None:
        """Let the worker anchor all memories and states there are."""
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            self.worker.run_once()
            with self.app.site.engine.db.read() as tx:
                depth = tx.outbox.depth()
            if all(row.status == "anchored" for row in depth if row.kind != "head"):
                return
            time.sleep(0.05)
        raise AssertionError(f"the worker is still busy: {depth}")


@contextmanager
def served(app: ChainMemoryAPI) -> Iterator[str]:
    """Serve an application by uvicorn on a free port; yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        give_up = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive(), "the server ended at its start"
            assert time.monotonic() < give_up, "the server doesn't start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def explorer_world(folder: Path) -> Iterator[World]:
    """Start the embedded node and the API; save, anchor, and send a stranger's transactions."""
    with embedded_node(folder / "chain", alloc=(USER.address,)) as node:
        gateway = Gateway(f"http://127.0.0.1:{node.port}/")
        with explorer_on(gateway, folder, Signer.from_key(SIGNER_KEY)) as world:
            _remember(world)
            _be_hostile(world)
            yield world


@contextmanager
def explorer_on(gateway: Gateway, folder: Path, signer: Signer, **given: Any) -> Iterator[World]:
    """Serve an API that reads any node, through a door, with a worker that anchors for it there.

    `given` are further settings.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    rates = {"public_rate_per_minute": 1_000_000, "public_rate_burst": 100_000}
    door = Door(f"http://{gateway.name}/")
    app = create_app(Settings.load(home=folder, port=8420, rpc_url=door.url, **rates, **given))
    assert isinstance(app, ChainMemoryAPI)
    with served(app) as base, httpx.Client(base_url=base, timeout=30) as http:
        worker = AnchorWorker(app.site.engine.db, gateway, signer, QUICK)
        yield World(gateway, folder / "chain", door, app, http, worker)
    door.close()


def remember_little(world: World) -> None:
    """Save two memories, make one version of a project out of them, and anchor all."""
    key, world.account_id = _account(world)
    saved = _post(world, key, "/v1/memories/batch", {"memories": [_memory(1), _memory(2)]})
    world.memories = saved["memories"]
    _decide(world, key, "payments", 0)
    world.drain()
    world.project_id = world.http.get("/v1/verify/payments").json()["project_id"]


def _remember(world: World) -> None:
    """Save memories, make versions of a project out of them, and anchor both."""
    key, world.account_id = _account(world)
    saved = _post(world, key, "/v1/memories/batch", {"memories": [_memory(n) for n in range(60)]})
    world.memories = saved["memories"]
    for version in range(VERSIONS):
        _decide(world, key, "payments", version)
    other_key, _ = _account(world)
    _post(world, other_key, "/v1/memory", {"content": "Another account's", "project": "payments"})
    _decide(world, other_key, "payments", 0)
    world.drain()
    answer = world.http.get("/v1/verify/payments").json()
    world.project_id = answer["project_id"]
    projects = world.http.get("/v1/projects", headers={"x-api-key": other_key}).json()["projects"]
    world.namesake_id = projects[0]["id"]
    assert answer["verified"] is True


def _be_hostile(world: World) -> None:
    send, hostile = world.send, world.hostile
    reverter, logger = (
        receipt["contractAddress"]
        for receipt in world.settle(
            *(send(to=None, data=_creation(code), gas=200_000) for code in (REVERTER, LOGGER))
        )
    )
    reason = keccak(b"Error(string)")[:4] + encode(["string"], [SCRIPT])
    hostile["reverts"] = send(to=reverter, data="0x" + reason.hex())
    hostile["reverts oddly"] = send(to=reverter, data="0x" + b"\x00\xffnot an error".hex())

    anchored = bytes.fromhex(Abi(load_artifact(STATE_ANCHOR).abi).topic("StateAnchored")[2:])
    words = [anchored, b"\0" * 32, bytes.fromhex(world.project_id[2:]), (99).to_bytes(32, "big")]
    forged = b"".join(words) + encode(["bytes32", "uint64", "address"], [b"\x66" * 32, 1, USER.address])
    hostile["forges an event"] = send(to=logger, data="0x" + forged.hex())
    hostile["logs anything"] = send(to=logger, data="0x" + (b"\xee" * 128 + SCRIPT.encode()).hex())

    registry = world.addresses[MEMORY_REGISTRY]
    record = Abi(load_artifact(MEMORY_REGISTRY).abi).encode(
        "record", b"\x11" * 32, 1, [b"\x22" * 32], [], b"\x33" * 32
    )
    hostile["may not write"] = send(to=registry, data="0x" + record.hex(), gas=300_000)
    hostile["unknown call"] = send(to=registry, data="0xdeadbeef" + SCRIPT.encode().hex())
    hostile["bomb"] = send(to=registry, data="0x" + _bomb().hex(), gas=4_000_000)
    hostile["to nobody"] = send(to="0x" + "11" * 20, value=10**15 + 1)
    world.settle(*hostile.values())


def _bomb() -> bytes:
    """Return calldata of recordMany whose 1,000 batches are all the same one, of 1,000 hashes: a million."""
    selector = Abi(load_artifact(MEMORY_REGISTRY).abi).encode("recordMany", [])[:4]

    def word(number: int) -> bytes:
        return number.to_bytes(32, "big")

    count = 1_000
    batch = word(1) + word(1) + word(160) + word(160 + 32 + 32 * count) + word(7)
    batch += word(count) + word(9) * count + word(0)
    return selector + word(32) + word(count) + word(32 * count) * count + batch


def _creation(code: str) -> str:
    """Return the data of a transaction that creates a contract with this runtime code."""
    size = len(code) // 2
    return f"0x60{size:02x}600c60003960{size:02x}6000f3{code}"


def _memory(number: int) -> dict[str, Any]:
    return {"content": f"Unsayable secret number {number}", "project": "payments", "category": "DECISION"}


def _account(world: World) -> tuple[str, str]:
    host = {"host": "localhost"}
    made = world.http.post("/v1/keys", headers=host).json()
    return made["api_key"], made["account_id"]


def _decide(world: World, key: str, project: str, version: int) -> None:
    decision = {"op": "add_decision", "title": f"Unsayable title {version}", "statement": "Because"}
    cited = {"evidence_memory_ids": [1]}
    _post(world, key, f"/v1/project/{project}/state/ops", {"ops": [{**decision, **cited}]})


def _post(world: World, key: str, path: str, body: Any) -> Any:
    answer = world.http.post(path, json=body, headers={"x-api-key": key})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()
