"""Bodies and rates: what one request, and one address, may take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from api.limits import MAX_ADDRESSES, ClientGone, RateLimiter, read_body
from chainmemory.errors import RateLimited, TooLarge


def _read(chunks: Sequence[bytes], declared: bytes | None, limit: int = 10) -> tuple[bytes, int]:
    """Read a body that arrives in chunks; return it, and how many chunks were taken."""
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        if taken > len(chunks):
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunks[taken - 1], "more_body": taken < len(chunks)}

    return asyncio.run(read_body(receive, declared, limit)), taken


@pytest.mark.parametrize("chunks", [[b""], [b"0123456789"], [b"01234", b"", b"56789"], [b"", b"x"]])
def test_a_body_within_the_limit_is_read_whole(chunks: list[bytes]) -> None:
    assert _read(chunks, None)[0] == b"".join(chunks)


@pytest.mark.parametrize("chunks", [[b"0123456789A"], [b"01234", b"56789", b"A"], [b"0" * 11, b"never"]])
def test_a_body_over_the_limit_is_refused_however_it_comes(chunks: list[bytes]) -> None:
    for declared in (None, b"3", b"nonsense"):
        with pytest.raises(TooLarge) as refused:
            _read(chunks, declared)
        assert refused.value.details == {"limit_bytes": 10}


@pytest.mark.parametrize("declared", [b"11", b"1" * 5_000])
def test_a_declared_length_over_the_limit_is_refused_before_anything_is_read(declared: bytes) -> None:
    with pytest.raises(TooLarge):
        _read([], declared)


def test_a_client_that_hangs_up_is_no_error_to_answer() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone):
        asyncio.run(read_body(receive, None, 10))


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_address_may_burst_and_then_goes_at_the_rate() -> None:
    clock = _Clock()
    limiter = RateLimiter(per_minute=60, burst=3, clock=clock)
    for _ in range(3):
        limiter.take("192.0.2.1")
    with pytest.raises(RateLimited) as refused:
        limiter.take("192.0.2.1")
    assert refused.value.details == {"retry_after": 1}
    clock.now = 1.0
    limiter.take("192.0.2.1")
    with pytest.raises(RateLimited):
        limiter.take("192.0.2.1")
    limiter.take("192.0.2.2")


def test_a_long_wait_is_said_in_whole_seconds() -> None:
    clock = _Clock()
    limiter = RateLimiter(per_minute=1, burst=1, clock=clock)
    limiter.take("192.0.2.1")
    clock.now = 0.5
    with pytest.raises(RateLimited) as refused:
        limiter.take("192.0.2.1")
    assert refused.value.details == {"retry_after": 60}


def test_an_ipv6_host_can_not_change_its_address_within_its_network() -> None:
    limiter = RateLimiter(per_minute=1, burst=1, clock=_Clock())
    limiter.take("2001:db8:0:1::1")
    with pytest.raises(RateLimited):
        limiter.take("2001:db8:0:1:ffff::2%eth0")
    limiter.take("2001:db8:0:2::1")
    limiter.take("not:an:address")


def test_only_so_many_addresses_are_remembered() -> None:
    limiter = RateLimiter(per_minute=1, burst=1, clock=_Clock())
    for number in range(MAX_ADDRESSES + 1):
        limiter.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    limiter.take("10.0.0.0")
    with pytest.raises(RateLimited):
        limiter.take("10.0.39.16")
