"""The second half of a long ledger, read by another process while this one reads the first.

What is read is only that the half is a whole chain in itself, from which entry it goes on, and what it seals;
whether it joins the first half is seen when both are there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from chainmemory.errors import Invalid
from chainmemory.ledger.chain import Chain, Ordinary
from chainmemory.ledger.entries import LineReader, pack
from chainmemory.ledger.quick import PAGE


class Stretch(NamedTuple):
    """Lines without fault that follow each other."""

    first_seq: int
    first_prev: str
    last_hash: str
    hashes: dict[int, str]
    """Entry hashes at those positions that were asked for."""
    records: Sequence[str]
    seals: Sequence[str]
    """What each line seals, packed."""


class Ahead(Protocol):
    """The rest of a ledger, which is being read elsewhere."""

    def stretch(self) -> Stretch | None:
        """Return it, or None where it has to be read here."""

    def lines(self) -> Iterable[bytes]:
        """Yield its lines."""


def read_stretch(lines: Iterable[bytes], read: LineReader, positions: Collection[int]) -> Stretch | None:
    """Read lines as a stretch; None where anything in them is out of the ordinary.

    `positions`: whose hashes are wanted.
    """
    left = iter(lines)
    page = list(islice(left, PAGE))
    try:
        first = read(page[0])
    except (IndexError, Invalid):
        return None
    chain = Chain(read, dict.fromkeys(positions, ""))
    chain.start(first.seq, first.prev)
    records: list[str] = []
    seals: list[str] = []
    hashes: dict[int, str] = {}
    while page:
        for taken in chain.take(page):
            if isinstance(taken, Ordinary):
                records += taken.records
                seals += taken.seals
                at = chain.entries - len(taken.records) + 1
                hashes |= (
                    {one: taken.page.hashes[one - at] for one in positions if at <= one <= chain.entries}
                    if positions
                    else {}
                )
                continue
            entry = taken.entry
            if entry is None or entry.record is None or taken.broken or entry.accepts is not None:
                return None
            seal = pack(entry)
            if not isinstance(seal, str):
                return None
            records.append(entry.record)
            seals.append(seal)
            if chain.entries in positions:
                hashes[chain.entries] = entry.computed
        page = list(islice(left, PAGE))
    return Stretch(first.seq, first.prev, chain.before, hashes, records, seals)


def encode(stretch: Stretch | None) -> Iterator[bytes]:
    """Write a stretch for a pipe: a line of JSON, then records and seals, each one to a line."""
    if stretch is None or any("\n" in record for record in stretch.records):
        yield b"null\n"
        return
    head = [stretch.first_seq, stretch.first_prev, stretch.last_hash, stretch.hashes, len(stretch.records)]
    yield json.dumps(head).encode() + b"\n"
    yield "\n".join([*stretch.records, *stretch.seals]).encode()


def decode(data: bytes) -> Stretch | None:
    """Read what `encode` wrote; None of a process that broke off, or found no stretch."""
    head, _, rest = data.partition(b"\n")
    try:
        found = json.loads(head)
    except json.JSONDecodeError:
        return None
    if found is None:
        return None
    first_seq, first_prev, last_hash, hashes, count = found
    lines = rest.decode().split("\n")
    if len(lines) != 2 * count:
        return None
    by_position = {int(position): digest for position, digest in hashes.items()}
    return Stretch(first_seq, first_prev, last_hash, by_position, lines[:count], lines[count:])
