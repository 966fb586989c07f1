"""Walking a ledger: is the chain whole, and which entries can be trusted (protocol §5, "Verdicts").

One pass, in file order. Memory grows with the records, not with the lines: of each record only its latest
entry is kept, once among the trusted and once among the untrusted ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from chainmemory.errors import Invalid
from chainmemory.ledger.entries import Entry, ReadLine
from chainmemory.protocol.ledger_entry import GENESIS_PREV

Reason = Literal["unparseable", "seq", "prev", "hash"]
Latest = dict[str, Entry]
"""Of each record the latest entry."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What the lines of a ledger say, before any record is looked at."""

    chain: Literal["empty", "intact", "broken"]
    entries: int
    """All lines."""
    broken_at: int | None
    """Position (from 1) of the first failure."""
    reason: Reason | None
    head: tuple[int, str] | None
    """Position and hash of the last line that can be read."""
    heads_missing: list[int]
    """Positions of anchored heads that are no entry of this ledger."""
    trusted: Latest = field(repr=False)
    untrusted: Latest = field(repr=False)


def walk(lines: Iterable[bytes], read: ReadLine, heads: Mapping[int, str] | None = None) -> Walk:
    """Walk a ledger's lines (split at LF only, with or without it; an unterminated last one counts).

    `read`: read_file_line or read_server_line. `heads`: the anchored heads, position → entry hash (64 hex
    digits), as read from the contract; None or empty where none is known.
    """
    anchored = dict(heads or {})
    chain, trust = _Chain(), (_ByHeads(anchored) if anchored else _ByBreak())
    for position, line in enumerate(lines, 1):
        try:
            entry = read(line)
        except Invalid:
            entry = None
        chain.step(position, entry)
        trust.step(position, entry, chain)
        if entry is not None and anchored.get(position) == entry.computed:
            del anchored[position]
    trusted, untrusted = trust.finish(chain)
    return Walk(
        chain=("broken" if chain.broken_at else "intact") if chain.entries else "empty",
        entries=chain.entries,
        broken_at=chain.broken_at,
        reason=chain.reason,
        head=chain.head,
        heads_missing=sorted(anchored),
        trusted=trusted,
        untrusted=untrusted,
    )


class _Chain:
    """The state of the chain after each line."""

    def __init__(self) -> None:
        self.entries = 0
        self.broken_at: int | None = None
        self.reason: Reason | None = None
        self.head: tuple[int, str] | None = None
        self._before: str | None = GENESIS_PREV

    def step(self, position: int, entry: Entry | None) -> None:
        self.entries = position
        if self.broken_at is None:
            self.reason = self._failure(position, entry)
            self.broken_at = position if self.reason else None
        if entry is not None:
            self.head = (position, entry.hash)
            self._before = entry.hash

    def _failure(self, position: int, entry: Entry | None) -> Reason | None:
        if entry is None:
            return "unparseable"
        if entry.seq != position:
            return "seq"
        if entry.prev != self._before:
            return "prev"
        return None if entry.hash == entry.computed else "hash"


class _ByBreak:
    """Without known heads: trusted is what precedes the first failure.

    Where that failure's reason is `prev`, the entry just before it isn't: either of the two may be the forged
    one. So each entry waits for the next line.
    """

    def __init__(self) -> None:
        self._before: Latest = {}
        self._after: Latest = {}
        self._waiting: Entry | None = None

    def step(self, position: int, entry: Entry | None, chain: _Chain) -> None:
        if self._waiting is not None:
            doubted = chain.broken_at == position and chain.reason == "prev"
            (self._after if doubted else self._before)[self._waiting.record] = self._waiting
            self._waiting = None
        if entry is None:
            return
        if chain.broken_at is None:
            self._waiting = entry
        else:
            self._after[entry.record] = entry

    def finish(self, chain: _Chain) -> tuple[Latest, Latest]:  # noqa: ARG002 — the same face as _ByHeads
        if self._waiting is not None:
            self._before[self._waiting.record] = self._waiting
        return self._before, self._after


class _ByHeads:
    """With known heads: on a broken chain, trusted is what a found head leads back to, link by link.

    A run is a stretch of lines of which each names the computed hash of the one before. A head found in it
    vouches for the whole run up to there; an intact chain needs no head.
    """

    def __init__(self, heads: Mapping[int, str]) -> None:
        self._heads = dict(heads)
        self._all: Latest = {}
        self._trusted: Latest = {}
        self._untrusted: Latest = {}
        self._run: Latest = {}
        self._tail: str | None = None

    def step(self, position: int, entry: Entry | None, chain: _Chain) -> None:
        if entry is None or entry.prev != self._tail:
            self._untrusted |= self._run
            self._run = {}
        self._tail = entry.computed if entry is not None else None
        if entry is None:
            return
        if chain.broken_at is None:
            self._all[entry.record] = entry
        self._run[entry.record] = entry
        if self._heads.get(position) == entry.computed:
            self._trusted |= self._run
            self._run = {}

    def finish(self, chain: _Chain) -> tuple[Latest, Latest]:
        if chain.broken_at is None:
            return self._all, {}
        return self._trusted, self._untrusted | self._run
