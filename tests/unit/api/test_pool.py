"""The thread pool: results and errors come back, requests that gave up don't matter."""

from __future__ import annotations

import asyncio
import threading

import pytest

from api.pool import Pool


def test_results_and_errors_come_back_to_who_waits() -> None:
    async def main() -> None:
        pool = Pool(4)
        pool.start()
        try:
            assert await asyncio.gather(*(pool.run(pow, number, 2) for number in range(50))) == [
                number**2 for number in range(50)
            ]
            with pytest.raises(ZeroDivisionError):
                await pool.run(divmod, 1, 0)
            with pytest.raises(SystemExit):
                await pool.run(_leave)
            assert await pool.run(threading.current_thread) is not threading.current_thread()
        finally:
            pool.close()

    asyncio.run(main())


def test_a_request_that_gave_up_harms_nobody() -> None:
    async def main() -> None:
        pool, go = Pool(1), threading.Event()
        pool.start()
        try:
            waiting = asyncio.ensure_future(pool.run(go.wait, 10))
            await asyncio.sleep(0.01)
            waiting.cancel()
            go.set()
            assert await pool.run(pow, 3, 2) == 9
        finally:
            pool.close()

    asyncio.run(main())


def test_closing_finishes_what_was_asked_for() -> None:
    async def main() -> None:
        pool, done = Pool(2), []
        pool.start()
        asked = [asyncio.ensure_future(pool.run(done.append, number)) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(pool.close)
        await asyncio.gather(*asked)
        assert sorted(done) == list(range(20))

    asyncio.run(main())


def _leave() -> None:
    raise SystemExit
