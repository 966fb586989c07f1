"""Measure the HTTP API: durable saves and ops per second over real connections to a real server process.

Every number is of this machine and moment; compare the ratios to bare fsyncs of the same run.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.machine import disturbance, least_disturbed, loop_s

SAVES = 3_000
WINDOW = 50
STRACED_SAVES = 200
VERSIONS = 1_000
ENDS = 100
_FORK = multiprocessing.get_context("fork")


def run() -> dict[str, float | str]:
    """Return every measure by its description."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        fsync_s = _fsync_s(Path(folder))
        with _server(home) as server:
            key = server.new_key()
            server.saves(key, clients=1, count=300)
            loops = [loop_s() for _ in range(1_000)]
            one = server.saves(key, clients=1, count=SAVES)
            loops += [loop_s() for _ in range(1_000)]
            eight = server.saves(key, clients=8, count=SAVES)
            loops += [loop_s() for _ in range(1_000)]
            figures: dict[str, float | str] = {
                "durable saves per second, 1 client": round(one.per_s),
                "the same, least disturbed tenth": round(one.best_per_s),
                "durable saves per second, 8 clients": round(eight.per_s),
                "the same with 8 clients, least disturbed tenth": round(eight.best_per_s),
                "machine disturbed": disturbance(loops),
                "saves of 1 client per bare fsync": round(one.per_s * fsync_s, 2),
                "saves of 8 clients per bare fsync": round(eight.per_s * fsync_s, 2),
                "server CPU per save, 1 client, ms": round(one.cpu_s * 1e3, 3),
                "server CPU per save, 8 clients, ms": round(eight.cpu_s * 1e3, 3),
                "bare fsync, ms": round(fsync_s * 1e3, 3),
                "fsyncs per save, 1 client": server.fsyncs(key, clients=1),
                "fsyncs per save, 8 clients": server.fsyncs(key, clients=8),
            }
            return {**figures, **_ops(server, key)}


def _ops(server: _Server, key: str) -> dict[str, float | str]:
    """Compare a project's first hundred versions with another's last hundred of a thousand, call by call.

    Each document holds one text, so what could grow is only what the versions before leave behind.
    """
    with server.connect() as connection:

        def call(project: str, number: int) -> float:
            body = {"ops": [{"op": "set_focus", "focus": f"focus {number}"}], "consolidated_until_event": 1}
            request = _request(f"/v1/project/{project}/state/ops", key, body)
            before = time.perf_counter()
            _exchange(connection, request, b"200")
            return time.perf_counter() - before

        for number in range(VERSIONS - ENDS):
            call("old", number)
        pairs = [(call("new", number), call("old", VERSIONS - ENDS + number)) for number in range(ENDS)]
    first, last = (sorted(took)[ENDS // 2] for took in zip(*pairs, strict=True))
    return {
        f"ops calls per second, versions 1 to {ENDS} (median)": round(1 / first),
        f"ops calls per second, versions {VERSIONS - ENDS + 1} to {VERSIONS} (median)": round(1 / last),
        f"a call at version {VERSIONS} takes, in calls at version 1": round(last / first, 2),
    }


@dataclass(frozen=True)
class _Rate:
    per_s: float
    best_per_s: float
    """In the least disturbed tenth of the run, taken in windows of WINDOW saves."""
    cpu_s: float


@dataclass(frozen=True)
class _Server:
    port: int
    pid: int

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def new_key(self) -> str:
        with self.connect() as connection:
            answer = _exchange(connection, _request("/v1/keys", "", {}), b"201")
        return str(json.loads(answer.partition(b"\r\n\r\n")[2])["api_key"])

    def saves(self, key: str, *, clients: int, count: int) -> _Rate:
        """Save `count` memories from as many processes as there are clients, each on one connection."""
        pipes = [_FORK.Pipe() for _ in range(clients)]
        workers = [
            _FORK.Process(target=_client, args=(self, key, count // clients, theirs)) for _, theirs in pipes
        ]
        for worker in workers:
            worker.start()
        for ours, _ in pipes:
            ours.recv()
        cpu, before = self.cpu_s(), time.perf_counter()
        for ours, _ in pipes:
            ours.send("go")
        answered = sorted(moment for ours, _ in pipes for moment in ours.recv())
        cpu = self.cpu_s() - cpu
        for worker in workers:
            worker.join()
        windows = [
            end - start for start, end in zip(answered[::WINDOW], answered[WINDOW::WINDOW], strict=False)
        ]
        best_s = least_disturbed(windows) if windows else answered[-1] - before
        return _Rate(count / (answered[-1] - before), WINDOW / best_s, cpu / count)

    def cpu_s(self) -> float:
        """Return the CPU seconds that the server used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fsyncs(self, key: str, *, clients: int) -> float | str:
        """Count the server's fsyncs for each save, with strace."""
        strace = shutil.which("strace")
        if strace is None:
            return "no strace here"
        with tempfile.NamedTemporaryFile() as log:
            command = [
                strace,
                "-f",
                "-qq",
                "-e",
                "trace=fsync,fdatasync",
                "-o",
                log.name,
                "-p",
                str(self.pid),
            ]
            tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            time.sleep(1)
            self.saves(key, clients=clients, count=STRACED_SAVES)
            tracer.send_signal(signal.SIGINT)
            tracer.wait(10)
            lines = Path(log.name).read_text().splitlines()
        calls = [line for line in lines if "sync(" in line and "resumed" not in line]
        return round(len(calls) / STRACED_SAVES, 2)


@contextmanager
def _server(home: Path) -> Iterator[_Server]:
    """Run `chainmemory api` on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "chainmemory.cli", "api", "--home", str(home), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield _Server(port, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if time.monotonic() > deadline:
            raise SystemExit("the API didn't start")
        time.sleep(0.1)


def _client(server: _Server, key: str, count: int, pipe: Connection[Any, Any]) -> None:
    """Prepare requests, say so, wait for the word, send one after the other, tell when each was answered."""
    requests = [
        _request(
            "/v1/memory",
            key,
            {
                "content": f"Case {number}: we use Clique proof of authority for the chain, because who runs "
                "the server seals its blocks, and anybody can check the seals.",
                "project": "bench",
                "tags": ["consensus", "chain"],
                "category": "DECISION",
                "importance": 6,
            },
        )
        for number in range(count)
    ]
    with server.connect() as connection:
        pipe.send("ready")
        pipe.recv()
        answered = []
        for request in requests:
            _exchange(connection, request, b"201")
            answered.append(time.perf_counter())
    pipe.send(answered)


def _request(path: str, key: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(content)}"]
    head += [f"x-api-key: {key}"] if key else []
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def _exchange(connection: socket.socket, request: bytes, status: bytes) -> bytes:
    """Send a request and return its answer; all of ours end with a brace."""
    connection.sendall(request)
    answer = connection.recv(65536)
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    if answer[9:12] != status:
        raise SystemExit(f"the server answered {answer.decode()}")
    return answer


def _fsync_s(folder: Path, times: int = 300) -> float:
    """Return the mean seconds of an appended page and its fsync."""
    handle = os.open(folder / "bare", os.O_CREAT | os.O_WRONLY)
    before = time.perf_counter()
    for number in range(times):
        os.pwrite(handle, bytes(4096), number * 4096)
        os.fsync(handle)
    taken = time.perf_counter() - before
    os.close(handle)
    return taken / times


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
