"""The embedded node: anchors per second beside anvil's, start-up, memory, disk, and reads while it seals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.evm_code import ANCHOR, creation
from tests.support.node_process import CHAIN_ID, USER, Client, NodeProcess, sign, wait_for

ROOT = Path(__file__).resolve().parent.parent
ANVIL = ROOT / ".rings" / "anvil"
ANVIL_PACKAGE = {"private": True, "dependencies": {"@foundry-rs/anvil": "1.7.1"}}
ANCHORS = int(os.environ.get("CHAINMEMORY_BENCH_ANCHORS", "1000"))
BATCH = 50
READS = 300
WARM_UP = 20


def run() -> dict[str, float | str]:
    """Return the figures by name."""
    figures: dict[str, float | str] = {}
    raws: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        node = NodeProcess(Path(folder) / "chain", alloc=[USER.address])
        try:
            began = time.monotonic()
            client = node.start()
            figures["seconds from start to the first answer"] = time.monotonic() - began
            contract = deploy(client)
            raws = signed(contract, 2 * ANCHORS, first_nonce=1)
            before = disk(node)
            used = cpu_seconds(node)
            ours = [pipelined(client, raws[:ANCHORS], 1)]
            for process, seconds in cpu_seconds(node).items():
                spent = 1e3 * (seconds - used[process]) / ANCHORS
                figures[f"ms of processor time per anchor, {process} process"] = spent
            ours.append(pipelined(client, raws[ANCHORS:], BATCH))
            figures["MB resident, both processes (shared pages counted once)"] = memory(node)
            figures.update(reads(client, contract, first_nonce=1 + len(raws)))
            node.stop()
            figures["bytes on disk per anchor"] = (disk(node) - before) / (len(raws) + READS + WARM_UP)
        finally:
            node.ensure_gone()
        theirs: list[float] = []
        with anvil(Path(folder)) as other:
            if other is not None:
                other.call("anvil_setBalance", USER.address, hex(10**27))
                deploy(other)
                theirs = [pipelined(other, raws[:ANCHORS], 1), pipelined(other, raws[ANCHORS:], BATCH)]
    for i, way in enumerate(("a request each", f"{BATCH} in a request")):
        figures[f"anchors/s pipelined through HTTP, {way}"] = ours[i]
        if theirs:
            figures[f"anchors/s of anvil with a block per second, {way}"] = theirs[i]
            figures[f"ratio to anvil, {way}"] = ours[i] / theirs[i]
    if not theirs:
        figures["anvil"] = "not measured: npm isn't here"
    return figures


def deploy(client: Client) -> str:
    raw = sign(0, to=None, data=creation(ANCHOR), gas=300_000)
    contract = client.receipt(client.call("eth_sendRawTransaction", raw))["contractAddress"]
    assert isinstance(contract, str)
    return contract


def signed(contract: str, count: int, first_nonce: int) -> list[str]:
    fees = {"maxFeePerGas": 10**11, "maxPriorityFeePerGas": 10**9}
    return [
        sign(first_nonce + i, to=contract, data=f"0x{first_nonce + i:064x}{7:064x}", **fees)
        for i in range(count)
    ]


def pipelined(client: Client, raws: list[str], together: int) -> float:
    """Send them, `together` in each request, without waiting for blocks; return anchors per second until the
    last is in."""
    began = time.monotonic()
    hashes: list[str] = []
    for first in range(0, len(raws), together):
        part = raws[first : first + together]
        if together == 1:
            hashes.append(client.call("eth_sendRawTransaction", part[0]))
        else:
            hashes += [
                reply["result"] for reply in client.batch([("eth_sendRawTransaction", [r]) for r in part])
            ]
    last = client.receipt(hashes[-1], timeout=300)
    seconds = time.monotonic() - began
    assert last["status"] == "0x1"
    for tx_hash in hashes[:: max(1, len(hashes) // 20)]:
        assert client.call("eth_getTransactionReceipt", tx_hash)["status"] == "0x1"
    return len(raws) / seconds


def reads(client: Client, contract: str, first_nonce: int) -> dict[str, float | str]:
    """Compare reads of an idle node with reads while it seals what waits in its pool."""
    sent = client.call("eth_getBlockByNumber", "latest", False)["transactions"][0]
    kinds: dict[str, Callable[[], Any]] = {
        "eth_blockNumber": lambda: client.call("eth_blockNumber"),
        "eth_call": lambda: client.call("eth_call", {"to": contract, "data": "0x" + "01" * 64}, "latest"),
        "eth_getTransactionReceipt": lambda: client.call("eth_getTransactionReceipt", sent),
    }
    idle = {name: latencies(probe, READS) for name, probe in kinds.items()}
    calls = [("eth_sendRawTransaction", [raw]) for raw in signed(contract, READS + WARM_UP, first_nonce)]
    assert all("result" in reply for reply in client.batch(calls))
    busy: dict[str, list[float]] = {name: [] for name in kinds}
    last = first_nonce + READS + WARM_UP
    while int(client.call("eth_getTransactionCount", USER.address, "latest"), 16) < last:
        for name, probe in kinds.items():
            busy[name] += latencies(probe, 5)
    figures: dict[str, float | str] = {}
    for name in kinds:
        quiet, sealing = percentile(idle[name], 99), percentile(busy[name], 99)
        figures[f"ms p50 of {name}, idle"] = percentile(idle[name], 50) * 1e3
        figures[f"ms p99 of {name}, idle"] = quiet * 1e3
        figures[f"ms p99 of {name} while sealing, of {len(busy[name])} reads"] = sealing * 1e3
        figures[f"{name}: p99 while sealing to idle (at most 5)"] = sealing / quiet
    return figures


def latencies(probe: Callable[[], Any], count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = time.perf_counter()
        probe()
        found.append(time.perf_counter() - began)
    return found


def percentile(values: list[float], share: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * share // 100)]


def disk(node: NodeProcess) -> int:
    return sum(path.stat().st_size for path in node.folder.glob("chain.sqlite*"))


def processes(node: NodeProcess) -> dict[str, Path]:
    """Return the /proc folders of the node's two processes."""
    assert node.process is not None
    main = Path("/proc") / str(node.process.pid)
    (child,) = (main / "task" / main.name / "children").read_text().split()
    return {"RPC": main, "sealing": Path("/proc") / child}


def memory(node: NodeProcess) -> float:
    """Return the proportional set size of the node's processes in MB."""
    texts = [(folder / "smaps_rollup").read_text() for folder in processes(node).values()]
    kilobytes = [
        int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("Pss:")
    ]
    return sum(kilobytes) / 1000


def cpu_seconds(node: NodeProcess) -> dict[str, float]:
    """Return the processor time that each process has used."""
    tick = os.sysconf("SC_CLK_TCK")
    fields = {name: (folder / "stat").read_text().split() for name, folder in processes(node).items()}
    return {name: (int(values[13]) + int(values[14])) / tick for name, values in fields.items()}


@contextmanager
def anvil(folder: Path) -> Iterator[Client | None]:
    """Run anvil with a block per second, None where there is no npm."""
    if not shutil.which("npm"):
        yield None
        return
    ANVIL.mkdir(parents=True, exist_ok=True)
    binary = ANVIL / "node_modules" / ".bin" / "anvil"
    if not binary.exists():
        (ANVIL / "package.json").write_text(json.dumps(ANVIL_PACKAGE))
        command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=ANVIL, check=True, stdout=subprocess.DEVNULL)
    with (folder / "anvil.log").open("wb") as log:
        command = [str(binary), "--host", "127.0.0.1", "--port", "0", "--chain-id", str(CHAIN_ID)]
        command += ["--block-time", "1", "--hardfork", "london"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Client(wait_for(lambda: listening_port(folder / "anvil.log"), 60, "anvil"))
    finally:
        process.terminate()
        process.wait(20)


def listening_port(log: Path) -> int | None:
    for line in log.read_text().splitlines():
        if line.startswith("Listening on"):
            return int(line.rsplit(":", 1)[1])
    return None


if __name__ == "__main__":
    for what, value in run().items():
        print(f"{value!s:>24}  {what}")
