"""Every system call of an append fails in turn, or is the last thing the process ever does.

A fault is injected by strace into a real process: EIO from a call, or SIGKILL at it. Whatever happens, what
was sealed stays sealed, the new record is sealed, unsealed or not there at all, and saving it again ends what
was begun. By default a sample runs; CHAINMEMORY_TEST_KILLS=all runs every one.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chainmemory.ledger.tenant import held
from chainmemory.ledger.tenant_write import save
from tests.support.append_child import REFUSED, SAVED
from tests.support.server import ROOT
from tests.support.tenants import NOW, Files, checked, make_tenant, record, written

CALLS = (
    "openat",
    "flock",
    "pread64",
    "read",
    "getdents64",
    "mkdirat",
    "write",
    "fsync",
    "renameat",
    "ftruncate",
)
KILLED = -signal.SIGKILL
SAMPLE = 60


def torn(files: Files) -> None:
    files.ledger.write_bytes(files.ledger.read_bytes() + b'{"content_sha256":"ab')


def unterminated(files: Files) -> None:
    files.ledger.write_bytes(files.ledger.read_bytes()[:-1])


def half_saved(files: Files) -> None:
    files.record("new").write_bytes(written(record("new")))


def empty(files: Files) -> None:
    shutil.rmtree(files.path)
    files.path.mkdir()


STARTS: dict[str, Callable[[Files], object]] = {
    "whole": lambda files: None,
    "empty": empty,
    "torn": torn,
    "unterminated": unterminated,
    "half saved": half_saved,
}


class Appender:
    """Runs an append under strace."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.append_child"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, root: Path, inject: str | None) -> tuple[int, list[str]]:
        """Return the child's exit code and the names of the calls it made."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{root}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        log = root.with_suffix(".strace")
        arguments = ["strace", "-o", str(log), "-e", f"trace={','.join(CALLS)}", "-p", str(pid)]
        if inject:
            arguments += ["-e", f"inject={inject}"]
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            assert "attached" in strace.stderr.readline()
            os.kill(pid, signal.SIGUSR1)
            code = int(self._process.stdout.readline())
            strace.wait(20)
        return code, re.findall(r"^(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


@pytest.fixture(scope="module")
def appender() -> Iterator[Appender]:
    running = Appender()
    yield running
    running.close()


def started(folder: Path, start: str) -> Files:
    files = make_tenant(folder, records=("m1", "m2"))
    STARTS[start](files)
    return files


def fsck(files: Files) -> set[str]:
    """Return the ids that whole lines seal; shares no code with the writer. The chain must be whole."""
    sealed, prev = set(), "0" * 64
    data = files.ledger.read_bytes() if files.ledger.exists() else b""
    for position, line in enumerate(data.split(b"\n"), 1):
        try:
            entry = json.loads(line)
        except ValueError:
            assert position == data.count(b"\n") + 1, "only the last line may be torn"
            break
        assert (entry["seq"], entry["prev"]) == (position, prev)
        prev = entry.pop("hash")
        form = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(form.encode()).hexdigest() == prev
        sealed.add(entry["memory_id"])
    return sealed


def check_after(files: Files, start: str, code: int) -> None:
    """Check what a fault left, then that saving again puts it right."""
    before = set() if start == "empty" else {"m1", "m2"}
    sealed = fsck(files)
    assert before <= sealed <= before | {"new"}
    if code == SAVED:
        assert "new" in sealed, "acknowledged, so it is there"
    if "new" in sealed:
        assert json.loads(files.record("new").read_bytes()) == record("new")
    report = checked(files)
    assert before <= set(report.sealed)
    assert (report.altered, report.missing, report.disputed) == ([], [], [])

    with held(files.path.parent, "cc") as tenant:
        save(tenant, written(record("new")), stem="new", now=NOW)
    report = checked(files)
    assert report.ok is True
    assert sorted(report.sealed) == sorted(before | {"new"})
    assert report.walk.entries == len(before) + 1


@pytest.mark.strace
def test_a_fault_at_each_system_call(appender: Appender, tmp_path: Path) -> None:
    plan: list[tuple[str, str, int, str]] = []
    for start in STARTS:
        code, calls = appender.run(started(tmp_path / f"plain {start}", start).path.parent, None)
        assert code == SAVED
        made = Counter(calls)
        assert {"openat", "flock", "fsync"} <= set(made)
        assert start == "half saved" or {"write", "renameat"} <= set(made)
        for call, times in made.items():
            for nth in range(1, times + 1):
                plan += [(start, call, nth, "signal=KILL"), (start, call, nth, "error=EIO")]
    every = len(plan)
    if os.environ.get("CHAINMEMORY_TEST_KILLS") != "all":
        plan = random.Random(5).sample(plan, SAMPLE)
    print(f"\n{len(plan)} of {every} faults injected")
    codes: Counter[int] = Counter()
    for number, (start, call, nth, fault) in enumerate(plan):
        files = started(tmp_path / f"{number}", start)
        code, _ = appender.run(files.path.parent, f"{call}:{fault}:when={nth}")
        codes[code] += 1
        try:
            assert code in ({KILLED} if fault == "signal=KILL" else {SAVED, REFUSED})
            check_after(files, start, code)
        except AssertionError as error:
            error.add_note(f"start {start!r}, {fault} at {call} number {nth}: exit {code}")
            raise
    assert codes[KILLED], "some were killed"
    assert codes[REFUSED], "some were refused"


def test_a_line_torn_at_any_byte_is_put_right(tmp_path: Path) -> None:
    files = make_tenant(tmp_path, records=("m1", "m2", "new"))
    whole = files.ledger.read_bytes()
    first, second, _ = files.lines()
    start = len(first) + len(second)
    for length in [*range(start, len(whole), 7), len(whole) - 1]:
        files.ledger.write_bytes(whole[:length])
        report = checked(files)
        complete = length in (start, len(whole) - 1)
        assert report.ok is complete
        assert report.sealed == (["m1", "m2", "new"] if length == len(whole) - 1 else ["m1", "m2"])
        with held(tmp_path, "cc") as tenant:
            save(tenant, written(record("new")), stem="new", now=NOW)
        assert checked(files).ok is True
        assert checked(files).walk.entries == 3
