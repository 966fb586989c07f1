"""The tree of `anchorRoot`: many states under one root, with the proofs the contract checks.

RFC 9162's tree (§2.1) over states in the order they are given, hashed with keccak-256 as
contracts/src/StateMerkle.sol does. Pure: no node is asked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from eth_hash.auto import keccak

from chainmemory.errors import IntegrityError, Invalid
from chainmemory.protocol.evidence import Proof
from chainmemory.protocol.hashing import hex32, parse_hex32
from chainmemory.protocol.rfc9162 import climb, path_to_root, raise_levels

LEAF_TAG: Final = keccak(b"CM_ANCHOR_LEAF_V1")
NODE_TAG: Final = keccak(b"CM_ANCHOR_NODE_V1")
_MAX_VERSION: Final = 2**64 - 1


class State(NamedTuple):
    """One version of a project's state: `project_id` and `state_hash` are hex32, `version` fits 64 bits."""

    project_id: str
    version: int
    state_hash: str


class StateTree:
    """The tree over some states, in their order; Invalid where there is none or one isn't a state."""

    def __init__(self, states: Sequence[State]) -> None:
        if not states:
            raise Invalid("a root needs at least one state")
        self._levels = raise_levels([_leaf(state) for state in states], _node)

    @property
    def root(self) -> str:
        """What `anchorRoot` takes (hex32)."""
        return hex32(self._levels[-1][0])

    def proof(self, index: int) -> Proof:
        """Prove the state at `index` (from 0), as `verifyInRoot` takes it; IndexError if there is none."""
        size = len(self._levels[0])
        if not 0 <= index < size:
            raise IndexError(f"state {index} of {size}")
        return Proof(index, size, path_to_root(self._levels, index))


def verify_state_in_root(state: State, proof: Proof, root: str) -> None:
    """Check that a state is in the tree under a root, as the contract's `verifyInRoot` does.

    Says nothing on whether the root is on chain. Source: RFC 9162 §2.1.3.2.
    Raises: IntegrityError if the proof doesn't hold; Invalid if a hash in it has no hex32 form.
    """
    reached = climb(_leaf(state), proof.index, proof.size, proof.path, _node)
    if reached != parse_hex32(root):
        raise IntegrityError("the proof leads to another root")


def _leaf(state: State) -> bytes:
    project_id, version, state_hash = state
    if not 0 <= version <= _MAX_VERSION:
        raise Invalid(f"version {version} doesn't fit 64 bits")
    return keccak(LEAF_TAG + parse_hex32(project_id) + version.to_bytes(32, "big") + parse_hex32(state_hash))


def _node(left: bytes, right: bytes) -> bytes:
    return keccak(NODE_TAG + left + right)
