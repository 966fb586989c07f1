"""What is on its way: taking receipts, sending again, replacing, and finding out about what is gone (rule 2).

After a crash this is the whole recovery, and it is the same path as on any other day:

- a receipt is found: it is taken, and the rows are judged by its events;
- none, and the nonce is free: the same bytes are sent again (the node has them still, or lost them);
- none, and the nonce is used: by something else, or the node lost the receipt. After a while the contract is
  asked for each row; what it holds is recorded, the rest is sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from chainmemory.anchoring.post import Post
from chainmemory.anchoring.recheck import Recheck
from chainmemory.anchoring.settle import OPEN_ROWS, Judge, Verdicts
from chainmemory.anchoring.setup import take_deployment
from chainmemory.anchoring.station import DEPLOY, FILL, ROOT, Contracts, Station
from chainmemory.chain.fees import FeesTooHigh
from chainmemory.chain.types import Block, Receipt
from chainmemory.store.leases import Lease
from chainmemory.store.outbox_rows import STATE, OutboxRow
from chainmemory.store.transactions import (
    CONFIRMED,
    DROPPED,
    FAILED,
    MINED,
    REPLACED,
    SENT,
    SIGNED,
    TransactionRow,
)
from chainmemory.store.tx import Tx

_UNMINED = (SIGNED, SENT)
# Where a batch ran out of gas although its bound said it couldn't, bounds grow by half, up to fourfold.
_SCALE_STEP = 1.5
_SCALE_MAX = 4.0
# Blocks that must pass before an unmined transaction counts as stuck: where none pass, the fee isn't why.
_STUCK_BLOCKS = 3


class Reconciler:
    """Follows the station's open transactions, slot by slot."""

    def __init__(
        self,
        station: Station,
        post: Post,
        recheck: Recheck,
        trusted: set[str],
        notice: Callable[[str], None],
    ) -> None:
        """Take a station; projects of which a state was found on the contract as ours join `trusted`.

        `notice` tells people what they must know.
        """
        self._station = station
        self._notice = notice
        self._post = post
        self._recheck = recheck
        self._trusted = trusted
        self._missing_since: dict[int, float] = {}
        self._first_seen: dict[int, tuple[float, int, int]] = {}
        self.settled = 0
        """Rows judged since the last look (whoever reads it resets it)."""
        self.out = 0
        """Transactions of ours that no block has taken yet, at the last look."""
        self.gas_scale = 1.0

    def run(self, lease: Lease, contracts: Contracts | None, head: Block, used: Callable[[], int]) -> None:
        """Bring every open transaction as far as the chain has come.

        `contracts` may be None while they are being deployed; `used` asks for the signer's nonce on the
        chain. Raises as `Post.push`.
        """
        with self._station.db.read() as tx:
            open_now = self._station.open_transactions(tx)
        for row in open_now:
            if row.status == MINED:
                self._confirm(lease, contracts, row, head)
        unmined = [row for row in open_now if row.status in _UNMINED]
        self.out = 0
        if not unmined:
            self._missing_since.clear()
            self._first_seen.clear()
            return
        nonce = used()
        slots = [list(group) for _, group in groupby(unmined, key=lambda row: row.nonce)]
        for slot in slots:
            if slot[0].nonce < nonce:
                self._collect(lease, contracts, slot, head)
        waiting = [slot for slot in slots if slot[0].nonce >= nonce]
        self.out = len(waiting)
        if waiting:
            self._close_gap(lease, nonce, waiting[0][0].nonce)
            self._nudge(lease, waiting, head)

    # -- mined ------------------------------------------------------------------------------------

    def _collect(
        self, lease: Lease, contracts: Contracts | None, slot: Sequence[TransactionRow], head: Block
    ) -> None:
        """Find which of a used slot's transactions got into a block."""
        nonce = slot[0].nonce
        with self._station.db.read() as tx:
            signed = tx.transactions.of_nonce(self._station.chain_id, self._station.signer.address, nonce)
        for row in reversed(signed):
            receipt = self._station.gateway.receipt(row.tx_hash)
            if receipt is not None:
                self._missing_since.pop(nonce, None)
                self._station.step("receipt")
                self._take(lease, contracts, row, signed, receipt, head)
                return
        since = self._missing_since.setdefault(nonce, self._station.clock.steady())
        if self._station.clock.steady() - since >= self._station.options.missing_s:
            self._ask_contract(lease, contracts, slot)
            self._missing_since.pop(nonce, None)

    def _take(
        self,
        lease: Lease,
        contracts: Contracts | None,
        row: TransactionRow,
        slot: Sequence[TransactionRow],
        receipt: Receipt,
        head: Block,
    ) -> None:
        """Note the block of a mined transaction, and that the slot's others can't be mined any more."""
        station = self._station
        others = [other for other in slot if other.tx_hash != row.tx_hash and other.status != DROPPED]
        with station.db.write() as tx:
            self._mark(tx, lease, row, MINED, receipt)
            for other in others:
                tx.transactions.mark(lease, other.tx_hash, REPLACED, now=station.clock.now())
                stranded = set(other.outbox_ids) - set(row.outbox_ids)
                rows = [r for r in tx.outbox.by_ids(stranded) if r.tx_hash == other.tx_hash]
                tx.outbox.mark_pending(
                    lease, [r.id for r in rows if r.anchored_at is None], now=station.clock.now()
                )
        self._settle(lease, contracts, row, receipt, head)

    def _confirm(self, lease: Lease, contracts: Contracts | None, row: TransactionRow, head: Block) -> None:
        """Look at a mined transaction again; settle it once its block is deep enough."""
        if head.number < (row.block_number or 0) + self._station.options.confirmations - 1:
            return
        receipt = self._station.gateway.receipt(row.tx_hash)
        if receipt is None:
            with self._station.db.write() as tx:
                tx.worker.reopen(lease, row.tx_hash, now=self._station.clock.now())
            return
        if receipt.block_hash != row.block_hash:
            with self._station.db.write() as tx:
                self._mark(tx, lease, row, MINED, receipt)
        self._settle(lease, contracts, row, receipt, head)

    def _settle(
        self,
        lease: Lease,
        contracts: Contracts | None,
        row: TransactionRow,
        receipt: Receipt,
        head: Block,
    ) -> None:
        """Judge the rows of a transaction whose block is deep enough, and write that down with it."""
        station = self._station
        if head.number < receipt.block_number + station.options.confirmations - 1:
            return
        if row.purpose.startswith(DEPLOY):
            take_deployment(station, lease, row, receipt)
            return
        if contracts is None and row.purpose != FILL:
            return
        verdicts, rows = Verdicts(), self._rows(row)
        kinds = {r.id: r.kind for r in rows}
        if not receipt.succeeded:
            stranded = [r.id for r in rows if r.status in OPEN_ROWS and r.tx_hash == row.tx_hash]
            verdicts.again = dict.fromkeys(stranded, self._failed(row, receipt))
        elif contracts is not None and rows:
            verdicts = Judge(station, contracts).read_receipt(row.purpose, rows, receipt)
        with station.db.write() as tx:
            verdicts.write(
                tx,
                lease,
                now=station.clock.now(),
                retry_at=station.clock.after(station.options.retry.wait(2)),
            )
            status = CONFIRMED if receipt.succeeded else FAILED
            self._mark(tx, lease, row, status, receipt)
            done = Counter(("anchored", kinds[entry.id]) for entry in verdicts.anchored)
            tx.worker.count(lease, {**done, (status, row.purpose): 1, ("gas", row.purpose): receipt.gas_used})
        if row.purpose == STATE:
            self._trust(rows, verdicts)
        verdicts.tell(self._notice)
        self._recheck.note({(entry.block_number, entry.block_hash) for entry in verdicts.anchored})
        self.settled += verdicts.count
        station.step("settled")

    def _trust(self, rows: Sequence[OutboxRow], verdicts: Verdicts) -> None:
        """Trust projects whose states were written as ours; not those of which one was refused."""
        anchored = {entry.id for entry in verdicts.anchored}
        refused = verdicts.again.keys() | verdicts.conflicts.keys()
        states = [row for row in rows if row.kind == STATE]
        self._trusted.update(row.subject for row in states if row.id in anchored)
        self._trusted.difference_update(row.subject for row in states if row.id in refused)

    def _failed(self, row: TransactionRow, receipt: Receipt) -> str:
        if receipt.gas_used >= row.gas_limit * 0.98:
            self.gas_scale = min(self.gas_scale * _SCALE_STEP, _SCALE_MAX)
            return f"Its transaction ran out of gas ({row.gas_limit}); it is sent again with more."
        return (
            "Its transaction was reverted by the contract; most likely the signer "
            f"{self._station.signer.address} isn't a submitter (chainmemory contracts grant)."
        )

    def _ask_contract(
        self, lease: Lease, contracts: Contracts | None, slot: Sequence[TransactionRow]
    ) -> None:
        """Settle a slot that something else used up: each row by what the contract holds."""
        station = self._station
        verdicts = Verdicts()
        if contracts is not None:
            judge = Judge(station, contracts)
            hashes = {row.tx_hash for row in slot}
            # Replacements carry the same rows as what they replace.
            for row in {row.outbox_ids: row for row in slot}.values():
                rows = self._rows(row)
                waiting = [r for r in rows if r.tx_hash in hashes]
                if row.purpose != ROOT or not judge.find_root(rows, verdicts):
                    judge.ask(waiting, verdicts)
        with station.db.write() as tx:
            verdicts.write(tx, lease, now=station.clock.now(), retry_at=station.clock.now())
            for row in slot:
                tx.transactions.mark(lease, row.tx_hash, DROPPED, now=station.clock.now())
        verdicts.tell(self._notice)
        self._recheck.note({(entry.block_number, entry.block_hash) for entry in verdicts.anchored})
        self.settled += verdicts.count
        station.step("asked")

    # -- not mined yet ----------------------------------------------------------------------------

    def _close_gap(self, lease: Lease, used: int, lowest: int) -> None:
        """Bring back, or fill, the nonces below our lowest open one: nothing above them can be mined."""
        station = self._station
        for nonce in range(used, lowest):
            with station.db.read() as tx:
                signed = tx.transactions.of_nonce(station.chain_id, station.signer.address, nonce)
            known = [row for row in signed if row.status != DROPPED]
            if not known:
                self._post.fill(lease, nonce)
                continue
            with station.db.write() as tx:
                tx.worker.reopen(lease, known[-1].tx_hash, now=station.clock.now())
            self._post.push(lease, [known[-1]])

    def _nudge(self, lease: Lease, slots: Sequence[Sequence[TransactionRow]], head: Block) -> None:
        """Send again what the node may have lost, and replace the lowest one where it is stuck."""
        options = self._station.options
        lowest = slots[0][-1]
        if self._stuck(lowest, head):
            try:
                self._post.replace(lease, lowest)
            except FeesTooHigh:
                # The cap forbids a dearer one; this one stays with the node, and counts its time anew.
                self._first_seen.pop(lowest.nonce, None)
        due = []
        for slot in slots:
            ago = self._post.pushed_ago(slot[-1].tx_hash)
            if ago is None or ago >= options.resend_s or slot[-1].status == SIGNED:
                due.append(slot[-1])
        if due:
            self._post.push(lease, due)

    def _stuck(self, row: TransactionRow, head: Block) -> bool:
        """Say whether blocks pass without taking it; each replacement is given twice the time."""
        now = self._station.clock.steady()
        since, first_head, replaced = self._first_seen.setdefault(row.nonce, (now, head.number, 0))
        patience = self._station.options.stuck_s * 2**replaced
        if now - since < patience or head.number < first_head + _STUCK_BLOCKS:
            return False
        self._first_seen[row.nonce] = (now, head.number, replaced + 1)
        return True

    # -- underneath -------------------------------------------------------------------------------

    def _rows(self, row: TransactionRow) -> list[OutboxRow]:
        """Return a transaction's rows in call order."""
        with self._station.db.read() as tx:
            by_id = {found.id: found for found in tx.outbox.by_ids(row.outbox_ids)}
        return [by_id[outbox_id] for outbox_id in row.outbox_ids]

    def _mark(self, tx: Tx, lease: Lease, row: TransactionRow, status: str, receipt: Receipt) -> None:
        tx.transactions.mark(
            lease,
            row.tx_hash,
            status,
            now=self._station.clock.now(),
            block_number=receipt.block_number,
            block_hash=receipt.block_hash,
            gas_used=receipt.gas_used,
        )
