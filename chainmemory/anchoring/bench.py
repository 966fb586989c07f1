"""One worker's tools for one chain, and the order in which a round takes them up."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from chainmemory.anchoring.catch_up import CatchUp
from chainmemory.anchoring.gather import Gatherer
from chainmemory.anchoring.health import WORKING, Health, Progress
from chainmemory.anchoring.heirs import Heirs
from chainmemory.anchoring.post import Post
from chainmemory.anchoring.recheck import Recheck
from chainmemory.anchoring.reconcile import Reconciler
from chainmemory.anchoring.setup import Setup, check_chain, check_submitter, free_nonces
from chainmemory.anchoring.station import Contracts, Station
from chainmemory.chain.types import Block
from chainmemory.errors import ChainMemoryError, ConfigurationError, Conflict
from chainmemory.store.leases import Lease


class Bench:
    """The tools for one chain, with what they remember between rounds."""

    def __init__(self, station: Station, health: Health) -> None:
        self.station = station
        self._health = health
        self._post = Post(station)
        self._setup = Setup(station, self._post)
        self._recheck = Recheck(station, self._post, health.notice)
        trusted: set[str] = set()
        self._reconciler = Reconciler(station, self._post, self._recheck, trusted, health.notice)
        self._gatherer = Gatherer(station, trusted)
        self._heirs = Heirs(station, health.notice)
        self._catch_up = CatchUp(station.db, station.clock)
        self._heads_at = float("-inf")
        self._submitter_checked = float("-inf")
        self._reconciled = False
        self._chain_checked = station.clock.steady()

    def round(self, lease: Lease) -> Progress:
        """Do one round. Raises what stands in the way, after all that could be followed was."""
        station = self.station
        self._check_chain()
        head = station.gateway.head()
        # A move to other contracts comes before the re-check: it empties what that would look at.
        contracts = self._setup.contracts(lease)
        self._recheck.run(lease, head)
        used = cache(lambda: station.gateway.nonce(station.signer.address))
        sent, late, trouble = 0, 0, None
        if contracts is not None and self._reconciled:
            # What the last block made room for goes out before that block is read, so the chain isn't idle.
            sent, trouble = self._send_due(lease, contracts, head, used)
        self._reconciler.run(lease, contracts, head, used)
        if contracts is not None:
            self._reconciler.settled += self._heirs.run(lease, contracts)
        if contracts is not None and not self._reconciled:
            late, trouble = self._send_due(lease, contracts, head, used)
        self._reconciled = True
        if trouble is not None:
            raise trouble
        self._health.saw(station.chain_id, head, contracts)
        if self._health.grows_old:
            self._health.saw_balance(station.gateway.balance(station.signer.address))
        settled, self._reconciler.settled = self._reconciler.settled, 0
        if contracts is None:
            return Progress(
                WORKING, "Deploying the contracts.", settled=settled, out=1, wait_s=station.options.poll_s
            )
        out = self._reconciler.out + late
        words = (
            f"{out} transaction{'s are' if out != 1 else ' is'} out." if out else "All that is due was sent."
        )
        if out or sent or late or settled:
            self._catch_up.look()
            words = self._catch_up.words or words
        wait_s = station.options.poll_s / 2 if out else station.options.poll_s
        # What was settled may be what others waited for.
        return Progress(
            WORKING, words, sent=sent + late, settled=settled, out=out, wait_s=0.0 if settled else wait_s
        )

    def look_again(self) -> None:
        """Take nothing for granted at the next round: the node was away, or something is wrong with it."""
        self._setup.forget()
        self._submitter_checked = float("-inf")
        self._chain_checked = float("-inf")

    def _check_chain(self) -> None:
        steady = self.station.clock.steady()
        if steady - self._chain_checked < self.station.options.recheck_s:
            return
        check_chain(self.station.gateway, self.station.chain_id)
        self._chain_checked = steady

    def _check_submitter(self, contracts: Contracts) -> None:
        steady = self.station.clock.steady()
        if steady - self._submitter_checked >= self.station.options.recheck_s:
            check_submitter(self.station, contracts)
            self._submitter_checked = steady

    def _queue_heads(self, lease: Lease) -> None:
        steady = self.station.clock.steady()
        if steady - self._heads_at < self.station.options.head_wait_s:
            return
        with self.station.db.write() as tx:
            tx.outbox.enqueue_moved_heads(lease, now=self.station.clock.now(), part=self.station.options.part)
        self._heads_at = steady

    def _send_due(
        self, lease: Lease, contracts: Contracts, head: Block, used: Callable[[], int]
    ) -> tuple[int, ChainMemoryError | None]:
        """Send what is due; return how many transactions, and what stood in the way.

        That is for later: what is on its way must be followed all the same.
        """
        try:
            self._queue_heads(lease)
            return self._send(lease, contracts, head, used), None
        except (Conflict, ConfigurationError):
            raise
        except ChainMemoryError as error:
            return 0, error

    def _send(self, lease: Lease, contracts: Contracts, head: Block, used: Callable[[], int]) -> int:
        station = self.station
        self._gatherer.gas_scale = self._reconciler.gas_scale
        drafts = self._gatherer.drafts(contracts, head.gas_limit, used)
        if not drafts:
            return 0
        self._check_submitter(contracts)
        station.step("planned")
        nonces = free_nonces(station, used(), len(drafts))
        fees = station.policy.quote(station.gateway.fee_market())
        return self._post.dispatch(lease, drafts, nonces, fees)
