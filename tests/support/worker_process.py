"""Worker processes that can be killed at a named step: forked from one process that has everything loaded.

`python -m tests.support.worker_process` reads commands, one JSON object a line, and answers each with a line:
`{"start": {...}}` forks a worker and answers its pid; `{"wait": pid}` answers what `os.waitpid` says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.store.database import Database
from tests.support.chains import QUICK


class Workers:
    """The parent's end: starts worker processes, and waits for them."""

    def __init__(self, log: Path) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.worker_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=Path(__file__).parents[2],
            )
        self._alive: set[int] = set()

    def start(self, db: str, rpc: str, key: bytes, *, die_at: str = "", nth: int = 1, **options: Any) -> int:
        """Start a worker that kills itself at the n-th time of a step; return its pid."""
        command = {"db": db, "rpc": rpc, "key": key.hex(), "die_at": die_at, "nth": nth, "options": options}
        pid = int(self._ask({"start": command}))
        self._alive.add(pid)
        return pid

    def wait(self, pid: int) -> int:
        """Wait for a worker's end; return its exit code, negative for a signal."""
        self._alive.discard(pid)
        return os.waitstatus_to_exitcode(self._ask({"wait": pid}))

    def stop(self, pid: int) -> int:
        """Ask a worker to end, and wait for it."""
        os.kill(pid, signal.SIGTERM)
        return self.wait(pid)

    def kill(self, pid: int) -> int:
        os.kill(pid, signal.SIGKILL)
        return self.wait(pid)

    def close(self) -> None:
        """Kill whatever is left."""
        for pid in list(self._alive):
            self.kill(pid)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)

    def _ask(self, command: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _serve() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            print(os.waitpid(command["wait"], 0)[1], flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.dup2(2, 1)
            try:
                _work(**command["start"])
                os._exit(0)
            finally:
                # Not reached after a clean end.
                traceback.print_exc()
                os._exit(70)
        print(pid, flush=True)


def _work(db: str, rpc: str, key: str, die_at: str, nth: int, options: dict[str, Any]) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    seen: Counter[str] = Counter()

    def step(name: str) -> None:
        seen[name] += 1
        if name == die_at and seen[name] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    with Database.open(db) as database:
        AnchorWorker(
            database,
            Gateway(rpc),
            Signer.from_key(bytes.fromhex(key)),
            replace(QUICK, **options),
            step=step,
        ).run(stop)


if __name__ == "__main__":
    _serve()
