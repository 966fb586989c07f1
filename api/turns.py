"""Who may have the chain execute something now: a few at once, one from each address, the others wait in a
queue that is fair to addresses."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chainmemory.errors import RateLimited


class Turns:
    """Turns for work that is dear. Used from the event loop alone.

    One address has one turn at a time, and the free turn goes round the addresses that wait; so whoever asks
    without end takes turns from nobody but themselves, as long as there is another turn.
    """

    def __init__(self, at_once: int, *, wait_s: float, most_waiting: int) -> None:
        """Give `at_once` turns; refuse who waits longer than `wait_s`, or behind `most_waiting` others."""
        self._free = at_once
        self._wait_s = wait_s
        self._most_waiting = most_waiting
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._count = 0
        self._busy: set[str] = set()

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for a turn and have it for the block. Raises RateLimited where it doesn't come soon."""
        await self._take(address)
        try:
            yield
        finally:
            self._free += 1
            self._busy.discard(address)
            self._pass_on()

    async def _take(self, address: str) -> None:
        if self._count >= self._most_waiting:
            raise _too_many()
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(mine)
        self._count += 1
        self._pass_on()
        try:
            await asyncio.wait_for(asyncio.shield(mine), self._wait_s)
        except BaseException as error:
            if mine.done():  # the turn came at this very moment
                self._free += 1
                self._busy.discard(address)
                self._pass_on()
            else:
                self._leave(address, mine)
            if isinstance(error, TimeoutError):
                raise _too_many() from None
            raise

    def _pass_on(self) -> None:
        """Give free turns to the first address that waits and has none; it then goes to the end."""
        for address in list(self._waiting):
            if not self._free:
                return
            if address in self._busy:
                continue
            queue = self._waiting.pop(address)
            queue.popleft().set_result(None)
            if queue:
                self._waiting[address] = queue
            self._count -= 1
            self._free -= 1
            self._busy.add(address)

    def _leave(self, address: str, mine: asyncio.Future[None]) -> None:
        queue = self._waiting[address]
        queue.remove(mine)
        if not queue:
            del self._waiting[address]
        self._count -= 1


def _too_many() -> RateLimited:
    return RateLimited(
        "The chain is busy with other calls that execute or search; try again in 2 seconds.",
        details={"retry_after": 2},
    )
