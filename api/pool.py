"""A thread pool for the event loop, as lean as it can be: a queue in, `call_soon_threadsafe` out.

`loop.run_in_executor` goes through concurrent.futures, whose locks and conditions cost as much as the rest of
a request here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar, cast

T = TypeVar("T")

_Job = tuple[Callable[..., Any], tuple[Any, ...], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Pool:
    """Threads that run plain functions for coroutines."""

    def __init__(self, threads: int) -> None:
        """Make a pool of this many threads; they start with `start`."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._size = threads
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        for index in range(self._size):
            thread = threading.Thread(target=self._serve, name=f"api-{index}", daemon=True)
            thread.start()
            self._threads.append(thread)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Return `work(*args)`, run in a thread; what it raises is raised here."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._jobs.put((work, args, loop, future))
        return cast(T, await future)

    def close(self) -> None:
        """Finish what was asked for, then stop the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, args, loop, future = job
            try:
                result = work(*args)
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the one who waits
                tell(loop, fail, future, error)
            else:
                tell(loop, settle, future, result)
            del job, work, args, future


def tell(loop: asyncio.AbstractEventLoop, done: Callable[..., None], *args: Any) -> None:
    """Call `done` in the loop, from another thread; a loop that is gone has nobody to tell."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(done, *args)


def settle(future: asyncio.Future[Any], result: Any) -> None:
    """Answer whoever waits, unless they gave up."""
    if not future.done():
        future.set_result(result)


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Raise where somebody waits, unless they gave up."""
    if not future.done():
        future.set_exception(error)
