"""What every step of the worker has at hand: the store, the node, the signer, the contracts, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chainmemory.anchoring.clock import Clock
from chainmemory.anchoring.options import Options
from chainmemory.anchoring.plan import runs
from chainmemory.chain.anchor_contract import HeadItem, StateAnchors, StateItem
from chainmemory.chain.deploy import Deployment
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.registry import MemoryBatch, MemoryRegistry, Payload
from chainmemory.chain.signer import Signer
from chainmemory.protocol.identity import account_ref, ledger_id
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import OutboxRow
from chainmemory.store.transactions import TransactionRow
from chainmemory.store.tx import Tx

# A transaction's purpose, besides the kinds of outbox rows (memory, state, head).
DEPLOY = "deploy:"
FILL = "fill"
ROOT = "root"
"""States under one Merkle root; the leaves are the transaction's outbox rows, in their order."""

Step = Callable[[str], None]


def no_step(_: str) -> None:
    """Do nothing at a named step; fault tests give something that kills the process."""


@dataclass(frozen=True)
class Contracts:
    """Both contracts, checked to be there."""

    deployment: Deployment
    anchors: StateAnchors
    registry: MemoryRegistry


@dataclass(frozen=True)
class Station:
    """The worker's surroundings on one chain. `step` is called with a name between any two effects."""

    db: Database
    gateway: Gateway
    signer: Signer
    options: Options
    clock: Clock
    chain_id: int
    step: Step = no_step

    @property
    def policy(self) -> FeePolicy:
        return FeePolicy(self.options.max_fee)

    def open_transactions(self, tx: Tx) -> list[TransactionRow]:
        """Return our transactions that are signed, sent or mined but not confirmed, by nonce."""
        return tx.transactions.open(self.chain_id, self.signer.address)


def state_item(row: OutboxRow) -> StateItem:
    """Return what the contract takes for a state's outbox row."""
    return StateItem(row.subject, row.position, row.hash)


def head_item(row: OutboxRow) -> HeadItem:
    """Return what the contract takes for a head's outbox row (the ledger's hashes have no `0x`)."""
    return HeadItem(ledger_id(row.subject), row.position, f"0x{row.hash}")


def memory_batches(rows: list[OutboxRow], payloads: dict[int, Payload] | None = None) -> list[MemoryBatch]:
    """Group memories' outbox rows, in call order, into the batches that `recordMany` takes.

    `payloads` are by outbox id.
    """
    known = payloads or {}
    batches = []
    for indexes in runs([(row.subject, row.position) for row in rows]):
        run = [rows[index] for index in indexes]
        batches.append(
            MemoryBatch(
                account_ref(run[0].subject),
                run[0].position,
                tuple(row.hash for row in run),
                tuple(known.get(row.id) for row in run),
            )
        )
    return batches
