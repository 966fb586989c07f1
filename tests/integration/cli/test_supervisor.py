"""The supervisor over stand-in children: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 60.0


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


class Supervised:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "logs").mkdir()

    def start(self, *children: str) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.standin", "supervise", str(self.folder), *children],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process

    def events(self, name: str) -> list[list[str]]:
        log = self.folder / f"{name}.log"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    def starts(self, name: str) -> list[int]:
        return [int(event[1]) for event in self.events(name) if event[0] == "started"]

    def pids(self) -> dict[str, int]:
        pairs = (pair.split("=") for pair in (self.folder / "pids").read_text().split())
        return {name: int(pid) for name, pid in pairs}

    def errors(self) -> str:
        return self.process.communicate(timeout=PATIENCE_S)[1]


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    under_test = Supervised(tmp_path)
    yield under_test
    process = under_test.process
    if process.poll() is None:
        process.kill()
    process.communicate()
    # Whatever the test did, the children see their lifeline close.
    children = [int(event[1]) for log in tmp_path.glob("*.log") for event in under_test.events(log.stem)]
    eventually(lambda: all(gone(pid) for pid in children), "all children gone")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_all_children_in_order(supervised: Supervised, number: signal.Signals) -> None:
    process = supervised.start("first", "second")
    eventually(lambda: supervised.starts("first") and supervised.starts("second"), "both started")
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 0
    (_, stopped_first), (_, stopped_second) = supervised.events("first"), supervised.events("second")
    assert stopped_first[0] == stopped_second[0] == "stopped"
    assert float(stopped_first[2]) < float(stopped_second[2])


def test_a_child_that_is_killed_is_started_again_and_said_so(supervised: Supervised) -> None:
    process = supervised.start("one", "other")
    eventually(lambda: supervised.starts("one") and supervised.starts("other"), "both started")
    [first] = supervised.starts("one")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: len(supervised.starts("one")) == 2, "started again")
    eventually(lambda: supervised.pids()["one"] == supervised.starts("one")[1], "its new process id is told")
    assert len(supervised.starts("other")) == 1
    process.terminate()
    assert "The one process died (killed by SIGKILL); starting it again in 0.05 s" in supervised.errors()


def test_a_child_that_keeps_dying_is_started_ever_later(supervised: Supervised) -> None:
    process = supervised.start("bad:exit3")
    eventually(lambda: len(supervised.starts("bad")) >= 4, "four starts")
    process.terminate()
    errors = supervised.errors()
    for wait in ("0.05", "0.1", "0.2"):
        assert f"The bad process died (exit code 3); starting it again in {wait} s" in errors


def test_wrong_settings_of_a_child_end_the_first_start(supervised: Supervised) -> None:
    process = supervised.start("good", "bad:exit78")
    assert "The bad process can't start with these settings" in supervised.errors()
    assert process.returncode == 1
    assert len(supervised.starts("bad")) == 1
    assert all(gone(pid) for pid in supervised.starts("good"))


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_time(
    supervised: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_GRACE_S", "0.5")
    process = supervised.start("stubborn:stubborn")
    eventually(lambda: supervised.starts("stubborn"), "started")
    began = time.monotonic()
    process.terminate()
    assert "didn't stop in time; killing it" in supervised.errors()
    assert process.returncode == 0
    assert time.monotonic() - began > 0.4
    assert gone(supervised.starts("stubborn")[0])


def test_a_second_signal_kills_at_once(supervised: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_GRACE_S", "600")
    process = supervised.start("stubborn:stubborn")
    eventually(lambda: supervised.starts("stubborn"), "started")
    process.send_signal(signal.SIGINT)
    eventually(lambda: '"supervisor.stop"' in (supervised.folder / "logs/serve.log").read_text(), "stopping")
    time.sleep(1.1)  # sooner it would count as the same one
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    assert gone(supervised.starts("stubborn")[0])
    assert "a second signal came; killing it" in (supervised.folder / "logs/serve.log").read_text()


def test_a_signal_that_comes_twice_at_once_kills_nobody(supervised: Supervised) -> None:
    process = supervised.start("polite", "other")
    eventually(lambda: supervised.starts("polite") and supervised.starts("other"), "both started")
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert [supervised.events(name)[-1][0] for name in ("polite", "other")] == ["stopped", "stopped"]
    assert "killing" not in (supervised.folder / "logs/serve.log").read_text()


def test_children_stop_when_the_supervisor_is_killed(
    supervised: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_GRACE_S", "3")
    process = supervised.start("polite", "stubborn:stubborn")
    eventually(lambda: supervised.starts("polite") and supervised.starts("stubborn"), "both started")
    process.kill()
    eventually(lambda: gone(supervised.starts("polite")[0]), "the polite child stops")
    assert supervised.events("polite")[-1][0] == "stopped"
    eventually(lambda: gone(supervised.starts("stubborn")[0]), "the stubborn child ends itself")
