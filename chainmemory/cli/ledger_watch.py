"""`chainmemory ledger watch`: look at agents' folders again and again, and check each one that changed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from chainmemory.cli.ledger_lines import lines_of
from chainmemory.cli.output import printable, say
from chainmemory.errors import ChainMemoryError
from chainmemory.ledger.tenant import LEDGER, MEMORY, SUFFIX

Snapshot = dict[str, tuple[int, ...] | None]


def watch(
    names: Callable[[], list[str]],
    root: Path,
    report_of: Callable[[str], dict[str, Any]],
    *,
    interval_s: float,
    stop: threading.Event,
) -> bool:
    """Report on each agent now and whenever its folder changes, until `stop` is set.

    Returns whether all that was reported last is well.
    """
    seen: dict[str, Snapshot] = {}
    last: dict[str, tuple[bool, list[str]]] = {}
    while True:
        present = names()
        for name in [name for name in seen if name not in present]:
            del seen[name]
            last[name] = (False, [f"{printable(name)}: the folder is gone"])
            _say(last[name][1])
        for name in present:
            now = snapshot(root / name)
            if seen.get(name) == now:
                continue
            # Taken before the check: what changes during it is looked at again.
            seen[name] = now
            told = _told(name, report_of)
            if told != last.get(name):
                last[name] = told
                _say(told[1])
        if stop.wait(interval_s):
            return all(well for well, _ in last.values())


def snapshot(folder: Path) -> Snapshot:
    """Return what tells whether a tenant's files changed; nothing is read but their names and times."""
    found: Snapshot = {LEDGER: _stamp(folder / LEDGER)}
    try:
        with os.scandir(folder / MEMORY) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    found[entry.name] = _stamp(Path(entry.path))
    except OSError as error:
        found[MEMORY] = (error.errno or 0,)
    return found


@contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C (or SIGTERM) sets, instead of breaking off what runs; a second one does."""
    stop = threading.Event()

    def end(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    # ctime can't be set back, as mtime can.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def _told(name: str, report_of: Callable[[str], dict[str, Any]]) -> tuple[bool, list[str]]:
    try:
        report = report_of(name)
    except ChainMemoryError as error:
        return False, [f"{printable(name)}: {printable(error.message)}"]
    return report["ok"] is True, list(lines_of(report))


def _say(lines: list[str]) -> None:
    for line in lines:
        say(line)
