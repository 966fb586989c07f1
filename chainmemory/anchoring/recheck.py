"""Does the chain still hold the blocks our anchors are in? If not, they are on their way again (rule 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from chainmemory.anchoring.post import Post
from chainmemory.anchoring.station import Station
from chainmemory.chain.types import Block
from chainmemory.logging import log
from chainmemory.store.leases import Lease
from chainmemory.store.outbox_rows import OutboxRow
from chainmemory.store.worker import KnownBlock

_ABOVE_ALL = 2**62
# Recorded heights that must match in a row after a start; no chain worth anchoring on reorganises more.
_DEEP = 32


class Recheck:
    """Compares recorded block hashes with the chain's.

    A block's hash vouches for everything below it, so of what was compared once, the highest recorded block
    is enough as long as it matches; where it doesn't, the ones below are looked at, down to the first that
    does. What was recorded since the last look is compared block by block: it may stem from before a
    reorganisation that happened meanwhile. After a start, when nobody knows what was compared, some more are
    looked at.
    """

    def __init__(self, station: Station, post: Post, notice: Callable[[str], None]) -> None:
        """Take a station, and what is told of confirmed anchors that the chain doesn't hold any more."""
        self._notice = notice
        self._station = station
        self._post = post
        self._seen: str | None = None
        self._recorded: set[tuple[int, str]] = set()

    def note(self, blocks: Iterable[tuple[int, str]]) -> None:
        """Remember that something was recorded at these blocks (number, hash), to be compared once."""
        self._recorded.update(blocks)

    def run(self, lease: Lease, head: Block) -> int:
        """Look again if the head moved; return how many transactions were taken back to `sent`."""
        if head.hash == self._seen and not self._recorded:
            return 0
        reopened = 0
        good = self._last_good(deep=self._seen is None)
        if good is not None:
            reopened = self._take_back(lease, good, head)
        self._seen = head.hash
        self._recorded.clear()
        return reopened

    def _last_good(self, *, deep: bool) -> int | None:
        """Return the height up to which what is recorded holds; None where all of it does."""
        stale = [number for number, block_hash in self._recorded if not self._is(number, {block_hash})]
        number = min(stale, default=_ABOVE_ALL)
        matches, wanted = 0, _DEEP if deep else 1
        while matches < wanted and (known := self._known_below(number)) is not None:
            number = known.number
            if self._is(number, known.hashes):
                matches += 1
            else:
                stale.append(number)
                matches = 0
        return min(stale) - 1 if stale else None

    def _take_back(self, lease: Lease, good: int, head: Block) -> int:
        """Reopen what is recorded above the last good block; rows that others anchored wait again."""
        station = self._station
        now = station.clock.now()
        with station.db.write() as tx:
            hashes = tx.worker.transactions_above(station.chain_id, station.signer.address, good)
            for tx_hash in hashes:
                tx.worker.reopen(lease, tx_hash, now=now)
            rows = tx.outbox.anchored_from_block(good + 1, part=station.options.part)
            # Some may be open again already: a nonce below a transaction of ours was found free.
            ours = {row.tx_hash for row in station.open_transactions(tx)}
            tx.outbox.mark_unconfirmed(lease, [row.id for row in rows if row.tx_hash in ours])
            tx.outbox.mark_pending(lease, [row.id for row in rows if row.tx_hash not in ours], now=now)
        for tx_hash in hashes:
            self._post.forget_push(tx_hash)
        if rows:
            self._say_so(rows, good, head)
        station.step("taken back")
        return len(hashes)

    def _say_so(self, rows: Sequence[OutboxRow], good: int, head: Block) -> None:
        """Say loudly that confirmed anchors are gone: who noted their blocks must know."""
        highest = max(row.block_number or 0 for row in rows)
        how = (
            f"its newest block was {head.number}, so it was restored from an older copy"
            if head.number < highest
            else f"it was restored from an older copy, or reorganised deeper than the "
            f"{self._station.options.confirmations} confirmations that were waited for"
        )
        words = (
            f"The chain went back: {len(rows)} confirmed anchor{'s' if len(rows) != 1 else ''} in blocks "
            f"{good + 1} to {highest} are gone from it; {how}. They are anchored again, in other blocks."
        )
        log.error(words, action="worker.chain_went_back", rows=len(rows), good=good, highest=highest)
        self._notice(words)

    def _known_below(self, number: int) -> KnownBlock | None:
        with self._station.db.read() as tx:
            return tx.worker.block_below(
                self._station.chain_id,
                self._station.signer.address,
                number,
                part=self._station.options.part,
            )

    def _is(self, number: int, hashes: Iterable[str]) -> bool:
        block = self._station.gateway.block(number)
        return block is not None and set(hashes) == {block.hash}
