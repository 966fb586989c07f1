"""What an owner knowingly accepts after a restore: breaks of the chain, and anchored heads that are lost.

An entry with op `adopt` holds it under the key `accepts` (protocol §5):
`{"breaks": [{"at", "reason"}], "heads": [{"seq", "hash"}], "reason"}`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from chainmemory.errors import Invalid

BREAK_REASONS: Final = ("unparseable", "seq", "prev", "hash")
MOST: Final = 1_000
"""Breaks, and lost heads, that one entry can name."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Accepts(NamedTuple):
    """What one entry accepts, and why."""

    breaks: frozenset[tuple[int, str]]
    """Position (from 1) and reason of each break."""
    heads: frozenset[tuple[int, str]]
    """Position and hash (64 hex digits) of each lost head."""
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return it as an entry holds it."""
        return {
            "breaks": [{"at": at, "reason": reason} for at, reason in sorted(self.breaks)],
            "heads": [{"seq": seq, "hash": digest} for seq, digest in sorted(self.heads)],
            "reason": self.reason,
        }


def read_accepts(value: Any) -> Accepts:
    """Read what an entry accepts. Raises Invalid."""
    if not isinstance(value, dict) or value.keys() != {"breaks", "heads", "reason"}:
        raise Invalid("accepts must be an object with breaks, heads and reason", field="accepts")
    if not isinstance(value["reason"], str):
        raise Invalid("accepts.reason must be a string", field="accepts.reason")
    breaks = [
        (_position(one, "at"), reason)
        for one in _objects(value["breaks"], "breaks", {"at", "reason"})
        if (reason := one["reason"]) in BREAK_REASONS
    ]
    heads = [
        (_position(one, "seq"), digest)
        for one in _objects(value["heads"], "heads", {"seq", "hash"})
        if isinstance(digest := one["hash"], str) and _SHA256.fullmatch(digest)
    ]
    if len(breaks) != len(value["breaks"]) or len(heads) != len(value["heads"]):
        raise Invalid("accepts names a break or a head that can't be one", field="accepts")
    return Accepts(frozenset(breaks), frozenset(heads), value["reason"])


def _objects(value: Any, key: str, keys: set[str]) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > MOST:
        raise Invalid(f"accepts.{key} must be a list of at most {MOST}", field=f"accepts.{key}")
    if not all(isinstance(one, dict) and one.keys() == keys for one in value):
        raise Invalid(
            f"accepts.{key} must hold objects with {', '.join(sorted(keys))}", field=f"accepts.{key}"
        )
    return value


def _position(one: dict[str, Any], key: str) -> int:
    if type(one[key]) is not int or one[key] < 1:
        raise Invalid(f"{key} must be an integer from 1", field="accepts")
    return int(one[key])
