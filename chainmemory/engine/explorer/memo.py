"""Answers remembered for a moment, so that many readers of one page cost the node little."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

T = TypeVar("T")

MOST: Final = 2_000


class Memo:
    """A bounded memory of what was read. Safe to share between threads; failures aren't remembered."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[float, object]] = OrderedDict()

    def get(self, what: Hashable, for_s: float, fetch: Callable[[], T]) -> T:
        """Return what `fetch` answered within the last `for_s` seconds, or fetch it now."""
        with self._lock:
            known = self._known.get(what)
        if known is not None and self._clock() < known[0]:
            return known[1]  # type: ignore[return-value]
        value = fetch()
        with self._lock:
            self._known[what] = (self._clock() + for_s, value)
            self._known.move_to_end(what)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return value
