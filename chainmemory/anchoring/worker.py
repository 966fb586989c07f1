"""The anchor worker: one round after the other, from the outbox to the chain (design.md, The anchor worker).

A round, in order: hold the lease; look at the chain; check that recorded blocks are still there; follow what
is on its way; send what is due; say how it is. Each part takes up where a crashed one left off, so there is
no start-up besides the first round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from chainmemory.anchoring.bench import Bench
from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.health import STANDBY, STOPPED, WAITING, WORKING, Health, Progress
from chainmemory.anchoring.heirs import check_part_is_free
from chainmemory.anchoring.lease import LeaseKeeper, holder_name
from chainmemory.anchoring.options import Options
from chainmemory.anchoring.retry import Stop, decide
from chainmemory.anchoring.setup import check_chain
from chainmemory.anchoring.station import Station, Step, no_step
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer, ensure_keystore, load_signer
from chainmemory.errors import ChainMemoryError, ConfigurationError, Conflict, Unavailable
from chainmemory.logging import log
from chainmemory.settings import Settings
from chainmemory.store.database import Database
from chainmemory.store.leases import Lease
from chainmemory.store.outbox_rows import HEAD, MEMORY
from chainmemory.store.transactions import SIGNED
from chainmemory.store_file import DAMAGED

# Rows that get a reason when the chain can't be worked with; more would say nothing more.
_ROWS_WITH_REASON = 1_000
# Wall clocks are corrected in small steps; more than this is a jump.
_JUMP_S = 5.0


class AnchorWorker:
    """Works off one store's outbox on one chain, as long as it holds the signer's lease."""

    def __init__(
        self,
        db: Database,
        gateway: Gateway,
        signer: Signer,
        options: Options,
        *,
        clock: Clock | None = None,
        step: Step = no_step,
    ) -> None:
        self._db = db
        self._gateway = gateway
        self._signer = signer
        self._options = options
        self._clock = clock or Clock()
        self._named_step = step
        self._keeper = LeaseKeeper(
            db, f"anchor:{signer.address}", holder_name(), options.lease_s, self._clock
        )
        self._health = Health(
            db,
            options,
            self._clock,
            name=self._keeper.name,
            holder=self._keeper.holder,
            signer=signer.address,
        )
        self._bench: Bench | None = None
        self._failures = 0
        self._stopped = False
        self._offset: float | None = None

    def run_once(self) -> Progress:
        """Do one round and return what it came to.

        Errors that may pass are written to the rows and returned. Raises ConfigurationError where only a
        person can help (wrong chain, another contract at the address), after saying so in the status.
        """
        try:
            lease = self._keeper.hold()
            if lease is None:
                return self._stand_by()
            return self._round(lease)
        except Conflict as error:
            if error.code != "lease_lost":
                return self._wait(error)
            self._keeper.lost()
            return self._stand_by()

    def run_until_idle(self, stop: threading.Event, say: Callable[[str], None]) -> Progress:
        """Do rounds until nothing is due and no transaction waits for a block, and give the lease back.

        Ends as well with the first error that may pass, or where another worker holds the lease; the progress
        returned says which. `say` is told what is going on, when that changes. Raises as `run_once`, and
        Unavailable where the store can't be used.
        """
        idle, told = 0, ""
        try:
            while True:
                progress = self.run_once()
                if progress.words != told:
                    told = progress.words
                    say(told)
                idle = 0 if progress.sent or progress.settled or progress.out else idle + 1
                # A second look: what was settled last may be what others waited for.
                if progress.state != WORKING or idle > 1 or stop.is_set():
                    return progress
                self._rest(stop, progress.wait_s)
        finally:
            self._give_back()

    def run(self, stop: threading.Event) -> None:
        """Do rounds until `stop` is set; then give the lease back.

        A store that doesn't answer is waited for. Raises ConfigurationError as `run_once`.
        """
        try:
            while not stop.is_set():
                try:
                    progress = self.run_once()
                except Unavailable as error:
                    progress = self._wait(error)
                    tell = log.error if error.code == DAMAGED else log.warning
                    tell("the store can't be used", action="worker.store_failed", reason=error.message)
                self._rest(stop, progress.wait_s)
        finally:
            self._give_back()

    # -- a round ----------------------------------------------------------------------------------

    def _round(self, lease: Lease) -> Progress:
        self._step("leased")
        try:
            bench = self._at_work(lease)
            self._mind_the_clock(lease)
            progress = bench.round(lease)
            if self._failures:
                self._recovered(lease)
            self._health.report(lease, progress)
            self._step("reported")
            return progress
        except Conflict:
            raise
        except ChainMemoryError as error:
            return self._failed(lease, error)

    def _at_work(self, lease: Lease) -> Bench:
        """Return the tools for the node's chain, made at the first answer."""
        if self._bench is None:
            check_part_is_free(self._db, self._options, self._signer.address, self._clock)
            chain_id = check_chain(self._gateway, self._options.expected_chain_id)
            station = Station(
                self._db,
                self._gateway,
                self._signer,
                self._options,
                self._clock,
                chain_id,
                self._step,
            )
            self._bench = Bench(station, self._health)
            with self._db.write() as tx:
                # Whatever the clock said when they failed: the worker is here now.
                tx.outbox.retry_now(lease, now=self._clock.now(), part=self._options.part)
            log.info(
                "the worker has the lease",
                action="worker.started",
                chain_id=chain_id,
                signer=self._signer.address,
            )
        return self._bench

    def _mind_the_clock(self, lease: Lease) -> None:
        """Make what waits for its next attempt due now where the wall clock jumped, for all it said."""
        offset = self._clock.wall().timestamp() - self._clock.steady()
        if self._offset is not None and abs(offset - self._offset) > _JUMP_S:
            log.warning("the clock jumped", action="worker.clock_jumped", seconds=offset - self._offset)
            with self._db.write() as tx:
                tx.outbox.retry_now(lease, now=self._clock.now(), part=self._options.part)
        self._offset = offset

    def _recovered(self, lease: Lease) -> None:
        log.info("anchoring works again", action="worker.recovered", failures=self._failures)
        self._failures = 0
        with self._db.write() as tx:
            tx.outbox.retry_now(lease, now=self._clock.now(), part=self._options.part)

    def _failed(self, lease: Lease, error: ChainMemoryError) -> Progress:
        """Write down why nothing goes on, on the rows concerned and in the status; raise what is final."""
        self._failures += 1
        decision = decide(error, self._failures, self._options.retry)
        wait_s = self._options.retry.cap_s if isinstance(decision, Stop) else decision.wait_s
        stopped = isinstance(decision, Stop)
        progress = Progress(STOPPED if stopped else WAITING, decision.reason, wait_s=wait_s, error=error.code)
        log.warning(
            "anchoring can't go on",
            action="worker.stopped" if stopped else "worker.waiting",
            reason=decision.reason,
            code=error.code,
            failures=self._failures,
        )
        self._explain_rows(lease, decision.reason, wait_s)
        if self._bench is not None:
            self._bench.look_again()
        self._health.report(lease, progress)
        if stopped:
            self._stopped = True
            raise error
        return progress

    def _explain_rows(self, lease: Lease, reason: str, wait_s: float) -> None:
        now, part = self._clock.now(), self._options.part
        with self._db.write() as tx:
            due = [
                *tx.outbox.due(MEMORY, now=now, limit=_ROWS_WITH_REASON, part=part),
                *tx.outbox.due_states(now=now, limit=_ROWS_WITH_REASON, part=part),
                *tx.outbox.due(HEAD, now=now, limit=_ROWS_WITH_REASON, part=part),
            ]
            ids = {row.id for row in due}
            if self._bench is not None:
                # Signed, and no node ever took it: the rows in it are not under way at all.
                for row in self._bench.station.open_transactions(tx):
                    if row.status == SIGNED:
                        ids.update(row.outbox_ids)
            tx.outbox.mark_failed(lease, ids, reason=reason, next_attempt_at=self._clock.after(wait_s))

    def _step(self, name: str) -> None:
        """Stand between two effects: a fault test may strike here, and a heartbeat is due now and then.

        Raises Conflict (`lease_lost`) where another worker took over meanwhile.
        """
        self._named_step(name)
        if self._keeper.hold() is None:
            raise Conflict("Another worker has taken over.", code="lease_lost")

    # -- around -----------------------------------------------------------------------------------

    def _stand_by(self) -> Progress:
        # What was known belongs to another holding; begin anew if the lease comes back.
        self._bench = None
        return Progress(
            STANDBY,
            f"Another worker ({self._keeper.other or 'unknown'}) holds the lease; standing by.",
            wait_s=min(1.0, self._options.lease_s / 5),
        )

    def _wait(self, error: ChainMemoryError) -> Progress:
        self._failures += 1
        wait_s = self._options.retry.wait(self._failures)
        return Progress(WAITING, error.message, wait_s=wait_s, error=error.code)

    def _rest(self, stop: threading.Event, seconds: float) -> None:
        """Wait, with heartbeats."""
        until = self._clock.steady() + seconds
        while (left := until - self._clock.steady()) > 0 and not stop.wait(
            min(left, self._options.lease_s / 4)
        ):
            if self._keeper.held is not None and left > self._options.lease_s / 4:
                try:
                    self._keeper.hold()
                except Unavailable:
                    # The store is away; the next round will say so.
                    return

    def _give_back(self) -> None:
        lease = self._keeper.held
        try:
            if lease is not None and not self._stopped:
                self._health.report(lease, Progress(STOPPED, "The worker was stopped."))
            self._keeper.release()
        except (Unavailable, Conflict) as error:
            log.warning("the lease lapses by itself", action="worker.release_failed", reason=error.message)


def run_worker(settings: Settings, stop: threading.Event) -> None:
    """Run the worker of a deployment until `stop` is set, waiting for a chain that isn't up yet.

    Raises ConfigurationError where only a person can help; the status then says why.
    """
    with Database.open(settings.store_url) as db:
        worker_of(settings, db).run(stop)


def worker_of(settings: Settings, db: Database) -> AnchorWorker:
    """Return a deployment's worker on its open store. Raises as `run_worker`."""
    try:
        ensure_keystore(settings.signer_keystore_path, settings.signer_password_path)
        signer = load_signer(settings.signer_keystore_path, settings.signer_password_path)
        return AnchorWorker(db, Gateway(settings.chain_url), signer, Options.from_settings(settings))
    except ConfigurationError as error:
        with db.write() as tx:
            tx.worker.report_no_start(
                holder_name(), error.message, part=settings.worker_part, now=Clock().now()
            )
        raise
