"""One thread that takes what waits, all of it at once: many small writes become one transaction.

Handing each write to a thread of its own costs two changes of threads and, under load, a fight for the
interpreter's lock at each step; that was most of what a save cost. Here requests wait in a queue while the
thread is busy with those before them, and are then written, and answered, together.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from api.pool import fail, settle, tell

J = TypeVar("J")
R = TypeVar("R")

MOST_AT_ONCE = 64


class Gatherer(Generic[J, R]):
    """Runs jobs of one kind, as many together as wait, for coroutines."""

    def __init__(self, name: str, work: Callable[[Sequence[J]], Sequence[R | Exception]]) -> None:
        """Gather for `work`, which returns one result or exception for each job, in order."""
        self._name = name
        self._work = work
        self._jobs: SimpleQueue[tuple[J, asyncio.AbstractEventLoop, asyncio.Future[R]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
        self._thread.start()

    async def run(self, job: J) -> R:
        """Return the job's result, or raise its exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._jobs.put((job, loop, future))
        return await future

    def close(self) -> None:
        """Finish what was asked for, then stop the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while (first := self._jobs.get()) is not None:
            waiting, ending = [first], False
            while len(waiting) < MOST_AT_ONCE:
                try:
                    job = self._jobs.get_nowait()
                except Empty:
                    break
                if job is None:
                    ending = True
                    break
                waiting.append(job)
            self._do(waiting)
            if ending:
                return

    def _do(self, waiting: list[tuple[J, asyncio.AbstractEventLoop, asyncio.Future[R]]]) -> None:
        results: Sequence[R | BaseException]
        try:
            results = self._work([job for job, _, _ in waiting])
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to those who wait
            results = [error] * len(waiting)
        done: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[R], R | BaseException]]] = {}
        for (_, loop, future), result in zip(waiting, results, strict=True):
            done.setdefault(loop, []).append((future, result))
        for loop, pairs in done.items():
            tell(loop, _answer, pairs)


def _answer(pairs: list[tuple[asyncio.Future[R], R | BaseException]]) -> None:
    for future, result in pairs:
        if isinstance(result, BaseException):
            fail(future, result)
        else:
            settle(future, result)
