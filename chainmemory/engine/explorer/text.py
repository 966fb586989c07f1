"""What a chain holds is written by anybody: make it safe to read before it meets a template."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Final

MAX_TEXT: Final = 500
"""Characters shown of a text."""
_HIDDEN: Final = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
"""Unicode categories that show nothing, or reorder what stands beside them (U+202E and its like)."""
_UNITS: Final = ((86_400 * 365, "year"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def readable(text: str) -> str:
    """Return a stranger's text with everything unseen spelled out as an escape, cut at 500 characters."""
    shown = "".join(_visible(character) for character in text[:MAX_TEXT])
    return shown if len(text) <= MAX_TEXT else shown + "…"


def vanity_text(raw: bytes) -> str | None:
    """Return extra data as text where it plainly is text; None where it isn't."""
    stripped = raw.rstrip(b"\0")
    if not stripped or any(not 0x20 <= byte < 0x7F for byte in stripped):
        return None
    return stripped.decode("ascii")[:MAX_TEXT]


def moment(timestamp: int) -> str | None:
    """Return Unix seconds as `2026-11-30 20:31:05 UTC`; None where no calendar has such a day."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return None


def age(seconds: float) -> str:
    """Return how long ago something was, in the largest unit that it fills: `3 minutes ago`."""
    if seconds < 0:
        return "in the future by this server's clock"
    if seconds < 1:
        return "just now"
    unit_s, unit = next(pair for pair in _UNITS if seconds >= pair[0])
    count = int(seconds // unit_s)
    return f"{count:,} {unit}{'' if count == 1 else 's'} ago"


def coins(wei: int) -> str:
    """Return an amount of the chain's own coin in ether (10^18 wei), exactly, without trailing zeros."""
    return f"{_decimal(wei, 18)} ether"


def gwei(wei: int) -> str:
    """Return a gas price in gwei, exactly."""
    return f"{_decimal(wei, 9)} gwei"


def _decimal(amount: int, digits: int) -> str:
    sign, whole = "-" if amount < 0 else "", abs(amount) // 10**digits
    rest = f"{abs(amount) % 10**digits:0{digits}d}".rstrip("0")
    return f"{sign}{whole:,}.{rest}" if rest else f"{sign}{whole:,}"


def _visible(character: str) -> str:
    if character not in "\n\t" and unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
