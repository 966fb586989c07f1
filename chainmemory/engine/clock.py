"""The system's time, as the protocol writes it. The pure core and the store are given times; only here are
they read."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


def now() -> str:
    """Return the current time (protocol §1)."""
    return _write(datetime.now(UTC))


def ago(seconds: float) -> str:
    """Return the time that was `seconds` ago."""
    return _write(datetime.now(UTC) - timedelta(seconds=seconds))


def unix_now() -> float:
    """Return the current time in Unix seconds, to the microsecond, as file tenants' ledgers have it."""
    return round(time.time(), 6)


def unix_seconds(moment: str) -> int:
    """Return a protocol time as whole Unix seconds (negative before 1970)."""
    return (datetime.fromisoformat(moment) - _EPOCH) // timedelta(seconds=1)


def from_unix(seconds: int) -> str:
    """Return the protocol time of whole Unix seconds."""
    return _write(_EPOCH + timedelta(seconds=seconds))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _write(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")[:26] + "Z"
