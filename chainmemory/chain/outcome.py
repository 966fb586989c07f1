"""What a contract did with one element of a batch: the codes of `Outcome.sol`, as a receipt tells them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from chainmemory.chain.types import Log


class Outcome(IntEnum):
    """The contracts' own codes (part of their ABI)."""

    WRITTEN = 0
    ALREADY_THERE = 1
    CONFLICT = 2
    GAP = 3
    BEHIND = 4
    ZERO_HASH = 5
    ZERO_NUMBER = 6


@dataclass(frozen=True, slots=True)
class ElementResult:
    """What became of one element, and the event that says so."""

    outcome: Outcome
    log: Log
    anchor_id: str | None = None
    """For a written element: the chain's id of it (states: the anchor's id; memories: see registry.py)."""
    held: str | None = None
    """For a refused element: the hash the contract holds in its place (hex32), where it says."""
