"""The worker's own words on how it is, where the API reads them: `/v1/chain`, `/readyz`, `/metrics`."""

from __future__ import annotations

from dataclasses import dataclass

from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.options import Options
from chainmemory.anchoring.station import Contracts
from chainmemory.chain.types import Block
from chainmemory.store.database import Database
from chainmemory.store.leases import Lease
from chainmemory.store.tx import Tx
from chainmemory.store.worker import WorkerStatus

WORKING, WAITING, STANDBY, STOPPED = "working", "waiting", "standby", "stopped"
NOTICE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What one round came to.

    `sent` counts transactions, `settled` rows that the chain decided, `out` transactions not in a block yet;
    `wait_s` is how long to wait before the next round, `error` an error's code.
    """

    state: str
    words: str
    sent: int = 0
    settled: int = 0
    out: int = 0
    wait_s: float = 0.0
    error: str | None = None


class Health:
    """Writes the worker's status, at a change of state or error and otherwise a few times a lease."""

    def __init__(
        self, db: Database, options: Options, clock: Clock, *, name: str, holder: str, signer: str
    ) -> None:
        self._db = db
        self._clock = clock
        self._every_s = options.lease_s / 5
        self._told_before = False
        self._last: tuple[str, str | None] | None = None
        self._last_at = float("-inf")
        self._status = WorkerStatus(
            name=name,
            holder=holder,
            state=WORKING,
            words="",
            error=None,
            signer=signer,
            balance=None,
            chain_id=None,
            head_number=None,
            head_at=None,
            contracts={},
            part=options.part.name,
            started_at=clock.now(),
            beat_at=clock.now(),
        )

    @property
    def grows_old(self) -> bool:
        """True where the next report will be written whatever it says."""
        return self._clock.steady() - self._last_at >= self._every_s

    def saw(self, chain_id: int, head: Block, contracts: Contracts | None) -> None:
        """Note the chain, its head and the contracts, for the next report."""
        self._status = self._status._replace(
            chain_id=chain_id, head_number=head.number, head_at=self._clock.now()
        )
        if contracts is not None:
            self._status = self._status._replace(contracts=contracts.deployment.addresses())

    def saw_balance(self, wei: int) -> None:
        self._status = self._status._replace(balance=wei)

    def notice(self, words: str) -> None:
        """Tell people something that they must know although the work goes on; it stands for a day."""
        self._status = self._status._replace(notice=words, notice_at=self._clock.now())
        self._last = None

    def report(self, lease: Lease, progress: Progress) -> None:
        """Write what this round came to, if it's news or the last report grows old."""
        news = (progress.state, progress.error)
        if news == self._last and not self.grows_old:
            return
        self._status = self._status._replace(
            state=progress.state,
            words=progress.words,
            error=progress.error,
            beat_at=self._clock.now(),
        )
        with self._db.write() as tx:
            self._keep_notice(tx)
            tx.worker.report(lease, self._status)
        self._last, self._last_at = news, self._clock.steady()

    def _keep_notice(self, tx: Tx) -> None:
        """Take over what the worker before this one gave notice of, and drop what is older than a day."""
        if not self._told_before:
            self._told_before = True
            before = next((one for one in tx.worker.statuses() if one.name == self._status.name), None)
            if before is not None and self._status.notice is None:
                self._status = self._status._replace(notice=before.notice, notice_at=before.notice_at)
        if self._status.notice_at is not None and self._status.notice_at < self._clock.after(-NOTICE_S):
            self._status = self._status._replace(notice=None, notice_at=None)
