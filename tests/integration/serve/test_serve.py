"""A whole server as real processes: how it starts, what it refuses, what it survives."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainmemory.engine.lost_store import refuse_lost_store
from chainmemory.errors import ChainMemoryError
from chainmemory.settings import Settings
from tests.support.server import Server, descendants, eventually, gone, run_cli

TOKEN = "a-token-for-tests"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests that leave it as they found it, on a home that others could read at first."""
    home = tmp_path_factory.mktemp("serve") / "home"
    home.mkdir(mode=0o755)
    # A short lease: a worker that was killed, or stands still, is soon known to.
    server = Server(home, CHAINMEMORY_LEASE_S="3", CHAINMEMORY_ADMIN_TOKEN=TOKEN).start()
    yield server
    server.end()


def test_it_says_where_to_look_and_what_to_try(server: Server) -> None:
    url = server.note()["url"]
    said = eventually(lambda: "is ready" in (text := server.output.read_text()) and text, "the welcome")
    for wanted in (
        url,
        f"{url}/openapi.json",
        f"{url}/verify/",
        f"{url}/explorer",
        "/v1/keys",
        f"demo --home {server.home}",
    ):
        assert wanted in said


def test_home_and_keys_are_private(server: Server) -> None:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [server.home, *server.home.rglob("*")]}
    assert modes[server.home] == 0o700
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
    assert {"master.key", "signer.json", "signer.password"} <= {path.name for path in modes}


def test_only_the_api_is_told_the_apis_secrets(server: Server) -> None:
    for name, pid in server.note()["children"].items():
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        assert (TOKEN.encode() in environ) == (name == "api")


def test_a_second_server_on_the_home_is_refused(server: Server) -> None:
    ran = run_cli(server.home, "serve", "--port", "0")
    assert ran.returncode == 2
    assert f"A server already runs on the home {server.home}" in ran.stderr
    assert str(server.note()["pid"]) in ran.stderr
    assert server.readyz() == 200


def test_a_taken_port_is_refused(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = run_cli(tmp_path / "home", "serve", "--port", str(port))
        assert (ran.returncode, "--port" in ran.stderr) == (2, True)
        assert f"Port {port} on 127.0.0.1, which the API needs, is taken" in ran.stderr
        ran = run_cli(tmp_path / "home", "serve", "--port", "0", "--chain-port", str(port))
        assert (ran.returncode, "--chain-port" in ran.stderr) == (2, True)


def test_status_shows_all_parts(server: Server) -> None:
    ran = run_cli(server.home, "status")
    assert ran.returncode == 0
    assert "ready" in ran.stdout
    assert "chain_id" in ran.stdout


@pytest.mark.parametrize("name", ["api", "worker", "chain"])
def test_a_killed_child_comes_back_and_nothing_is_lost(server: Server, name: str) -> None:
    with server.account() as client:
        saved = client.save(f"before the {name} was killed")
        old = server.note()["children"][name]
        os.kill(old, signal.SIGKILL)
        eventually(lambda: server.note()["children"].get(name, old) != old, f"a new {name}")
        # The port stays open meanwhile: a client sees a slow answer, not a refused connection.
        assert client.memory(saved["memory_number"])["event_hash"] == saved["event_hash"]
        server.wait_ready()
        after = client.save(f"after the {name} was killed")
        eventually(
            lambda: client.memory(after["memory_number"])["chain_sync"] in ("anchored", "synced"),
            "it is anchored",
        )
    assert f"The {name} process died (killed by SIGKILL)" in server.output.read_text()


@pytest.mark.parametrize("name", ["worker", "chain"])
def test_readyz_says_503_while_a_part_is_stopped(server: Server, name: str) -> None:
    pids = [server.note()["children"][name]]
    pids += descendants(pids[0])
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: server.readyz() == 503, f"/readyz notices that the {name} stands still")
        ran = run_cli(server.home, "status")
        assert ran.returncode == 1
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: server.readyz() == 200, f"/readyz notices that the {name} goes on")


def test_sigterm_stops_all_and_the_next_start_has_everything_wherever_the_home_is(server: Server) -> None:
    with server.account() as client:
        saved = [client.save(f"memory {n}") for n in range(5)]
    below = descendants(server.pid)
    assert server.stop() == 0
    assert all(gone(pid) for pid in below)
    assert not (server.home / "run.json").exists()
    server.home = server.home.rename(server.home.with_name("moved"))
    with server.start().client(client) as client:
        assert [client.memory(n + 1)["event_hash"] for n in range(5)] == [one["event_hash"] for one in saved]


def test_a_power_cut_loses_nothing_that_was_acknowledged(server: Server) -> None:
    acknowledged: list[dict[str, Any]] = []
    client = server.account()

    def save() -> None:
        try:
            while True:
                acknowledged.append(client.save(f"memory {len(acknowledged)}", project="cut"))
        except ChainMemoryError:
            return

    writer = threading.Thread(target=save)
    writer.start()
    eventually(lambda: len(acknowledged) > 30, "some are saved")
    server.kill_all()
    writer.join()
    with server.start().client(client) as client:
        for saved in acknowledged:
            assert client.memory(saved["memory_number"])["event_hash"] == saved["event_hash"]
        last = len(acknowledged)
        eventually(lambda: client.memory(last)["chain_sync"] == "anchored", "the last one is anchored")


def test_children_end_with_a_killed_supervisor_and_the_next_server_waits_for_them(server: Server) -> None:
    below = descendants(server.pid)
    assert len(below) >= 3
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    server.start()
    assert all(gone(pid) for pid in below)


def test_a_home_whose_store_is_lost_or_damaged_is_not_served(server: Server, tmp_path: Path) -> None:
    passing = shutil.ignore_patterns("logs", "run.*", "*-shm")
    shutil.copytree(server.home, tmp_path / "home", ignore=passing)
    store = tmp_path / "home" / "store.sqlite"
    with store.open("r+b") as file:
        file.write(os.urandom(65536))
    ran = run_cli(store.parent, "serve", "--port", "0")
    assert ran.returncode == 2
    assert f"The store {store} can't be opened. The database file is damaged" in ran.stderr
    assert "restore it from a backup" in ran.stderr

    for file in store.parent.glob("store.sqlite*"):  # its mark too: as from a backup that lacks the store
        file.unlink()
    ran = run_cli(store.parent, "serve", "--port", "0")
    assert ran.returncode == 2
    assert f"The store {store} is missing, but contracts on the chain in" in ran.stderr
    assert not store.exists()
    (store.parent / "chain").rename(tmp_path / "chain")  # as the message says
    refuse_lost_store(Settings.load(home=store.parent))


def test_a_wrong_setting_of_a_child_ends_the_first_start(tmp_path: Path) -> None:
    ran = run_cli(tmp_path / "home", "serve", "--port", "0", CHAINMEMORY_MASTER_KEY="not hexadecimal")
    assert ran.returncode == 2
    assert "master" in ran.stderr.lower()
    assert "not hexadecimal" not in ran.stderr
