"""Progress on a long catch-up, in words: how much waits, how fast it goes, how long it takes."""

from __future__ import annotations

from chainmemory.anchoring.clock import Clock
from chainmemory.logging import log
from chainmemory.store.database import Database

# Fewer are done before anyone wonders.
LEAST_ROWS = 1_000
EVERY_S = 5.0


class CatchUp:
    """Counts what waits, now and then, and says so while it is much."""

    def __init__(
        self, db: Database, clock: Clock, *, least: int = LEAST_ROWS, every_s: float = EVERY_S
    ) -> None:
        self._db = db
        self._clock = clock
        self._least = least
        self._every_s = every_s
        self._looked_at = float("-inf")
        self._began: tuple[float, int] | None = None
        self.words: str | None = None
        """What there is to say at this moment; None while little waits."""

    def look(self) -> None:
        """Count again where the last count grows old; log a line where much waits, and one at the end."""
        steady = self._clock.steady()
        if steady - self._looked_at < self._every_s:
            return
        self._looked_at = steady
        with self._db.read() as tx:
            waiting = tx.anchors.waiting()
        if self._began is None:
            if waiting < self._least:
                return
            self._began = (steady, waiting)
        began, most = self._began
        if waiting > most:
            # More came in than went out: count from here.
            self._began = began, most = (steady, waiting)
        done, seconds = most - waiting, steady - began
        if not waiting or waiting < self._least / 10:
            log.info("caught up", action="worker.caught_up", done=done, seconds=round(seconds, 1))
            self._began, self.words = None, None
            return
        rate = done / seconds if seconds and done else None
        self.words = _words(waiting, done, rate)
        log.info(
            "catching up",
            action="worker.catching_up",
            waiting=waiting,
            done=done,
            per_second=None if rate is None else round(rate, 1),
            seconds_left=None if rate is None else round(waiting / rate),
        )


def _words(waiting: int, done: int, rate: float | None) -> str:
    words = f"Catching up: {waiting:,} wait for the chain"
    if rate is None:
        return f"{words}."
    return f"{words}, {done:,} done, {rate:.1f} a second, about {_duration(waiting / rate)} left."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
