"""Walking a ledger: is the chain whole, and which entries can be trusted (protocol §5, "Verdicts").

One pass, in file order. Memory grows with the records, not with the lines: of each record only its latest
entry is kept, packed, once among the trusted and once among the untrusted ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from chainmemory.ledger.chain import Chain, Ordinary, Reason, Single
from chainmemory.ledger.entries import ReadLine, Seal, pack
from chainmemory.ledger.quick import PAGE
from chainmemory.ledger.stretch import Ahead, Stretch

Latest = dict[str, Seal]
"""Of each record what its latest entry says."""

Status = Literal["empty", "intact", "broken", "repaired"]


@dataclass(frozen=True, slots=True)
class Walk:
    """What the lines of a ledger say, before any record is looked at."""

    chain: Status
    """`repaired`: all that is wrong was knowingly accepted by a later entry (op `adopt` with `accepts`)."""
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


def walk(
    lines: Iterable[bytes],
    read: ReadLine,
    heads: Mapping[int, str] | None = None,
    *,
    ahead: Ahead | None = None,
) -> Walk:
    """Walk a ledger's lines (split at LF only, with or without it; an unterminated last one counts).

    `read`: read_file_line or read_server_line. `heads`: the anchored heads, position → entry hash (64 hex
    digits), as read from the contract; None or empty where none is known. `ahead`: the lines after these,
    where another process reads them.
    """
    walker = _Walker(read, heads or {})
    walker.take(lines)
    if ahead is not None and not walker.join(ahead.stretch()):
        walker.take(ahead.lines())
    return walker.finish()


class _Walker:
    """A walk under way."""

    def __init__(self, read: ReadLine, heads: Mapping[int, str]) -> None:
        self._chain = Chain(read, heads)
        self._trust = _ByHeads() if heads else _ByBreak()
        self._everything: Latest | None = None
        """Behind a break: of each record the latest entry, trusted or not."""

    def take(self, lines: Iterable[bytes]) -> None:
        """Walk on."""
        chain, trust = self._chain, self._trust
        for page in _pages(lines):
            for taken in chain.take(page):
                if isinstance(taken, Ordinary):
                    trust.add(taken.records, taken.seals, chain)
                    continue
                if chain.breaks and self._everything is None:
                    self._everything = trust.all()
                trust.step(taken, chain)
                if self._everything is not None and taken.broken != "hash":
                    _keep(self._everything, taken)

    def join(self, stretch: Stretch | None) -> bool:
        """Walk on over lines that were read elsewhere, if they follow here."""
        if stretch is None:
            return False
        joined = self._chain.join(
            stretch.first_seq, stretch.first_prev, stretch.last_hash, len(stretch.records), stretch.hashes
        )
        if joined:
            self._trust.add(stretch.records, stretch.seals, self._chain)
        return joined

    def finish(self) -> Walk:
        """Say what the walk found."""
        chain = self._chain
        trusted, untrusted = self._trust.finish(chain)
        status = status_of(chain)
        if status == "repaired" and self._everything is not None:
            trusted, untrusted = self._everything, {}
        return Walk(
            chain=status,
            entries=chain.entries,
            broken_at=chain.breaks[0].at if chain.breaks else None,
            reason=chain.breaks[0].reason if chain.breaks else None,
            head=chain.head,
            heads_missing=chain.heads_missing,
            trusted=trusted,
            untrusted=untrusted,
        )


def status_of(chain: Chain) -> Status:
    """Say in one word how a chain is after its last line."""
    if not chain.entries:
        return "empty"
    if chain.accepted:
        return "repaired"
    return "broken" if chain.breaks else "intact"


def _pages(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    left = iter(lines)
    while page := list(islice(left, PAGE)):
        yield page


def _keep(latest: Latest, taken: Single) -> None:
    if taken.entry is not None and taken.entry.record is not None:
        latest[taken.entry.record] = pack(taken.entry)


class _ByBreak:
    """Without known heads: trusted is what precedes the first failure.

    Where that failure's reason is `prev`, the entry just before it isn't: either of the two may be the forged
    one. So each entry waits for the next line.
    """

    def __init__(self) -> None:
        self._before: Latest = {}
        self._after: Latest = {}
        self._waiting: tuple[str, Seal] | None = None

    def add(self, records: Sequence[str], seals: Sequence[str], chain: Chain) -> None:  # noqa: ARG002
        """Take the entries of ordinary lines, which the chain has just taken."""
        self._settle(doubted=False)
        self._before.update(zip(records[:-1], seals[:-1], strict=True))
        self._waiting = (records[-1], seals[-1])

    def step(self, taken: Single, chain: Chain) -> None:
        """Take one line."""
        here = bool(chain.breaks) and chain.breaks[0].at == chain.entries
        self._settle(doubted=here and chain.breaks[0].reason == "prev")
        entry = taken.entry
        if entry is None or entry.record is None:
            return
        if chain.breaks:
            self._after[entry.record] = pack(entry)
        else:
            self._waiting = (entry.record, pack(entry))

    def all(self) -> Latest:
        """Return the latest entries of all lines so far."""
        return self._before | (dict([self._waiting]) if self._waiting is not None else {})

    def finish(self, chain: Chain) -> tuple[Latest, Latest]:  # noqa: ARG002
        """Return the trusted and the untrusted, after the last line."""
        self._settle(doubted=False)
        return self._before, self._after

    def _settle(self, *, doubted: bool) -> None:
        if self._waiting is not None:
            record, seal = self._waiting
            (self._after if doubted else self._before)[record] = seal
            self._waiting = None


class _ByHeads:
    """With known heads: on a broken chain, trusted is what a found head leads back to, link by link.

    A run is a stretch of lines of which each names the computed hash of the one before. A head found in it
    vouches for the whole run up to there; an intact chain needs no head.
    """

    def __init__(self) -> None:
        self._trusted: Latest = {}
        self._untrusted: Latest = {}
        self._run: Latest = {}
        self._tail: str | None = None

    def add(self, records: Sequence[str], seals: Sequence[str], chain: Chain) -> None:
        """Take the entries of ordinary lines, which the chain has just taken."""
        start, last = 0, chain.entries
        first = last - len(records) + 1
        for position in sorted(one for one in chain.heads_found if first <= one <= last):
            end = position - first + 1
            self._run.update(zip(records[start:end], seals[start:end], strict=True))
            self._vouch()
            start = end
        self._run.update(zip(records[start:], seals[start:], strict=True))
        self._tail = chain.head[1] if chain.head is not None else None

    def step(self, taken: Single, chain: Chain) -> None:
        """Take one line."""
        entry = taken.entry
        if chain.breaks and (entry is None or entry.prev != self._tail):
            self._untrusted |= self._run
            self._run = {}
        self._tail = entry.computed if entry is not None else None
        _keep(self._run, taken)
        if chain.entries in chain.heads_found:
            self._vouch()

    def all(self) -> Latest:
        """Return the latest entries of all lines so far, before any break."""
        return self._trusted | self._run

    def finish(self, chain: Chain) -> tuple[Latest, Latest]:
        """Return the trusted and the untrusted, after the last line."""
        if not chain.breaks:
            self._trusted |= self._run
            return self._trusted, {}
        return self._trusted, self._untrusted | self._run

    def _vouch(self) -> None:
        self._trusted |= self._run
        self._run = {}
