"""The current states of the busiest projects, so that a call costs the same at version 1 and at version
1,000."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from chainmemory.state.builder import ProjectState

MOST_BYTES: Final = 32 * 1024 * 1024
"""Sum of the canonical sizes of the cached documents; as Python objects they take several times that."""
MOST_STATES: Final = 512
STRIPES: Final = 64


class StateCache:
    """One state per project, the least recently used dropped first. Safe to share between threads.

    A state is used only where its version and hash are those of the project's row in the caller's
    transaction, so another process's writes are never missed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[str, tuple[ProjectState, int]] = OrderedDict()
        self._bytes = 0
        self._turns = [threading.Lock() for _ in range(STRIPES)]

    def get(self, project_id: str) -> ProjectState | None:
        """Return the last state known of a project, current or not."""
        with self._lock:
            found = self._states.get(project_id)
            if found is None:
                return None
            self._states.move_to_end(project_id)
            return found[0]

    def put(self, project_id: str, state: ProjectState, size: int) -> None:
        """Remember a state, unless a later one is known; `size` is its document's canonical size in bytes."""
        with self._lock:
            known = self._states.get(project_id)
            if known is not None and known[0].version > state.version:
                return
            self._bytes += size - (known[1] if known is not None else 0)
            self._states[project_id] = (state, size)
            self._states.move_to_end(project_id)
            while len(self._states) > MOST_STATES or self._bytes > MOST_BYTES:
                _, (_, dropped) = self._states.popitem(last=False)
                self._bytes -= dropped

    def turn(self, project_id: str) -> threading.Lock:
        """Return the lock that callers of one project take in turn.

        It spares them work lost to each other; what keeps the versions apart is the store's compare-and-swap.
        """
        return self._turns[hash(project_id) % STRIPES]
