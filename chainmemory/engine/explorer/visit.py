"""One reader's request: what it may read with, at which head, and how the contracts stand."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from chainmemory.engine.chain_view import Contracts
from chainmemory.engine.explorer.answers import Block
from chainmemory.engine.explorer.directory import Directory
from chainmemory.engine.explorer.reader import Reader
from chainmemory.engine.explorer.scan import Pace
from chainmemory.engine.explorer.text import age, moment
from chainmemory.store.database import Database


@dataclass(frozen=True, slots=True)
class When:
    """A block's time for people: the moment in UTC, and how long ago that was."""

    timestamp: int
    moment: str | None
    age: str


@dataclass(frozen=True)
class Visit:
    """What every page works with. Where there are no contracts to read, `why_none` says why."""

    reader: Reader
    db: Database
    head: Block
    contracts: Contracts | None
    why_none: str | None
    directory: Directory
    pace: Pace
    """For logs of one project or memory."""
    dense_pace: Pace
    """For all logs of a kind."""
    embedded: bool
    now: float = field(default_factory=time.time)

    def when(self, timestamp: int) -> When:
        """Tell a block's time beside this server's clock."""
        return When(timestamp, moment(timestamp), age(self.now - timestamp))

    def block_time(self, number: int) -> When | None:
        """Tell when a block was, None where the node doesn't have it any more."""
        block = self.reader.numbered(number)
        return None if block is None else self.when(block.timestamp)
