"""The independent judges, built or installed once, and the chain they judge."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.node.export import export_chain
from chainmemory.node.formats import contract_address
from tests.support.clique_chains import ChainFile, address, authority_keys, make_genesis
from tests.support.evm_code import ANCHOR, REVERT_WITH_TEXT, WITNESS, creation
from tests.support.judging import Judged
from tests.support.node_process import sign

RINGS = Path(__file__).resolve().parents[3] / ".rings"
KEYS = authority_keys(5)
EPOCH = 40
ANCHORS = 1_000
BLOCKS = 100


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Judged:
    """The chain to be judged, made once in a test run however many processes it has."""
    shared = tmp_path_factory.getbasetemp()
    folder = (shared if worker_id == "master" else shared.parent) / "judged"
    folder.mkdir(exist_ok=True)
    with locked(folder):
        done = folder / "judged.pickle"
        if not done.exists():
            done.write_bytes(pickle.dumps(make_chain(folder)))
        made = pickle.loads(done.read_bytes())
    assert isinstance(made, Judged)
    return made


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one test process in at a time."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_chain(folder: Path) -> Judged:
    """Several signers, one voted out and two in, two checkpoints, a thousand anchors, odd transactions."""
    (folder / "node").mkdir()
    chain = ChainFile(folder / "node" / "chain.sqlite", make_genesis(KEYS[:3], epoch=EPOCH))
    nonce = 0

    def offer(**fields: object) -> None:
        nonlocal nonce
        chain.offer(sign(nonce, **fields))
        nonce += 1

    offer(to=None, data=creation(ANCHOR), gas=300_000)
    contract = "0x" + contract_address(chain.seal_next(KEYS[:3]).transactions[0]).hex()
    offer(to=None, data=creation(WITNESS), gas=300_000)
    witness = "0x" + contract_address(chain.seal_next(KEYS[:3]).transactions[0]).hex()
    votes = {5: (KEYS[3], True), 55: (KEYS[0], False), 90: (KEYS[4], True)}
    anchors = 0
    while chain.store.head.block_number < BLOCKS:
        number = chain.store.head.block_number + 1
        if number % 5 == 0:
            offer(to=witness, value=number, gas=600_000)
        if number in votes:
            subject, authorize = votes[number]
            chain.vote(address(subject), authorize)
        for _ in range(min(10 + number % 3, ANCHORS - anchors)):
            offer(to=contract, data=f"0x{anchors % 300:064x}{anchors + 1:064x}")  # slots are written again
            anchors += 1
        if number % 4 == 0:
            offer(to=None, data=creation(REVERT_WITH_TEXT), gas=300_000)
            offer(to=contract, data="0x", gas=30_000)  # runs out of gas
            offer(to="0x" + f"{number:040x}", value=number, gasPrice=3 * 10**9)
            listed = [{"address": contract, "storageKeys": ["0x" + "00" * 32]}]
            offer(to=contract, type=1, gasPrice=10**10, accessList=listed)
        out_of_turn = [key for key in KEYS if chain.may_seal(key) == 1]
        if number % 7 == 0 and out_of_turn:
            chain.seal(out_of_turn[0])  # as when the one whose turn it is was down
        else:
            chain.seal_next(KEYS)
    head = chain.store.head
    signers = chain.store.signers_after(head).signers
    state = chain.store.chain.state_after(head)
    slot = state.get_storage(bytes.fromhex(contract[2:]), 42)
    seen = [state.get_storage(bytes.fromhex(witness[2:]), i) for i in range(16)]
    chain.close()
    assert anchors == ANCHORS
    assert signers == tuple(sorted(address(key) for key in KEYS[1:]))
    assert slot == 943
    assert seen[0] == BLOCKS
    assert all(seen)
    return Judged(
        file=folder / "chain.rlp",
        exported=export_chain(folder / "node", folder / "chain.rlp"),
        signers=["0x" + signer.hex() for signer in signers],
        state_root="0x" + head.state_root.hex(),
        contract=contract,
        slot_42=f"0x{slot:064x}",
    )


@pytest.fixture(scope="session")
def geth() -> str:
    """The path of geth 1.13, built by scripts/build-geth."""
    built = RINGS / "bin" / "geth"
    path = os.environ.get("CHAINMEMORY_TEST_GETH") or (str(built) if built.exists() else shutil.which("geth"))
    assert path is not None
    version = subprocess.run([path, "version"], capture_output=True, text=True, check=True).stdout
    assert "Version: 1.13." in version, f"only geth 1.13 speaks Clique, this is {version}"
    return path


@pytest.fixture(scope="session")
def ethereumjs() -> Path:
    """A folder in .rings with EthereumJS and the judge's script in it."""
    return installed("ethereumjs")


@pytest.fixture(scope="session")
def ethers() -> Path:
    """A folder in .rings with ethers and its script in it."""
    return installed("ethers")


def installed(name: str) -> Path:
    source, folder = Path(__file__).parent / name, RINGS / name
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        wanted = (source / "package.json").read_text()
        done = folder / "installed.json"
        if not done.exists() or done.read_text() != wanted:
            shutil.copy(source / "package.json", folder)
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=800)
            done.write_text(wanted)
        for script in source.glob("*.mjs"):
            shutil.copy(script, folder)
    return folder
