"""A share of the outbox: several workers, each with a signer of its own, divide the work by what it is about.

A project's versions are all in one part, and so are an account's memories and ledger heads: what must keep an
order is one signer's, whose nonces keep it. Ids are hashes or random, so ranges of them are even shares.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, or_, true

from chainmemory.store.tables import outbox

_RANGE = 16**8


@dataclass(frozen=True)
class Part:
    """The `index`-th (from 1) of `count` parts."""

    index: int = 1
    count: int = 1

    @classmethod
    def of(cls, name: str) -> Part:
        """Read a part's name, as "2/3"."""
        index, count = name.split("/")
        return cls(int(index), int(count))

    @property
    def name(self) -> str:
        return f"{self.index}/{self.count}"

    def overlaps(self, other: Part) -> bool:
        """Say whether some subject is in both."""
        (low, high), (other_low, other_high) = self._bounds, other._bounds
        return low < other_high and other_low < high

    def holds(self, subject: str) -> bool:
        """Say whether an account's or a project's rows are in this part."""
        low, high = self._bounds
        return low <= int(subject.removeprefix("0x")[:8], 16) < high

    def condition(self, subject: ColumnElement[str] = outbox.c.subject) -> ColumnElement[bool]:
        """Return the SQL condition that a subject is in this part; account ids are bare hex, projects' 0x."""
        if self.count == 1:
            return true()
        low, high = self._bounds
        ranges = []
        for prefix in ("", "0x"):
            # "g" comes after every id; "0x…" itself lies between "0" and "1", so it is kept apart.
            end = f"{prefix}{high:08x}" if high < _RANGE else f"{prefix}g"
            kept_apart = subject.like("0x%") if prefix else subject.not_like("0x%")
            ranges.append(and_(kept_apart, subject >= f"{prefix}{low:08x}", subject < end))
        return or_(*ranges)

    @property
    def _bounds(self) -> tuple[int, int]:
        share = _RANGE / self.count
        low = round((self.index - 1) * share)
        return low, _RANGE if self.index == self.count else round(self.index * share)


WHOLE = Part()
