"""A turnstile between processes: who waits for SQLite's write lock is the next to get it.

SQLite's busy handler sleeps and polls, so a process that writes back to back keeps another one out for
seconds. Here everyone passes a turnstile before asking for the write lock, and leaves it once the lock is
theirs: while one process waits in it, the one that writes can't come back for more.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from chainmemory.errors import Unavailable

try:
    import fcntl
except ImportError:  # Windows: SQLite's own polling has to do
    fcntl = None  # type: ignore[assignment]

_POLL_S: Final = 0.0005
_LONGEST_POLL_S: Final = 0.005


class Turnstile:
    """A lock file; the kernel lets go of it when its holder dies."""

    def __init__(self, path: Path) -> None:
        """Open or create the file, readable by its owner alone; OSError where that fails."""
        self._handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def enter(self, wait_s: float) -> None:
        """Wait until no other process is in the turnstile; Unavailable after `wait_s` seconds."""
        if fcntl is None:
            return
        pause, deadline = _POLL_S, time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable("The store is busy with other processes' writes; try again.") from None
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_POLL_S)

    def leave(self) -> None:
        """Let the next one in."""
        if fcntl is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
