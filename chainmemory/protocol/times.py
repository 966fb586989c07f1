"""Times of the protocol: UTC, RFC 3339, always six decimals and Z (protocol §1)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final

from chainmemory.errors import Invalid

_INPUT: Final = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-([0-9]{2})"
    r"T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]+))?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_MINUTES_A_DAY: Final = 24 * 60
_SHAPE: Final = "write it as YYYY-MM-DDTHH:MM:SS[.digits]Z or with an offset ±HH:MM"


def parse_time(text: str) -> str:
    """Put an RFC 3339 time in UTC with exactly six decimals; more decimals are cut off, not rounded.

    Raises: Invalid for any other form, a date that doesn't exist, or a year outside 1–9999 in UTC.
    """
    match = _INPUT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise Invalid(f"this is not a time; {_SHAPE}")
    year, month, day, hour, minute = (int(part) for part in match.groups()[:5])
    offset = int(match[9] or 0) * 60 + int(match[10] or 0)
    if match[8] == "-":
        offset = -offset
    # Whole minutes since the day before 0001-01-01, so that an offset can cross the ends of the calendar.
    days, minutes = divmod(
        _ordinal(year, month, day) * _MINUTES_A_DAY + hour * 60 + minute - offset, _MINUTES_A_DAY
    )
    if not 1 <= days <= date.max.toordinal():
        raise Invalid("the time lies outside the years 1 to 9999 in UTC")
    decimals = (match[7] or "")[:6].ljust(6, "0")
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{match[6]}"
    return f"{date.fromordinal(days).isoformat()}T{clock}.{decimals}Z"


def format_time(moment: datetime) -> str:
    """Write an aware datetime as a protocol time; ValueError if it has no time zone."""
    if moment.tzinfo is None:
        raise ValueError("a time needs a time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _ordinal(year: int, month: int, day: int) -> int:
    if (year, month, day) == (0, 12, 31):
        return 0  # the only day of year 0 that an offset can move into year 1
    try:
        return date(year, month, day).toordinal()
    except ValueError as error:
        raise Invalid(f"there is no such day: {error}") from error
