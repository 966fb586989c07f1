"""The two clocks of the worker: the wall's, for what is written down, and a steady one, for how long it took.

The wall's may jump either way, so nothing that must not fail depends on it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from chainmemory.protocol.times import format_time


@dataclass(frozen=True)
class Clock:
    """Both clocks; tests give their own."""

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def steady(self) -> float:
        """Seconds that only rise, from no particular moment."""
        return time.monotonic()

    def now(self) -> str:
        """Return the wall's time as the protocol writes it."""
        return format_time(self.wall())

    def after(self, seconds: float) -> str:
        return format_time(self.wall() + timedelta(seconds=seconds))
