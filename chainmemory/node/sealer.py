"""Put waiting transactions into a block and seal it with an authority's key."""

from __future__ import annotations

import heapq
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from eth_keys.datatypes import PrivateKey

from chainmemory.node import pool
from chainmemory.node.blocks import BlockStore, Change
from chainmemory.node.clique import (
    IN_TURN,
    NO_SEAL,
    NO_SUBJECT,
    NONCE_AUTHORIZE,
    NONCE_DROP,
    OUT_OF_TURN,
    seal,
)
from chainmemory.node.evm import BlockHeaderAPI, ReceiptAPI, SignedTransactionAPI, StateAPI, ValidationError
from chainmemory.node.formats import base_fee_of, decode_admitted
from chainmemory.node.genesis import VANITY
from chainmemory.node.vm import CliqueVM

log = logging.getLogger("chainmemory.node")

WORK_SECONDS = 0.75
"""How long a block may be filled, per second of period: the other authorities need as long to execute it."""


LEAST_BASE_FEE = 7
"""Wei; from here on an eighth of it is less than one, so that it falls no further."""


class Work(Enum):
    """Why a block could be sealed."""

    NONE = "nothing waits that a block would help"
    BASE_FEE = "something waits for a lower base fee, and each block with room to spare lowers it"
    TRANSACTIONS = "something can be executed"


@dataclass(frozen=True)
class Turn:
    """What this authority may do on top of a head."""

    difficulty: int
    vote: tuple[bytes, bool] | None
    """(subject, authorize) of the vote the block would carry."""
    signers: tuple[bytes, ...]


class _Poison(Exception):
    """A transaction that the EVM fails on by a bug; with it in the pool no block would be sealed again."""

    def __init__(self, tx_hash: bytes) -> None:
        super().__init__(tx_hash.hex())
        self.tx_hash = tx_hash


@dataclass
class _Filling:
    """A block being filled."""

    header: BlockHeaderAPI
    transactions: list[SignedTransactionAPI] = field(default_factory=list)
    receipts: list[ReceiptAPI] = field(default_factory=list)
    unusable: list[bytes] = field(default_factory=list)


class Sealer:
    """Seals blocks for one authority key on one chain."""

    def __init__(self, store: BlockStore, key: PrivateKey, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.key = key
        self.address = bytes(key.public_key.to_canonical_address())
        self.clock = clock

    def turn(self, head: BlockHeaderAPI) -> Turn | None:
        """Say what may be sealed on `head`; None when this key is no signer or has to wait for others."""
        number = head.block_number + 1
        snapshot = self.store.signers_after(head)
        if self.address not in snapshot.signers or snapshot.must_wait(self.address, number):
            return None
        difficulty = IN_TURN if snapshot.in_turn(number) == self.address else OUT_OF_TURN
        vote = None
        if number % self.store.genesis.epoch:
            for subject, authorize in proposals(self.store.connection).items():
                wanted = snapshot.is_vote_meaningful(subject, authorize)
                if wanted and not snapshot.has_voted(self.address, subject, authorize):
                    vote = (subject, authorize)
                    break
        return Turn(difficulty, vote, snapshot.signers)

    def work(self, head: BlockHeaderAPI) -> Work:
        """Say what the pool has for a block on top of `head`."""
        state = self.store.chain.state_after(head)
        queue = _Queue(self.store.connection, state, base_fee_of(self._next_header(head, None)))
        if queue.has_candidates:
            return Work.TRANSACTIONS
        return Work.BASE_FEE if queue.waits_for_base_fee else Work.NONE

    def seal(self, *, allow_empty: bool = True) -> Change | None:
        """Seal one block on the head and store it.

        None when this key must not seal now, or the block would be empty and may not be.
        """
        head = self.store.head
        turn = self.turn(head)
        if turn is None:
            return None
        try:
            filling, vm = self._fill(head, turn)
            if not (filling.transactions or turn.vote or allow_empty):
                self.store.drop_waiting(filling.unusable)
                return None
            block = vm.set_block_transactions_and_withdrawals(
                vm.get_block(), filling.header, filling.transactions, filling.receipts
            )
            block = vm.mine_block(block).block
            block = block.copy(header=seal(block.header, self.key))
            return self.store.append(block, filling.receipts, filling.unusable)
        except _Poison as poison:
            log.exception("transaction 0x%s breaks the EVM and is dropped", poison.tx_hash.hex())
            self.store.drop_waiting([poison.tx_hash])
            return None
        finally:
            self.store.database.forget()

    def _next_header(self, head: BlockHeaderAPI, turn: Turn | None) -> BlockHeaderAPI:
        number = head.block_number + 1
        checkpoint = turn is not None and number % self.store.genesis.epoch == 0
        subject, authorize = (turn.vote if turn else None) or (NO_SUBJECT, False)
        return self.store.chain.create_header_from_parent(
            head,
            timestamp=max(int(self.clock()), head.timestamp + self.store.genesis.period),
            difficulty=turn.difficulty if turn else OUT_OF_TURN,
            gas_limit=head.gas_limit,
            coinbase=subject,
            nonce=NONCE_AUTHORIZE if authorize else NONCE_DROP,
            mix_hash=bytes(32),
            extra_data=VANITY + (b"".join(turn.signers) if turn and checkpoint else b"") + NO_SEAL,
        )

    def _fill(self, head: BlockHeaderAPI, turn: Turn) -> tuple[_Filling, CliqueVM]:
        """Execute waiting transactions, best paid first, until the gas, the time or the pool is used up."""
        filling = _Filling(self._next_header(head, turn))
        vm = self.store.chain.get_vm(filling.header)
        assert isinstance(vm, CliqueVM)
        vm.seal_as(self.address)
        deadline = time.monotonic() + WORK_SECONDS * self.store.genesis.period
        queue = _Queue(self.store.connection, vm.state, base_fee_of(filling.header))
        for transaction in queue:
            if transaction.gas > filling.header.gas_limit:
                filling.unusable.append(bytes(transaction.hash))
                continue
            if filling.header.gas_used + transaction.gas > filling.header.gas_limit:
                continue
            if filling.transactions and time.monotonic() > deadline:
                break
            try:
                receipt, _ = vm.apply_transaction(filling.header, transaction)
            except ValidationError as error:  # refused before it changed anything
                log.warning("dropping transaction 0x%s: %s", transaction.hash.hex(), error)
                filling.unusable.append(bytes(transaction.hash))
                continue
            except Exception as error:
                raise _Poison(bytes(transaction.hash)) from error
            filling.header = vm.add_receipt_to_header(filling.header, receipt)
            filling.transactions.append(transaction)
            filling.receipts.append(receipt)
            queue.advance()
        filling.unusable += queue.outdated
        return filling, vm


class _Queue:
    """The pool in the order a block takes it: by tip, then by arrival; per sender by nonce without gaps.

    Iterating gives one candidate at a time; `advance` after one was executed puts its sender's next in line.
    """

    def __init__(self, connection: sqlite3.Connection, state: StateAPI, base_fee: int) -> None:
        self.outdated: list[bytes] = []
        self._base_fee = base_fee
        self._waiting: dict[bytes, list[pool.Entry]] = {}
        self._line: list[tuple[int, int, bytes, SignedTransactionAPI]] = []
        self._current: bytes | None = None
        self.waits_for_base_fee = False
        for entry in pool.everything(connection):
            self._waiting.setdefault(entry.sender, []).append(entry)
        for sender, entries in self._waiting.items():
            entries.sort(key=lambda entry: entry.nonce, reverse=True)
            nonce = state.get_nonce(sender)  # type: ignore[arg-type]
            while entries and entries[-1].nonce < nonce:
                self.outdated.append(entries.pop().hash)
            self._enqueue(sender, nonce)

    @property
    def has_candidates(self) -> bool:
        """Say whether anything could be executed now."""
        return bool(self._line)

    def __iter__(self) -> Iterator[SignedTransactionAPI]:
        while self._line:
            _, _, self._current, transaction = heapq.heappop(self._line)
            yield transaction

    def advance(self) -> None:
        """Put the next transaction of the sender whose last one was executed in line."""
        assert self._current is not None
        done = self._waiting[self._current].pop()
        self._enqueue(self._current, done.nonce + 1)

    def _enqueue(self, sender: bytes, nonce: int) -> None:
        entries = self._waiting[sender]
        if not entries or entries[-1].nonce != nonce:
            return
        transaction = decode_admitted(entries[-1].raw, sender)
        tip = min(transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas - self._base_fee)
        if tip >= 0:
            heapq.heappush(self._line, (-tip, entries[-1].seq, sender, transaction))
        elif transaction.max_fee_per_gas >= LEAST_BASE_FEE:
            self.waits_for_base_fee = True


def proposals(connection: sqlite3.Connection) -> dict[bytes, bool]:
    """Return the votes this node wants to cast: address → authorise or drop."""
    rows = connection.execute("SELECT address, authorize FROM proposals ORDER BY address")
    return {address: bool(authorize) for address, authorize in rows}


def propose(connection: sqlite3.Connection, subject: bytes, authorize: bool) -> None:
    """Want `subject` authorised (or dropped) as a signer from now on."""
    connection.execute("INSERT OR REPLACE INTO proposals VALUES (?, ?)", (subject, int(authorize)))


def discard(connection: sqlite3.Connection, subject: bytes) -> None:
    """Stop wanting anything about `subject`."""
    connection.execute("DELETE FROM proposals WHERE address = ?", (subject,))
