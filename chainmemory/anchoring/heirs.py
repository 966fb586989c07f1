"""Several signers on one store: one for each part of the work, and what a signer that is gone left behind.

A signer may be given up: its key replaced, or the parts cut anew. What its transactions carried then belongs
to the worker of the part it is in now, which asks the contract and sends again what isn't there. Should such
a transaction be mined later all the same, the contract says so, and nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Callable

from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.health import WORKING
from chainmemory.anchoring.options import Options
from chainmemory.anchoring.settle import Judge, Verdicts
from chainmemory.anchoring.station import ROOT, Contracts, Station
from chainmemory.errors import Unavailable
from chainmemory.logging import log
from chainmemory.store.database import Database
from chainmemory.store.leases import Lease
from chainmemory.store.parts import Part
from chainmemory.store.transactions import TransactionRow
from chainmemory.store.tx import Tx


class PartTaken(Unavailable):
    """Another signer's worker does this part of the work; one of the two must do another."""

    code = "part_taken"


def check_part_is_free(db: Database, options: Options, signer: str, clock: Clock) -> None:
    """Raise PartTaken where another signer's worker, heard of lately, does some of this part."""
    lately = clock.after(-2 * options.lease_s)
    with db.read() as tx:
        others = [
            one
            for one in tx.worker.statuses()
            if one.signer not in (None, signer) and one.state == WORKING and one.beat_at > lately
        ]
    for one in others:
        if Part.of(one.part).overlaps(options.part):
            raise PartTaken(
                f"The worker of signer {one.signer} does part {one.part} of the work, and this one, of "
                f"{signer}, is to do {options.part.name}. Give each signer a part of its own "
                "(CHAINMEMORY_WORKER_PART)."
            )


class Heirs:
    """Takes over what other signers, whose lease has lapsed, left on its way."""

    def __init__(self, station: Station, notice: Callable[[str], None]) -> None:
        self._station = station
        self._notice = notice
        self._looked_at = float("-inf")

    def run(self, lease: Lease, contracts: Contracts) -> int:
        """Look now and then; return how many rows were decided."""
        station = self._station
        steady = station.clock.steady()
        if steady - self._looked_at < station.options.recheck_s:
            return 0
        self._looked_at = steady
        decided = 0
        for sent in self._left_behind():
            verdicts = self._judge(contracts, sent)
            with station.db.write() as tx:
                verdicts.write(tx, lease, now=station.clock.now(), retry_at=station.clock.now())
            verdicts.tell(self._notice)
            log.warning(
                "took over what another signer had sent",
                action="worker.inherited",
                signer=sent.signer,
                transaction=sent.tx_hash,
                anchored=len(verdicts.anchored),
                again=len(verdicts.again),
            )
            decided += verdicts.count
        return decided

    def _left_behind(self) -> list[TransactionRow]:
        """Return the transactions of signers without a lease that our part's rows are out in."""
        station = self._station
        with station.db.read() as tx:
            rows = tx.outbox.left_by_others(station.signer.address, part=station.options.part)
            found = [
                tx.transactions.get(tx_hash) for tx_hash in dict.fromkeys(row.tx_hash or "" for row in rows)
            ]
            return [sent for sent in found if sent is not None and not self._at_work(tx, sent.signer)]

    def _at_work(self, tx: Tx, signer: str) -> bool:
        held = tx.leases.get(f"anchor:{signer}")
        return held is not None and held.expires_at > self._station.clock.now()

    def _judge(self, contracts: Contracts, sent: TransactionRow) -> Verdicts:
        station, verdicts = self._station, Verdicts()
        with station.db.read() as tx:
            by_id = {row.id: row for row in tx.outbox.by_ids(sent.outbox_ids)}
        rows = [by_id[outbox_id] for outbox_id in sent.outbox_ids if outbox_id in by_id]
        judge = Judge(station, contracts)
        if sent.purpose != ROOT or not judge.find_root(rows, verdicts):
            mine = [r for r in rows if r.tx_hash == sent.tx_hash and station.options.part.holds(r.subject)]
            judge.ask(mine, verdicts)
        return verdicts
