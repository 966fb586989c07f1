"""Decide which offered transactions join the pool, in geth's words when they don't.

One thread owns the write side: callers queue up, everything that waits is decided against one state and made
durable by one commit, and only then do the callers get their hashes.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future

from chainmemory.errors import Unavailable
from chainmemory.node import pool
from chainmemory.node.blocks import open_reader
from chainmemory.node.database import transaction as write_transaction
from chainmemory.node.evm import SignedTransactionAPI, ValidationError
from chainmemory.node.formats import check_transaction_chain, decode_transaction
from chainmemory.node.genesis import Genesis
from chainmemory.node.mirror import Mirror, Sender, Waiting, cost_of

log = logging.getLogger("chainmemory.node")

MAX_TRANSACTION_BYTES = 128 * 1024
MAX_POOL = 5_120
MAX_PER_SENDER = 4_096
MAX_FUTURE_PER_SENDER = 64
"""Waiting for an earlier nonce."""
MIN_TIP = 1
PRICE_BUMP_PERCENT = 10
MAX_BATCH = 256
"""Transactions per commit."""


class Refused(Exception):
    """The pool doesn't take the transaction; the message says why, in geth's words."""


def read_transaction(raw: bytes, chain_id: int) -> SignedTransactionAPI:
    """Decode an offered transaction and check what needs no state; Refused when it is malformed."""
    if len(raw) > MAX_TRANSACTION_BYTES:
        raise Refused(f"oversized data: transaction size {len(raw)}, limit {MAX_TRANSACTION_BYTES}")
    if not raw or (len(raw) == 1 and raw[0] < 0x80):
        raise Refused("typed transaction too short")
    if raw[0] < 0x80 and raw[0] not in (1, 2):
        raise Refused("transaction type not supported")
    try:
        tx = decode_transaction(raw)
    except ValidationError as error:
        raise Refused(f"rlp: {error}") from None
    if tx.chain_id is None:
        raise Refused("only replay-protected (EIP-155) transactions allowed over RPC")
    try:
        check_transaction_chain(tx, chain_id)
        tx.check_signature_validity()
        _ = tx.sender
    except ValidationError as error:
        text = str(error)
        raise Refused(text if text.startswith("invalid chain id") else "invalid sender") from None
    except Exception as error:
        raise Refused("invalid sender") from error  # eth_keys raises its own types on absurd signatures
    if max(tx.max_fee_per_gas, tx.max_priority_fee_per_gas, tx.value).bit_length() > 256:
        raise Refused("max fee per gas higher than 2^256-1")
    if tx.max_priority_fee_per_gas > tx.max_fee_per_gas:
        raise Refused("max priority fee per gas higher than max fee per gas")
    return tx


class Admission:
    """The pool's doorkeeper; one per node."""

    def __init__(
        self, connection: sqlite3.Connection, genesis: Genesis, announce: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._genesis = genesis
        self._announce = announce
        self._mirror = Mirror(connection, open_reader(connection, genesis))
        self._offers: queue.SimpleQueue[tuple[SignedTransactionAPI, Future[bytes]] | None] = (
            queue.SimpleQueue()
        )
        self._writes = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pool", daemon=True)
        self._thread.start()

    def submit(self, raw: bytes) -> Future[bytes]:
        """Offer a transaction; the future gives its hash once it is durable.

        Raises Refused, at once or from the future.
        """
        tx = read_transaction(raw, self._genesis.chain_id)
        future: Future[bytes] = Future()
        self._offers.put((tx, future))
        return future

    def write(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """Make another small change to the file in a commit of its own."""
        with self._writes, write_transaction(self._connection):
            change(self._connection)
        self._announce()

    def close(self) -> None:
        """Decide what was offered, then stop."""
        self._offers.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._offers.get()) is not None:
            batch, stopping = [first], False
            while len(batch) < MAX_BATCH and not self._offers.empty():
                offer = self._offers.get()
                if offer is None:
                    stopping = True
                    break
                batch.append(offer)
            self._decide(batch)
            if stopping:
                return

    def _decide(self, batch: list[tuple[SignedTransactionAPI, Future[bytes]]]) -> None:
        accepted: list[tuple[SignedTransactionAPI, Future[bytes]]] = []
        try:
            with self._writes, write_transaction(self._connection):
                self._mirror.refresh()
                for tx, future in batch:
                    try:
                        self._check(tx)
                    except Refused as refusal:
                        future.set_exception(refusal)
                        continue
                    self._connection.execute(pool.DELETE_NONCE, pool.place_of(tx))
                    self._connection.execute(pool.INSERT, pool.row_of(tx))
                    self._mirror.add(bytes(tx.sender), tx.nonce, Waiting.of(tx))
                    accepted.append((tx, future))
        except (sqlite3.Error, Unavailable) as error:
            log.exception("the pool can't be written")
            self._mirror.forget()
            for _, future in batch:
                if not future.done():
                    future.set_exception(Unavailable(f"The pool can't be written: {error}."))
            return
        if accepted:
            self._announce()
        for tx, future in accepted:
            future.set_result(bytes(tx.hash))

    def _check(self, tx: SignedTransactionAPI) -> None:
        """Apply geth's checks in geth's order (Refused)."""
        if bytes(tx.hash) in self._mirror:
            raise Refused("already known")
        if tx.gas > self._mirror.gas_limit:
            raise Refused("exceeds block gas limit")
        if tx.gas < tx.intrinsic_gas:
            raise Refused(f"intrinsic gas too low: gas {tx.gas}, minimum needed {tx.intrinsic_gas}")
        if tx.max_priority_fee_per_gas < MIN_TIP:
            raise Refused(
                f"transaction underpriced: gas tip cap {tx.max_priority_fee_per_gas}, "
                f"minimum needed {MIN_TIP}"
            )
        sender = self._mirror.sender(bytes(tx.sender))
        if tx.nonce < sender.next_nonce:
            raise Refused(f"nonce too low: next nonce {sender.next_nonce}, tx nonce {tx.nonce}")
        if tx.nonce >= 2**64 - 1:
            raise Refused("nonce has max value")
        if sender.is_contract:
            raise Refused("sender not an eoa")
        replaced = sender.waiting.get(tx.nonce)
        self._check_funds(tx, sender, replaced)
        if replaced is not None:
            self._check_replacement(tx, replaced)
        else:
            self._check_room(tx, sender)

    @staticmethod
    def _check_funds(tx: SignedTransactionAPI, sender: Sender, replaced: Waiting | None) -> None:
        cost, balance = cost_of(tx), sender.balance
        if balance < cost:
            raise Refused(
                f"insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, "
                f"overshot {cost - balance}"
            )
        queued = sender.queued_cost - (replaced.cost if replaced else 0)
        if balance < queued + cost:
            raise Refused(
                f"insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, "
                f"tx cost {cost}, overshot {queued + cost - balance}"
            )

    @staticmethod
    def _check_replacement(tx: SignedTransactionAPI, replaced: Waiting) -> None:
        def bumped(price: int) -> int:
            return price * (100 + PRICE_BUMP_PERCENT) // 100

        enough = tx.max_fee_per_gas >= bumped(replaced.max_fee)
        enough &= tx.max_priority_fee_per_gas >= bumped(replaced.tip)
        higher = tx.max_fee_per_gas > replaced.max_fee and tx.max_priority_fee_per_gas > replaced.tip
        if not (enough and higher):
            raise Refused("replacement transaction underpriced")

    def _check_room(self, tx: SignedTransactionAPI, sender: Sender) -> None:
        if tx.nonce > sender.first_gap and sender.beyond_gap >= MAX_FUTURE_PER_SENDER:
            raise Refused(
                f"account limit exceeded: {sender.beyond_gap} transactions wait for nonce {sender.first_gap}"
            )
        if len(sender.waiting) >= MAX_PER_SENDER:
            raise Refused(f"account limit exceeded: pooled {len(sender.waiting)} txs")
        if len(self._mirror) >= MAX_POOL:
            raise Refused("txpool is full")
