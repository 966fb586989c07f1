"""Signing, storing and sending: never sent what isn't stored, never two things under one nonce (rule 2).

A nonce is a slot. Everything signed for one slot may be in the node's pool at once (a transaction and its
dearer replacement), but one at most can get into a block. What a crash leaves behind at each point:

- before `stored`: nothing; the rows are still waiting.
- between `stored` and `sent`: a signed transaction the node may or may not know; the same bytes are sent
  again, which the node takes, or answers "already known" or "nonce too low".
- after `sent`: the same; its receipt is found by its hash, known since before it was sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from chainmemory.anchoring.station import FILL, Station
from chainmemory.chain.failures import Refusal, TransactionRefused, WrongChain
from chainmemory.chain.fees import Fees
from chainmemory.chain.gas import TX_BASE
from chainmemory.chain.signer import SignedTransaction, read_call
from chainmemory.errors import Unavailable
from chainmemory.store.leases import Lease
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE
from chainmemory.store.transactions import DROPPED, SENT, SIGNED, TransactionRow
from chainmemory.store.transactions import SignedTransaction as StoredTransaction

# Refusals after which the transaction is with the node all the same, or its slot is decided.
_FINE = (Refusal.ALREADY_KNOWN, Refusal.NONCE_TOO_LOW)
_SPLITTABLE = (MEMORY, STATE, HEAD)
_TOO_CHEAP = (Refusal.UNDERPRICED, Refusal.REPLACEMENT_UNDERPRICED)


class NotEnoughFunds(Unavailable):
    """The signer's balance doesn't pay for the transaction; someone may top it up."""

    code = "insufficient_funds"


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction to be signed; `with_payload` are those of its memories, by account, that carry theirs."""

    purpose: str
    to: str | None
    data: bytes
    gas_limit: int
    outbox_ids: tuple[int, ...] = ()
    with_payload: tuple[tuple[str, tuple[int, ...]], ...] = ()


class Post:
    """Signs, stores and sends for one station."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._pushed: dict[str, float] = {}

    def dispatch(self, lease: Lease, drafts: Sequence[Draft], nonces: Sequence[int], fees: Fees) -> int:
        """Sign the drafts at these nonces, store them in one go with their rows, send them; return how many.

        Raises NotEnoughFunds before anything is signed where not even the first can be paid, otherwise as
        `push`.
        """
        drafts = self._affordable(drafts, fees)
        stored = []
        for draft, nonce in zip(drafts, nonces, strict=False):
            signed = self._station.signer.sign(
                chain_id=self._station.chain_id,
                nonce=nonce,
                to=draft.to,
                data=draft.data,
                gas_limit=draft.gas_limit,
                fees=fees,
            )
            stored.append(self._row(signed, draft.purpose, draft.outbox_ids))
        self._station.step("signed")
        if not self._store(lease, stored, drafts):
            return 0
        self._station.step("stored")
        self.push(lease, [_as_open(row) for row in stored])
        return len(stored)

    def push(self, lease: Lease, transactions: Sequence[TransactionRow], *, may_replace: bool = True) -> None:
        """Hand stored transactions to the node, by nonce, and note which ones it took.

        One that is too cheap is replaced at once, but only once a call. Raises WrongChain, ChainUnavailable,
        FeesTooHigh, and TransactionRefused where the reason may pass; later nonces then wait.
        """
        accepted: list[TransactionRow] = []
        try:
            for transaction in transactions:
                taken = self._send(lease, transaction, may_replace)
                if taken is None:
                    break
                self._pushed[transaction.tx_hash] = self._station.clock.steady()
                if taken:
                    accepted.append(transaction)
                self._station.step("sent")
        finally:
            self._note_accepted(lease, [row for row in accepted if row.status == SIGNED])

    def pushed_ago(self, tx_hash: str) -> float | None:
        """Return how many seconds ago this process last handed the transaction to the node; None if never."""
        moment = self._pushed.get(tx_hash)
        return None if moment is None else self._station.clock.steady() - moment

    def forget_push(self, tx_hash: str) -> None:
        """Send this transaction again at the next occasion, however short ago it was sent."""
        self._pushed.pop(tx_hash, None)

    def replace(self, lease: Lease, old: TransactionRow) -> None:
        """Sign a dearer transaction for the same slot, store and send it; the old one stays a candidate.

        Raises FeesTooHigh where the cap forbids it.
        """
        station = self._station
        fees = station.policy.bump(Fees(old.max_fee, old.priority_fee), station.gateway.fee_market())
        to, data = read_call(old.raw)
        signed = station.signer.sign(
            chain_id=station.chain_id,
            nonce=old.nonce,
            to=to,
            data=data,
            gas_limit=old.gas_limit,
            fees=fees,
        )
        row = self._row(signed, old.purpose, old.outbox_ids)
        self._store(lease, [row], [])
        station.step("replaced")
        self.push(lease, [_as_open(row)], may_replace=False)

    def fill(self, lease: Lease, nonce: int) -> None:
        """Use up a nonce with an empty transaction to ourselves, so that those above it can be mined."""
        draft = Draft(FILL, self._station.signer.address, b"", TX_BASE)
        fees = self._station.policy.quote(self._station.gateway.fee_market())
        self.dispatch(lease, [draft], [nonce], fees)

    def abandon(self, lease: Lease, transaction: TransactionRow) -> None:
        """Give up a transaction that can't be mined as it is; its rows wait again, its nonce is free."""
        station = self._station
        with station.db.write() as tx:
            tx.transactions.mark(lease, transaction.tx_hash, DROPPED, now=station.clock.now())
            rows = tx.outbox.by_transaction(transaction.tx_hash)
            tx.outbox.mark_pending(
                lease, [row.id for row in rows if row.anchored_at is None], now=station.clock.now()
            )

    # -- underneath -------------------------------------------------------------------------------

    def _affordable(self, drafts: Sequence[Draft], fees: Fees) -> list[Draft]:
        station = self._station
        if not drafts or fees.max_fee == 0:
            return list(drafts)
        with station.db.read() as tx:
            promised = sum(
                row.gas_limit * row.max_fee
                for row in station.open_transactions(tx)
                if row.block_number is None
            )
        balance = station.gateway.balance(station.signer.address) - promised
        affordable: list[Draft] = []
        for draft in drafts:
            balance -= draft.gas_limit * fees.max_fee
            if balance < 0:
                break
            affordable.append(draft)
        if not affordable:
            raise NotEnoughFunds(
                f"The signer {station.signer.address} has insufficient funds: it lacks {-balance} wei of the "
                f"{drafts[0].gas_limit * fees.max_fee} the next transaction may cost. Send it funds; the "
                "worker goes on by itself."
            )
        return affordable

    def _row(self, signed: SignedTransaction, purpose: str, outbox_ids: tuple[int, ...]) -> StoredTransaction:
        return StoredTransaction(
            tx_hash=signed.hash,
            chain_id=self._station.chain_id,
            signer=self._station.signer.address,
            nonce=signed.nonce,
            raw=signed.raw,
            purpose=purpose,
            outbox_ids=outbox_ids,
            gas_limit=signed.gas_limit,
            max_fee=signed.fees.max_fee,
            priority_fee=signed.fees.tip,
            created_at=self._station.clock.now(),
        )

    def _store(self, lease: Lease, rows: Sequence[StoredTransaction], drafts: Sequence[Draft]) -> bool:
        """Store all, or nothing where a memory was forgotten since its ciphertext was read (protocol §8)."""
        with self._station.db.write() as tx:
            tx.leases.guard(lease)
            for draft in drafts:
                for account_id, numbers in draft.with_payload:
                    if tx.worker.forgotten(account_id, numbers):
                        return False
            for row in rows:
                tx.transactions.add(lease, row)
                tx.outbox.mark_submitted(lease, row.outbox_ids, tx_hash=row.tx_hash)
            tx.worker.count(lease, Counter(("sent" if drafts else "replaced", row.purpose) for row in rows))
        return True

    def _send(self, lease: Lease, transaction: TransactionRow, may_replace: bool) -> bool | None:
        """Send one; True where the node has it now, False where it gave way, None where it's too early."""
        try:
            self._station.gateway.send_raw(transaction.raw)
        except TransactionRefused as refused:
            if refused.refusal in _FINE:
                return True
            if refused.refusal is Refusal.NONCE_TOO_HIGH:
                # A node without a queue: those below must be in a block first.
                return None
            if refused.refusal in _TOO_CHEAP and may_replace:
                self.replace(lease, transaction)
                return False
            if refused.refusal is Refusal.GAS_LIMIT and transaction.purpose in _SPLITTABLE:
                self.abandon(lease, transaction)
                return False
            if refused.refusal is Refusal.WRONG_CHAIN:
                raise WrongChain(
                    f"The node refused a transaction signed for chain {self._station.chain_id}: "
                    f"{refused.message}"
                ) from None
            raise
        return True

    def _note_accepted(self, lease: Lease, accepted: Sequence[TransactionRow]) -> None:
        if not accepted:
            return
        with self._station.db.write() as tx:
            for row in accepted:
                tx.transactions.mark(lease, row.tx_hash, SENT, now=self._station.clock.now())
                tx.outbox.mark_submitted(lease, row.outbox_ids, tx_hash=row.tx_hash)


def _as_open(row: StoredTransaction) -> TransactionRow:
    return TransactionRow(
        *row,
        status=SIGNED,
        block_number=None,
        block_hash=None,
        gas_used=None,
        updated_at=row.created_at,
    )
