"""Merkle mode as verifiers see it: a state's proof, checked against a root that the chain holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from chainmemory.anchoring.roots import RootProof, under_a_root
from chainmemory.chain.merkle import State, verify_state_in_root
from chainmemory.errors import IntegrityError, Invalid, NotFound, Unavailable
from chainmemory.store.outbox_rows import OutboxRow

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

HOW_TO_VERIFY: Final = (
    " A version with a proof was anchored under a Merkle root: find the RootAnchored event of proof.root in "
    "its transaction, and call verifyInRoot(bytes32 root, (bytes32 projectId, uint64 version, bytes32 "
    "stateHash), uint256 index, uint256 size, bytes32[] path) on the same contract; it returns true."
)


def proof_json(proof: RootProof) -> dict[str, Any]:
    """Return a proof as the doors tell it: what `verifyInRoot` takes beside the state."""
    root, place, _ = proof
    return {"root": root, "index": place.index, "size": place.size, "path": list(place.path)}


def is_under_root(
    engine: Engine, row: OutboxRow, state_hash: str, proofs: Mapping[int, RootProof]
) -> bool | None:
    """Say whether `state_hash` is the one that a row's root vouches for.

    None where the chain can't be asked, or doesn't hold the root in the row's block; False where no proof
    leads from the hash to the root, or the store no longer holds what a proof is made of.
    """
    if not under_a_root(row):
        return None
    proof = proofs.get(row.id)
    if proof is None:
        return False
    try:
        verify_state_in_root(State(row.subject, row.position, state_hash), proof.proof, proof.root)
        return True if engine.chain.root_is_anchored(proof.root, proof.block_number) else None
    except (IntegrityError, Invalid):
        return False
    except (Unavailable, NotFound):
        return None
