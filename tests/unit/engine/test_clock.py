"""Times as the protocol writes them."""

from __future__ import annotations

import pytest

from chainmemory.engine import clock
from chainmemory.protocol.times import parse_time


def test_now_is_in_protocol_form_and_moves_on() -> None:
    first, second = clock.now(), clock.now()
    assert parse_time(first) == first
    assert first <= second
    assert clock.ago(60) < first


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("1970-01-01T00:00:00.000000Z", 0),
        ("1970-01-01T00:00:01.999999Z", 1),
        ("1969-12-31T23:59:59.500000Z", -1),
        ("2026-09-13T22:02:35.000000Z", 1789336955),
        ("0001-01-01T00:00:00.000000Z", -62135596800),
        ("9999-12-31T23:59:59.999999Z", 253402300799),
    ],
)
def test_unix_seconds_are_whole_and_rounded_down(time: str, seconds: int) -> None:
    assert clock.unix_seconds(time) == seconds
    assert clock.from_unix(seconds)[:19] == time[:19] or seconds == -1
