"""Turns: a few at once, fair to addresses, and nobody waits for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from api.turns import Turns
from chainmemory.errors import RateLimited


class Queue:
    """Turns that end when the test says so, and the order in which they began."""

    def __init__(self, at_once: int, wait_s: float = 60, most_waiting: int = 100) -> None:
        self.turns = Turns(at_once, wait_s=wait_s, most_waiting=most_waiting)
        self.began: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def ask(self, name: str) -> asyncio.Task[None]:
        """Ask for a turn; the name's first letter is the address."""
        self.ends[name] = asyncio.Event()

        async def work() -> None:
            async with self.turns.turn(name[0]):
                self.began.append(name)
                await self.ends[name].wait()

        return asyncio.ensure_future(work())

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def in_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())


@in_loop
async def test_one_address_has_one_turn_and_the_next_goes_to_another() -> None:
    queue = Queue(2)
    tasks = [queue.ask(name) for name in ("a1", "a2", "a3", "b1", "c1", "b2")]
    await settle()
    assert queue.began == ["a1", "b1"]
    await queue.end("a1")
    assert queue.began[2:] == ["a2"]
    await queue.end("a2")
    assert queue.began[3:] == ["c1"]
    for name in ("b1", "c1", "a3", "b2"):
        await queue.end(name)
    await asyncio.gather(*tasks)
    assert sorted(queue.began) == ["a1", "a2", "a3", "b1", "b2", "c1"]


@in_loop
async def test_who_waits_too_long_or_behind_too_many_is_told_when_to_come_back() -> None:
    queue = Queue(1, wait_s=0.05, most_waiting=2)
    held = queue.ask("a1")
    await settle()
    waiting = [queue.ask("b1"), queue.ask("b2")]
    await settle()
    with pytest.raises(RateLimited) as refused:
        await queue.ask("c1")
    assert refused.value.details["retry_after"] > 0
    for task in waiting:
        with pytest.raises(RateLimited):
            await task
    await queue.end("a1")
    await held
    after = queue.ask("d1")  # the places of those who went are free
    await queue.end("d1")
    await after


@in_loop
async def test_who_gives_up_leaves_nothing_behind() -> None:
    queue = Queue(1)
    tasks = [queue.ask(name) for name in ("a1", "b1", "c1")]
    await settle()
    tasks[1].cancel()
    tasks[0].cancel()  # it had the turn
    await settle()
    assert queue.began == ["a1", "c1"]
    tasks[2].cancel()
    await settle()
    last = queue.ask("a2")
    await queue.end("a2")
    await last
    assert queue.began[-1] == "a2"
