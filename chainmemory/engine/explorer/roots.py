"""Versions anchored under a Merkle root: their trees made again, and the roots looked for on the chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chainmemory.anchoring.roots import RootProof, root_proofs, under_a_root
from chainmemory.chain.artifacts import STATE_ANCHOR
from chainmemory.engine.chain_view import Contracts
from chainmemory.engine.explorer.decode import event_topics
from chainmemory.engine.explorer.scan import Scan, look_back
from chainmemory.engine.explorer.visit import Visit
from chainmemory.store.outbox_rows import OutboxRow


@dataclass(frozen=True, slots=True)
class Rooted:
    """A version that this server says is under a root, and in which block the contract logged it."""

    root: str
    block_number: int
    leads: bool
    """The tree over the hashes that this server names has that root."""
    asked: bool
    """The node was asked for the event, and answered."""
    tx_hash: str | None
    """Of the event; None where it isn't in that block."""


def under_roots(visit: Visit, rows: Iterable[OutboxRow]) -> dict[int, Rooted]:
    """Return what became of the rows that were anchored under a root, by version.

    A root that is computed from the hashes named here and is on the chain vouches for them all.
    """
    rooted = [row for row in rows if under_a_root(row)]
    contracts = visit.contracts
    if not rooted or contracts is None:
        return {}
    with visit.db.read() as tx:
        proofs = root_proofs(tx, rooted)
    scan = _look_for(visit, contracts, list(proofs.values())) if proofs else None
    logged = {(log.topics[1], log.block_number): log.tx_hash for log in scan.logs} if scan else {}
    found = {}
    for row in rooted:
        root, block = row.anchor_id or "", row.block_number or 0
        leads = row.id in proofs
        asked = scan is not None and leads and not scan.refused and scan.first <= block
        found[row.position] = Rooted(root, block, leads, asked, logged.get((root, block)) if leads else None)
    return found


def _look_for(visit: Visit, contracts: Contracts, proofs: Sequence[RootProof]) -> Scan:
    """Look for the roots' events, in the blocks where this server says they are and nowhere else."""
    roots = sorted({proof.root for proof in proofs})
    blocks = [proof.block_number for proof in proofs]
    return look_back(
        visit.reader,
        visit.pace,
        contracts.anchors.address,
        [event_topics(STATE_ANCHOR, "RootAnchored"), roots],
        top=min(max(blocks), visit.head.number),
        floor=min(blocks),
        want=len({(proof.root, proof.block_number) for proof in proofs}),
    )
