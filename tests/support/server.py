"""A whole server (`chainmemory serve`) as real processes on a home of its own, on free loopback ports."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from chainmemory import logging
from chainmemory.cli import main
from chainmemory.client import Client
from chainmemory.errors import ChainMemoryError

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0


def eventually(condition: Callable[[], Any], what: str, *, within_s: float = PATIENCE_S) -> Any:
    """Wait until `condition` is true and return what it returned."""
    deadline = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.05)
    return result


def gone(pid: int) -> bool:
    """Say whether a process has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def descendants(pid: int) -> list[int]:
    """Return the processes below `pid`, itself left out."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)] = int(fields[1])
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return this process's environment with the home, and no other setting, for a process of ours."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CHAINMEMORY_")}
    return {**clean, "CHAINMEMORY_HOME": str(home), "PYTHONPATH": str(ROOT), **more}


def run_cli(
    home: Path, *arguments: str, data: bytes | None = None, cwd: Path = ROOT, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run one command against the server on `home`."""
    ran = subprocess.run(
        [sys.executable, "-m", "chainmemory.cli", *arguments],
        env=environment(home, **environ),
        input=data,
        capture_output=True,
        cwd=cwd,
        timeout=PATIENCE_S,
    )
    return subprocess.CompletedProcess(
        ran.args, ran.returncode, ran.stdout.decode(errors="replace"), ran.stderr.decode(errors="replace")
    )


def cli(home: Path, *arguments: str, data: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run one command like `run_cli`, but in this process, which is a second quicker."""
    before, umask = sys.argv, os.umask(0o022)
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    stdin = io.TextIOWrapper(io.BytesIO(data.encode()), "utf-8")
    sys.argv = ["chainmemory", *arguments]
    try:
        with (
            mock.patch.dict(os.environ, environment(home, **environ), clear=True),
            mock.patch.object(sys, "stdin", stdin),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            try:
                main()
                code: Any = 0
            except SystemExit as end:
                code = end.code or 0
    finally:
        sys.argv = before
        os.umask(umask)
        logging.unconfigure()  # the log of a command that made one went to the stderr of this call
    said, told = (stream.buffer.getvalue().decode() for stream in (output, errors))
    return subprocess.CompletedProcess(arguments, code, said, told)


class Server:
    """`chainmemory serve` on `home`; `start` may be called again after it has ended."""

    def __init__(self, home: Path, **environ: str) -> None:
        self.home = home
        self.environ = environ
        self.process: subprocess.Popen[bytes] | None = None
        self.output = home.with_name(home.name + ".output")

    def start(self, *, wait: bool = True) -> Server:
        """Start it and, by default, wait until /readyz says 200."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "chainmemory.cli", "serve", "--port", "0"],
                env=environment(self.home, **self.environ),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until /readyz says 200."""

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"the server ended:\n{self.output.read_text()}"
            return self.readyz() == 200

        eventually(ready, "the server is ready")

    def note(self) -> dict[str, Any]:
        """Return `run.json`."""
        found: dict[str, Any] = json.loads((self.home / "run.json").read_text())
        return found

    def readyz(self) -> int:
        """Return the status of /readyz, 0 where nobody answers."""
        try:
            with Client(self.note()["url"], timeout_s=5) as client:
                return int(client.ready()["status_code"])
        except (OSError, ValueError, ChainMemoryError):
            return 0

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def kill_all(self) -> None:
        """SIGKILL the supervisor and every process below it, as a power cut would."""
        assert self.process is not None
        pids = [self.process.pid, *descendants(self.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        eventually(lambda: all(gone(pid) for pid in pids), "all processes gone")

    def end(self) -> None:
        """Leave nothing running, whatever the test did."""
        if self.process is not None and self.process.poll() is None:
            below = descendants(self.process.pid)
            self.stop()
            eventually(lambda: all(gone(pid) for pid in below), "all processes gone")

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        assert self.process is not None
        return self.process.pid

    def client(self, known: Client) -> Client:
        """Return a client with another's key for the server as it runs now, on another port maybe."""
        return Client(self.note()["url"], known.api_key)

    def account(self) -> Client:
        """Return a client with a new account."""
        url = self.note()["url"]
        with Client(url) as anybody:
            key = anybody.create_account()["api_key"]
        return Client(url, key)
