"""Ctrl-C in the middle: one line, exit code 130, and running it again is safe."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.cli.ledger_watch import until_interrupted
from chainmemory.node.export import _taking_place
from tests.support.git_repos import Repo, small_project
from tests.support.served import Served, serving
from tests.support.server import PATIENCE_S, ROOT, cli, environment

COMMITS = 3000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """Ctrl-C reaches what runs in the foreground; what a shell starts in the background ignores it, and
    the processes begun here would inherit that from the tests'.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def begin(home: Path, served: Served, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "chainmemory.cli", *arguments],
        env=environment(home, CHAINMEMORY_URL=f"http://127.0.0.1:{served.port}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Send SIGINT and hold the process to how it has to end."""
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, told.decode()) == (130, "chainmemory: interrupted.\n")


def saved(served: Served) -> int:
    with served.engine.db.read() as tx:
        return tx.accounts.totals()[1]


def long_history(path: Path) -> Repo:
    repo = Repo(path)
    lines = [b"reset refs/heads/main\n"]
    for number in range(COMMITS):
        who = f"Ann <ann@example.org> {1_700_000_000 + number} +0000"
        lines.append(f"commit refs/heads/main\ncommitter {who}\ndata 7\nnr {number:04}\n".encode())
    repo.git("fast-import", "--quiet", data=b"".join(lines))
    return repo


def test_an_import_is_broken_off_and_goes_on_where_it_stopped(served: Served, tmp_path: Path) -> None:
    repo, home = long_history(tmp_path / "repo"), tmp_path / "home"
    url = {"CHAINMEMORY_URL": f"http://127.0.0.1:{served.port}"}
    assert cli(home, "keys", "create", **url).returncode == 0
    process = begin(home, served, "import", "git", str(repo.path), "--project", "p")
    deadline = time.monotonic() + PATIENCE_S
    while not saved(served):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    interrupt(process)
    assert saved(served) < COMMITS
    ran = cli(home, "import", "git", str(repo.path), "--project", "p", **url)
    assert (ran.returncode, "were there already." in ran.stdout) == (0, True), ran.stderr
    assert saved(served) == COMMITS


def test_a_demo_that_waits_for_its_anchor_is_broken_off(served: Served, tmp_path: Path) -> None:
    repo, home = small_project(tmp_path / "repo"), tmp_path / "home"
    assert cli(home, "keys", "create", CHAINMEMORY_URL=f"http://127.0.0.1:{served.port}").returncode == 0
    process = begin(home, served, "demo", str(repo.path), "--project", "p")
    assert process.stdout is not None
    said = iter(process.stdout.readline, b"")
    assert any(b"3/4  Anchor: wait" in line for line in said)
    interrupt(process)


def test_a_command_that_has_hardly_begun_ends_the_same_way(served: Served, tmp_path: Path) -> None:
    process = begin(tmp_path / "home", served, "status")
    maps = Path(f"/proc/{process.pid}/maps")
    deadline = time.monotonic() + PATIENCE_S
    while "pydantic_core" not in maps.read_text():  # it is still loading
        assert time.monotonic() < deadline
        time.sleep(0.001)
    interrupt(process)


def test_an_export_that_is_broken_off_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "blocks.rlp"
    target.write_bytes(b"whole")
    with pytest.raises(KeyboardInterrupt):
        _break_off(target)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("blocks.rlp", b"whole")]


def _break_off(target: Path) -> None:
    with _taking_place(target) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_watching_ends_at_the_first_and_breaks_off_at_the_second() -> None:
    with until_interrupted() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
