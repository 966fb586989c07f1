"""Does the chain still hold the blocks our anchors are in? If not, they are on their way again (rule 4)."""

from __future__ import annotations

from chainmemory.anchoring.post import Post
from chainmemory.anchoring.station import Station
from chainmemory.chain.types import Block
from chainmemory.store.leases import Lease
from chainmemory.store.worker import KnownBlock

_ABOVE_ALL = 2**62


class Recheck:
    """Compares recorded block hashes with the chain's.

    A block's hash vouches for everything below it, so the highest recorded block is enough as long as it
    matches; only where it doesn't, the ones below are looked at, down to the first that does.
    """

    def __init__(self, station: Station, post: Post) -> None:
        self._station = station
        self._post = post
        self._seen: str | None = None

    def run(self, lease: Lease, head: Block) -> int:
        """Look again if the head moved; return how many transactions were taken back to `sent`."""
        if head.hash == self._seen:
            return 0
        reopened = 0
        highest = self._known_below(_ABOVE_ALL)
        if highest is not None and not self._holds(highest):
            reopened = self._take_back(lease, self._last_good_below(highest.number))
        self._seen = head.hash
        return reopened

    def _last_good_below(self, number: int) -> int:
        while (known := self._known_below(number)) is not None:
            if self._holds(known):
                return known.number
            number = known.number
        return -1

    def _take_back(self, lease: Lease, good: int) -> int:
        """Reopen what is recorded above the last good block; rows that others anchored wait again."""
        station = self._station
        now = station.clock.now()
        with station.db.write() as tx:
            hashes = tx.worker.transactions_above(station.chain_id, station.signer.address, good)
            for tx_hash in hashes:
                tx.worker.reopen(lease, tx_hash, now=now)
            rows = tx.outbox.anchored_from_block(good + 1)
            ours = set(hashes)
            tx.outbox.mark_unconfirmed(lease, [row.id for row in rows if row.tx_hash in ours])
            tx.outbox.mark_pending(lease, [row.id for row in rows if row.tx_hash not in ours], now=now)
        for tx_hash in hashes:
            self._post.forget_push(tx_hash)
        station.step("taken back")
        return len(hashes)

    def _known_below(self, number: int) -> KnownBlock | None:
        with self._station.db.read() as tx:
            return tx.worker.block_below(self._station.chain_id, self._station.signer.address, number)

    def _holds(self, known: KnownBlock) -> bool:
        block = self._station.gateway.block(known.number)
        return block is not None and known.hashes == {block.hash}
