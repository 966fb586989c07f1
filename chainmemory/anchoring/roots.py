"""Merkle mode: many states under one root on chain (docs/contracts.md, Merkle mode).

Nothing is stored for it beside the transaction: its outbox rows are the tree's leaves, in their order, and
what is in a row's place never changes. So whoever has the store makes any proof again, after whatever crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chainmemory.anchoring.station import ROOT
from chainmemory.chain.merkle import State, StateTree
from chainmemory.protocol.evidence import Proof
from chainmemory.store.outbox_rows import ANCHORED, STATE, OutboxRow
from chainmemory.store.tx import Tx

MOST_LEAVES = 512
"""More save nothing worth having (52 gas a state), and a proof needs the whole tree."""


class RootProof(NamedTuple):
    """That a state is under an anchored root: what `verifyInRoot` takes beside the state."""

    root: str
    proof: Proof
    block_number: int


def tree_of(rows: Sequence[OutboxRow]) -> StateTree:
    """Return the tree over states' outbox rows, in their order."""
    return StateTree([State(row.subject, row.position, row.hash) for row in rows])


def under_a_root(row: OutboxRow) -> bool:
    """Say whether a row was anchored by a root: its anchor id is that, where a contract's own is decimal."""
    return row.kind == STATE and row.status == ANCHORED and (row.anchor_id or "").startswith("0x")


def root_proofs(tx: Tx, rows: Sequence[OutboxRow]) -> dict[int, RootProof]:
    """Return the proof of each row that was anchored by a root, by outbox id.

    A row is left out where the store no longer holds what its root was made of.
    """
    proofs: dict[int, RootProof] = {}
    by_transaction: dict[str, list[OutboxRow]] = {}
    for row in rows:
        if under_a_root(row) and row.tx_hash is not None:
            by_transaction.setdefault(row.tx_hash, []).append(row)
    for tx_hash, wanted in by_transaction.items():
        sent = tx.transactions.get(tx_hash)
        if sent is None or sent.purpose != ROOT:
            continue
        held = {leaf.id: leaf for leaf in tx.outbox.by_ids(sent.outbox_ids)}
        if len(held) < len(sent.outbox_ids):
            continue
        tree = tree_of([held[outbox_id] for outbox_id in sent.outbox_ids])
        for row in wanted:
            if row.anchor_id == tree.root and row.block_number is not None:
                index = sent.outbox_ids.index(row.id)
                proofs[row.id] = RootProof(tree.root, tree.proof(index), row.block_number)
    return proofs
