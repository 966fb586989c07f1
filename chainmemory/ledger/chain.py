"""The hash chain over a ledger's lines: where it breaks, and which anchored heads are in it (protocol §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from chainmemory.errors import Invalid
from chainmemory.ledger.accepts import MOST, Accepts
from chainmemory.ledger.entries import Entry, LineReader, ReadLine
from chainmemory.ledger.quick import Form, Page, form_of
from chainmemory.protocol.ledger_entry import GENESIS_PREV

Reason = Literal["unparseable", "seq", "prev", "hash"]

LEAST: Final = 8
"""Lines of a page that isn't ordinary as a whole are tried in halves, down to so few."""


class Break(NamedTuple):
    """One place where the chain is broken; `at` is the line's position, from 1."""

    at: int
    reason: Reason


class Ordinary(NamedTuple):
    """A page of lines without fault: what they seal, packed (`chainmemory.ledger.entries.Seal`)."""

    page: Page
    records: Sequence[str]
    seals: Sequence[str]


class Single(NamedTuple):
    """One line read by itself; `entry` is None where it can't be read, `broken` where it breaks the chain."""

    entry: Entry | None
    broken: Reason | None


class Chain:
    """The state of the chain after the lines taken so far. Of constant size, whatever the number of lines.

    The first break is as the protocol defines it. Behind a break the chain is followed as if that line were
    right (the next `seq` is one more than its), so that one dropped line is one break, not one for each line
    after it: what an owner accepts can then be named.
    """

    def __init__(self, read: ReadLine, heads: Mapping[int, str]) -> None:
        """Follow lines that `read` reads; `heads` are the anchored heads, position → entry hash."""
        self.entries = 0
        self.breaks: list[Break] = []
        """The first 1,001 breaks."""
        self.head: tuple[int, str] | None = None
        """Position and hash of the last line that can be read."""
        self.next_seq = 1
        """The `seq` that the next entry must have, and `before` the hash it must name."""
        self.before: str = GENESIS_PREV
        self.accepts: list[tuple[int, Accepts]] = []
        """What entries accept, each with the entry's position."""
        self.heads = dict(heads)
        self.heads_found: set[int] = set()
        self.heads_found_by_seq: set[int] = set()
        """Heads that are entries here by their `seq`: behind an accepted break it isn't their position."""
        self._read = read
        self._form: Form | None = None

    @property
    def heads_missing(self) -> list[int]:
        """Positions of anchored heads that are no entry of this ledger."""
        return sorted(self.heads.keys() - self.heads_found)

    @property
    def accepted(self) -> bool:
        """Whether everything that is wrong with the chain was accepted by a later entry of it, which makes it
        `repaired`; false where nothing was ever accepted."""
        if not self.accepts or len(self.breaks) > MOST:
            return False
        return all(map(self.is_accepted, self.breaks)) and not self.heads_lost

    def is_accepted(self, one: Break) -> bool:
        """Say whether a later entry accepts a break."""
        return any(one in accepts.breaks and position > one.at for position, accepts in self.accepts)

    @property
    def heads_lost(self) -> list[tuple[int, str]]:
        """Position and hash of the anchored heads that are no entry here, by position or `seq`, and weren't
        accepted as lost."""
        lost = sorted(self.heads.keys() - self.heads_found - self.heads_found_by_seq)
        return [
            (seq, self.heads[seq])
            for seq in lost
            if not any((seq, self.heads[seq]) in accepts.heads for _, accepts in self.accepts)
        ]

    def start(self, seq: int, before: str) -> None:
        """Begin in the middle: with the entry `seq`, after one with the hash `before`."""
        self.entries, self.next_seq, self.before = seq - 1, seq, before

    def join(
        self, first_seq: int, first_prev: str, last_hash: str, count: int, hashes: Mapping[int, str]
    ) -> bool:
        """Go on behind lines that were read elsewhere and found without fault, if they follow here.

        `hashes`: theirs at those positions where heads are anchored.
        """
        if self.breaks or (first_seq, first_prev) != (self.next_seq, self.before):
            return False
        self.entries += count
        self.next_seq += count
        self.before = last_hash
        self.head = (self.entries, last_hash)
        for position, digest in hashes.items():
            self._look_for_head(position, position, digest)
        return True

    def take(self, lines: Sequence[bytes]) -> Iterator[Ordinary | Single]:
        """Follow the next lines (split at LF only, with or without it) and say what they are, in order.

        The state is that after what was said last, so look at it between two of them.
        """
        if not lines:
            return
        ordinary = self._ordinary(lines) if not self.breaks else None
        if ordinary is not None:
            yield ordinary
        elif len(lines) <= LEAST or self.breaks:
            for line in lines:
                yield self._single(line)
        else:
            middle = len(lines) // 2
            yield from self.take(lines[:middle])
            yield from self.take(lines[middle:])

    def _ordinary(self, lines: Sequence[bytes]) -> Ordinary | None:
        read = self._read
        if not isinstance(read, LineReader):
            return None
        page = self._form.read(lines, self.next_seq, self.before) if self._form is not None else None
        if page is None:
            try:
                read(lines[0])
                form = form_of(lines[0])
            except Invalid:
                return None
            if form is None or form == self._form:
                return None
            self._form = form
            page = form.read(lines, self.next_seq, self.before)
        sealed = read.sealed_by(page) if page is not None else None
        if page is None or sealed is None:
            return None
        first = self.entries + 1
        self.entries += len(lines)
        self.next_seq += len(lines)
        self.before = page.hashes[-1]
        self.head = (self.entries, self.before)
        for position in self.heads.keys() if len(self.heads) < len(lines) else range(first, self.entries + 1):
            if first <= position <= self.entries:
                self._look_for_head(position, position, page.hashes[position - first])
        return Ordinary(page, *sealed)

    def _single(self, line: bytes) -> Single:
        self.entries += 1
        try:
            entry = self._read(line)
        except Invalid:
            self._note("unparseable")
            self.next_seq += 1
            return Single(None, "unparseable")
        reason = self._failure(entry)
        if reason is not None:
            self._note(reason)
        self._look_for_head(self.entries, entry.seq, entry.computed)
        if entry.accepts is not None and reason is None:
            self.accepts.append((self.entries, entry.accepts))
        self.head = (self.entries, entry.hash)
        self.before = entry.hash
        self.next_seq = entry.seq + 1
        return Single(entry, reason)

    def _failure(self, entry: Entry) -> Reason | None:
        if entry.seq != self.next_seq:
            return "seq"
        if entry.prev != self.before:
            return "prev"
        return None if entry.hash == entry.computed else "hash"

    def _note(self, reason: Reason) -> None:
        if len(self.breaks) <= MOST:
            self.breaks.append(Break(self.entries, reason))

    def _look_for_head(self, position: int, seq: int, computed: str) -> None:
        if self.heads.get(position) == computed:
            self.heads_found.add(position)
        if self.heads.get(seq) == computed:
            self.heads_found_by_seq.add(seq)
