"""Looking back through a contract's logs in bounded windows, never through all of them in one request.

Nodes bound a query by its blocks, its results or its time, and each by another figure, so the window is found
by trying: wider while answers come quickly, narrower where the node refuses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from chainmemory.chain.failures import ChainUnavailable, NodeRefused
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.reader import Reader

MAX_QUERIES: Final = 12
"""Queries for one page."""
WIDEST: Final = 50_000
FIRST: Final = 2_000
"""Blocks of the first window on a node not yet known; most allow as many."""
QUICK_S: Final = 0.5
KEEP_S: Final = 5.0
"""The scan stops while this much of the page's time is left, so that the page itself is still answered."""
MANY_LOGS: Final = 1_000
REFUSAL_FOR_S: Final = 300.0
"""How long a refused width is believed to be too wide: it may have been a bad moment."""

Topics = Sequence[str | Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found, newest first, in the blocks `first` to `last`."""

    logs: tuple[Log, ...]
    first: int
    last: int
    complete: bool
    """Nothing older remains to be looked at."""
    refused: bool = False
    """The node doesn't answer eth_getLogs, however few blocks are asked for."""

    @property
    def next(self) -> int | None:
        """The block to look back from next; None where there is nothing left, or no use."""
        return None if self.complete or self.refused else self.first - 1


class Pace:
    """How wide a window a node answers; learned from its answers, shared by all pages."""

    def __init__(self, first: int = FIRST, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._width = first
        self._ceiling = WIDEST
        self._ceiling_until = 0.0

    @property
    def width(self) -> int:
        return self._width

    def went_well(self, width: int, seconds: float, logs: int) -> None:
        """Widen after a quick answer with few logs, narrow after one with many."""
        with self._lock:
            if self._clock() > self._ceiling_until:
                self._ceiling = WIDEST
            if width >= self._width and seconds < QUICK_S and logs < MANY_LOGS:
                self._width = min(self._width * 2, self._ceiling)
            elif logs >= MANY_LOGS:
                self._width = max(1, min(self._width, width // 2))

    def was_refused(self, width: int) -> None:
        """Narrow, and ask for less than this for a while."""
        with self._lock:
            self._ceiling = max(1, width // 2)
            self._ceiling_until = self._clock() + REFUSAL_FOR_S
            self._width = max(1, min(self._width, width // 8))


def look_back(
    reader: Reader,
    pace: Pace,
    address: str,
    topics: Topics,
    *,
    top: int,
    floor: int,
    want: int,
    queries: int = MAX_QUERIES,
) -> Scan:
    """Collect a contract's logs from block `top` down to `floor`, until there are `want` of them.

    Ends early, `complete` false, after so many `queries` or when the page's time runs out; the caller
    offers to go on from `next`. Raises Unavailable where the node doesn't answer at all.
    """
    found: list[Log] = []
    at, failures = top, 0
    for _ in range(queries):
        if at < floor or len(found) >= want or reader.left_s < KEEP_S:
            break
        width = min(pace.width, at - floor + 1)
        started = time.monotonic()
        try:
            logs = reader.logs(address, topics, at - width + 1, at)
        except ChainUnavailable as error:
            failures += not isinstance(error, NodeRefused)
            if failures > 1:
                raise
            if width == 1:
                return Scan(tuple(found), at + 1, top, complete=False, refused=True)
            pace.was_refused(width)
            continue
        pace.went_well(width, time.monotonic() - started, len(logs))
        found += sorted(logs, key=lambda log: (log.block_number, log.index), reverse=True)
        at -= width
    return Scan(tuple(found), at + 1, top, complete=at < floor)
