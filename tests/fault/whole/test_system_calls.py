"""Each write, sync, rename and connect of one save + consolidate + anchor fails, or is the last thing done.

strace injects EIO into a call, or SIGKILL at it, one at a time. Afterwards the process starts again, and
`verify --all`, which shares no code with what wrote, must find nothing amiss and all that was answered. By
default a sample of the points is tried, evenly spread; CHAINMEMORY_TEST_KILLS=all tries every one, and
CHAINMEMORY_TEST_PART=1/3 a third of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.chain.deploy import Deployment, deploy, grant
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.engine.accounts import create_account
from chainmemory.engine.callers import Caller
from chainmemory.engine.runtime import Engine
from chainmemory.settings import Settings
from chainmemory.verify.keys import MasterKeys
from chainmemory.verify.whole import Asked, verify_store
from tests.support.chains import QUICK, embedded_node
from tests.support.rounds import free_the_lease
from tests.support.server import ROOT
from tests.support.story_child import BROKEN, DONE, REFUSED, UNFINISHED, anchor, options_for, save

CALLS = (
    "write",
    "pwrite64",
    "pwritev",
    "fsync",
    "fdatasync",
    "ftruncate",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "unlink",
    "connect",
)
KILLED = -signal.SIGKILL
SAMPLE = 8
# Most of a story's time is waiting for blocks, so several are told at once, each by a signer of its own.
KEYS = tuple(hashlib.sha256(b"teller %d" % number).digest() for number in range(4))


class Storyteller:
    """Runs the story under strace, each time on a home of its own; one chain for all."""

    def __init__(self, folder: Path, template: Path, rpc: str, made: Deployment, key: bytes) -> None:
        self.folder = folder
        self.template = template
        self.rpc = rpc
        self.key = key.hex()
        self.anchors, self.registry = made.anchors.address, made.registry.address
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.story_child"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "story.log").open("ab"),
            text=True,
        )

    def tell(self, number: int, inject: str | None) -> tuple[Path, str, int, list[str], list[str]]:
        """Run it once; return the home, the account, the exit code, the calls made, and what was answered."""
        home = self.folder / f"home {number}"
        shutil.copytree(self.template, home)
        engine = Engine.open(self.settings(home))
        account = create_account(engine)["account_id"]
        engine.close()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as acks:
            acks.bind(str(self.folder / f"a{number}"))
            request = {
                "home": str(home),
                "rpc": self.rpc,
                "account": account,
                "anchors": self.anchors,
                "registry": self.registry,
                "key": self.key,
                "acks": acks.getsockname(),
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            pid = int(self._process.stdout.readline())
            log = self.folder / f"{number}.strace"
            arguments = ["strace", "-o", str(log), "-e", f"trace={','.join(CALLS)}", "-p", str(pid)]
            if inject:
                arguments += ["-e", f"inject={inject}"]
            with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as strace:
                assert strace.stderr is not None
                assert "attached" in strace.stderr.readline()
                os.kill(pid, signal.SIGUSR1)
                code = int(self._process.stdout.readline())
                strace.wait(20)
            answered = []
            acks.setblocking(False)
            while True:
                try:
                    answered.append(acks.recv(100).decode())
                except BlockingIOError:
                    break
        calls = re.findall(r"^(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
        return home, account, code, calls, answered

    def settings(self, home: Path) -> Settings:
        return Settings.load(home=home, rpc_url=self.rpc)

    def check_after(self, home: Path, account: str, answered: list[str]) -> None:
        """Start again, let the rest be anchored and another save be made; then check everything."""
        engine = Engine.open(self.settings(home))
        try:
            free_the_lease(engine.db)
            save(engine, Caller(account, "key", "owner"))
            assert anchor(engine, self.rpc, options_for(self.anchors, self.registry), self.key, 30)
        finally:
            engine.close()
        code = {name: load_artifact(name).code_hash for name in (STATE_ANCHOR, MEMORY_REGISTRY)}
        asked = Asked(self.rpc, code, self.anchors, self.registry)
        report = verify_store(
            f"sqlite:///{home / 'store.sqlite'}", MasterKeys.read(home / "master.key"), asked
        )
        assert (report.findings, report.unchecked) == ([], None)
        assert report.totals["memories"] >= 1 + ("saved" in answered)
        assert report.totals.get("versions", 0) >= ("consolidated" in answered)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


@pytest.fixture
def tellers(tmp_path: Path) -> Iterator[list[Storyteller]]:
    signers = [Signer.from_key(key) for key in KEYS]
    template = tmp_path / "template"
    template.mkdir()
    with embedded_node(tmp_path / "node", alloc=tuple(signer.address for signer in signers)) as node:
        rpc, policy = f"http://127.0.0.1:{node.port}", FeePolicy(QUICK.max_fee)
        Engine.open(Settings.load(home=template, rpc_url=rpc)).close()
        gateway = Gateway(rpc)
        made = deploy(gateway, signers[0], policy=policy)
        for signer in signers[1:]:
            grant(gateway, signers[0], made, signer.address, policy=policy)
        running = []
        for number, key in enumerate(KEYS):
            folder = tmp_path / f"t{number}"
            folder.mkdir()
            running.append(Storyteller(folder, template, rpc, made, key))
        yield running
        for teller in running:
            teller.close()


@pytest.mark.strace
@pytest.mark.timeout(390)
def test_a_fault_at_each_system_call(tellers: list[Storyteller]) -> None:
    home, account, code, calls, answered = tellers[0].tell(0, None)
    assert (code, answered) == (DONE, ["saved", "consolidated"])
    tellers[0].check_after(home, account, answered)
    made = Counter(calls)
    assert {"pwrite64", "connect"} <= set(made), made
    assert {"fsync", "fdatasync"} & set(made), made
    plan = [
        (call, nth, fault)
        for call, times in sorted(made.items())
        for nth in range(1, times + 1)
        for fault in ("error=EIO", "signal=KILL")
    ]
    every = len(plan)
    if os.environ.get("CHAINMEMORY_TEST_KILLS") == "all":
        part, _, parts = os.environ.get("CHAINMEMORY_TEST_PART", "1/1").partition("/")
        plan = plan[int(part) - 1 :: int(parts)]
        print(f"\npart {part} of {parts}")
    else:
        seed = random.randrange(2**32)
        step = every / SAMPLE
        first = random.Random(seed).uniform(0, step)
        plan = [plan[int(first + step * n)] for n in range(SAMPLE)]
        print(f"\nseed {seed}")
    codes: Counter[int] = Counter()
    parts_of_it = [plan[at :: len(tellers)] for at in range(len(tellers))]
    with ThreadPoolExecutor(len(tellers)) as pool:
        for found in pool.map(try_all, tellers, parts_of_it):
            codes += found
    words = {KILLED: "killed", DONE: "went on", REFUSED: "refused", BROKEN: "broke", UNFINISHED: "unfinished"}
    told = ", ".join(f"{words[code]} {count}" for code, count in sorted(codes.items()))
    print(f"{len(plan)} of {every} faults at {dict(made)}: {told}; after each, verify --all passed")


def try_all(teller: Storyteller, plan: list[tuple[str, int, str]]) -> Counter[int]:
    """Try some points, one after the other; return how the process ended, and how often."""
    codes: Counter[int] = Counter()
    for number, (call, nth, fault) in enumerate(plan, start=1):
        home, account, code, _, answered = teller.tell(number, f"{call}:{fault}:when={nth}")
        codes[code] += 1
        try:
            # How often the worker looks depends on the clock, so the last calls may not come to be made.
            wanted = {KILLED, DONE} if fault == "signal=KILL" else {DONE, REFUSED, BROKEN}
            assert code in wanted, f"exit {code}"
            teller.check_after(home, account, answered)
        except Exception as error:
            error.add_note(f"{fault} at {call} number {nth}: exit {code}, answered {answered}")
            raise
        shutil.rmtree(home)
    return codes
