"""What the pool's doorkeeper knows without asking the file: the head's accounts, and what waits of each.

Valid until another connection changes the file, which SQLite tells; only the sealing process makes blocks, so
between its commits the head stays the one read last.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from chainmemory.node import pool
from chainmemory.node.chain import CliqueChain
from chainmemory.node.evm import Address, SignedTransactionAPI
from chainmemory.node.formats import decode_admitted


def cost_of(tx: SignedTransactionAPI) -> int:
    """Return the most a transaction can take from its sender, in wei."""
    return tx.value + tx.gas * tx.max_fee_per_gas


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a decision needs to know of a transaction in the pool; `cost` is the most it can take, in wei."""

    hash: bytes
    max_fee: int
    tip: int
    cost: int

    @classmethod
    def of(cls, tx: SignedTransactionAPI) -> Waiting:
        """Keep what matters of a transaction."""
        return cls(bytes(tx.hash), tx.max_fee_per_gas, tx.max_priority_fee_per_gas, cost_of(tx))


@dataclass
class Sender:
    """An account at the head, and its transactions in the pool from its next nonce on."""

    next_nonce: int
    balance: int
    is_contract: bool
    waiting: dict[int, Waiting] = field(default_factory=dict)
    """By nonce."""
    queued_cost: int = 0
    """Of all that wait."""
    first_gap: int = 0
    """The first nonce from the next on that nothing waiting has taken."""

    def add(self, nonce: int, waiting: Waiting) -> Waiting | None:
        """Let a transaction wait; return the one whose nonce it takes."""
        if nonce < self.next_nonce:
            return None  # outdated: the next block's sealer drops it
        replaced = self.waiting.get(nonce)
        self.waiting[nonce] = waiting
        self.queued_cost += waiting.cost - (replaced.cost if replaced else 0)
        while self.first_gap in self.waiting:
            self.first_gap += 1
        return replaced

    @property
    def beyond_gap(self) -> int:
        """How many wait for an earlier nonce."""
        return len(self.waiting) - (self.first_gap - self.next_nonce)


class Mirror:
    """The pool and the head in memory."""

    def __init__(self, connection: sqlite3.Connection, chain: CliqueChain) -> None:
        self._connection = connection
        self._chain = chain
        self._version = -1
        self._known: dict[bytes, Waiting] = {}
        self._senders: dict[bytes, Sender] = {}
        self.gas_limit = 0
        """Of the head's block."""

    def __contains__(self, tx_hash: bytes) -> bool:
        return tx_hash in self._known

    def __len__(self) -> int:
        """Return how many transactions wait."""
        return len(self._known)

    def refresh(self) -> None:
        """Read the file again if another connection has changed it."""
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return
        head = self._chain.get_canonical_head()
        self.gas_limit, self._state = head.gas_limit, self._chain.state_after(head)
        known, self._known, self._senders, self._version = self._known, {}, {}, version
        for entry in pool.everything(self._connection):
            waiting = known.get(entry.hash) or Waiting.of(decode_admitted(entry.raw, entry.sender))
            self.add(entry.sender, entry.nonce, waiting)

    def forget(self) -> None:
        """Read everything anew at the next refresh: what was added may not have reached the file."""
        self._version = -1
        self._known = {}

    def sender(self, address: bytes) -> Sender:
        """Return an account as the head and the pool have it."""
        found = self._senders.get(address)
        if found is None:
            who, state = Address(address), self._state
            nonce = state.get_nonce(who)
            found = Sender(nonce, state.get_balance(who), bool(state.get_code(who)), first_gap=nonce)
            self._senders[address] = found
        return found

    def add(self, address: bytes, nonce: int, waiting: Waiting) -> None:
        """Let a transaction wait, in place of an earlier one with its nonce."""
        replaced = self.sender(address).add(nonce, waiting)
        if replaced is not None:
            self._known.pop(replaced.hash, None)
        self._known[waiting.hash] = waiting
