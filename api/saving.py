"""Single saves over HTTP, the one route that is about speed: at once where nobody else is served.

A small save that is alone is written by the event loop itself: changing threads twice costs a third of what
it takes, and the loop would only wait. Where more is going on, saves wait for each other (api.gatherer) and
share a commit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from api.gatherer import Gatherer
from chainmemory.engine.memory_save import Save, save_each, save_now
from chainmemory.engine.once import Written
from chainmemory.engine.runtime import Engine
from chainmemory.errors import Unavailable

PATIENCE_S = 0.002
"""How long the event loop waits for its turn to write before it leaves a save to the thread."""
SLOW_S = 0.02
"""A save that took the loop longer than this (a disk that stalls) is a warning:"""
REST_S = 2.0
"""for so long after it the loop writes nothing itself."""


class Saver:
    """Where single saves go."""

    def __init__(self, engine: Engine, in_flight: Callable[[], int]) -> None:
        """Save through `engine`; `in_flight` tells how many requests are served, the caller's included."""
        self._engine = engine
        self._in_flight = in_flight
        self._gatherer: Gatherer[Save, Written] = Gatherer("saves", partial(save_each, engine))
        self._gathering = 0
        self._rests_until = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._gatherer.start()

    def close(self) -> None:
        """Finish what was asked for, then stop the thread."""
        self._gatherer.close()

    async def save(self, one: Save, *, small: bool) -> Written:
        """Save a memory and return its answer. Raises as `memory_save.save`."""
        # Requests that arrived together come in one after the other; this lets them all come in first.
        await asyncio.sleep(0)
        if small and self._in_flight() == 1 and not self._gathering:
            started = time.monotonic()
            if started >= self._rests_until:
                try:
                    return save_now(self._engine, one, wait_s=PATIENCE_S)
                except Unavailable:
                    pass  # someone else writes; the thread can wait for them
                finally:
                    ended = time.monotonic()
                    if ended - started > SLOW_S:
                        self._rests_until = ended + REST_S
        self._gathering += 1
        try:
            return await self._gatherer.run(one)
        finally:
            self._gathering -= 1
