"""The gatherer: what waits is done together, each gets its own result, and nobody is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from api.gatherer import MOST_AT_ONCE, Gatherer


def test_what_waits_while_it_works_is_done_together() -> None:
    batches: list[list[int]] = []
    go = threading.Event()

    def work(jobs: Sequence[int]) -> list[int | Exception]:
        batches.append(list(jobs))
        go.wait(10)
        return [job * 10 if job % 7 else ValueError(str(job)) for job in jobs]

    async def main() -> None:
        gatherer: Gatherer[int, int] = Gatherer("test", work)
        gatherer.start()
        first = asyncio.ensure_future(gatherer.run(1))
        while not batches:
            await asyncio.sleep(0.001)
        rest = [asyncio.ensure_future(gatherer.run(job)) for job in range(2, 100)]
        await asyncio.sleep(0.01)
        rest[3].cancel()
        go.set()
        results = await asyncio.gather(first, *rest, return_exceptions=True)
        await asyncio.to_thread(gatherer.close)
        for job, result in enumerate(results, start=1):
            if job == 5:
                assert isinstance(result, asyncio.CancelledError)
            elif job % 7:
                assert result == job * 10
            else:
                assert isinstance(result, ValueError)

    asyncio.run(main())
    assert batches[0] == [1]
    assert [len(batch) for batch in batches] == [1, MOST_AT_ONCE, 98 - MOST_AT_ONCE]
    assert [job for batch in batches for job in batch] == list(range(1, 100))


def test_a_work_that_fails_fails_for_all_and_the_next_goes_on() -> None:
    def work(jobs: Sequence[int]) -> list[int | Exception]:
        if 1 in jobs:
            raise KeyError("everything")
        return list(jobs)

    async def main() -> None:
        gatherer: Gatherer[int, int] = Gatherer("test", work)
        gatherer.start()
        with pytest.raises(KeyError):
            await gatherer.run(1)
        assert await gatherer.run(2) == 2
        await asyncio.to_thread(gatherer.close)

    asyncio.run(main())


def test_closing_finishes_what_was_asked_for() -> None:
    async def main() -> list[int]:
        gatherer: Gatherer[int, int] = Gatherer("test", lambda jobs: list(jobs))
        asked = [asyncio.ensure_future(gatherer.run(job)) for job in range(200)]
        await asyncio.sleep(0)
        gatherer.start()
        await asyncio.to_thread(gatherer.close)
        return await asyncio.gather(*asked)

    assert asyncio.run(main()) == list(range(200))
