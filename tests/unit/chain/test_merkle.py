"""The tree of anchorRoot against a reference written from RFC 9162's definitions, and worked values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from eth_hash.auto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.chain.merkle import State, StateTree, verify_state_in_root
from chainmemory.errors import IntegrityError, Invalid
from chainmemory.protocol.evidence import Proof
from chainmemory.protocol.hashing import hex32

HASHES = st.binary(min_size=32, max_size=32).map(hex32)
STATES = st.lists(st.builds(State, HASHES, st.integers(1, 2**64 - 1), HASHES), min_size=1, max_size=20)
WORKED = [State(hex32(bytes([n]) * 32), n, hex32(bytes([n + 16]) * 32)) for n in (1, 2, 3)]
WORKED_LEAF = "0xe62a774ceee563712b3d7a9107772ba453434be85589f36b9d3ab45931b103a8"
WORKED_ROOT = "0x9455668f4305f85188156d59dac016d7fb4d0848338e53dfc75a2197add6e606"


def leaf(state: State) -> bytes:
    """docs/contracts.md: the leaf."""
    return keccak(
        keccak(b"CM_ANCHOR_LEAF_V1")
        + bytes.fromhex(state.project_id[2:])
        + state.version.to_bytes(32, "big")
        + bytes.fromhex(state.state_hash[2:])
    )


def split(size: int) -> int:
    """RFC 9162 §2.1.1: the largest power of two smaller than `size`."""
    return 1 << (size - 1).bit_length() - 1


def head(leaves: list[bytes]) -> bytes:
    """RFC 9162 §2.1.1: MTH."""
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return keccak(keccak(b"CM_ANCHOR_NODE_V1") + head(leaves[:k]) + head(leaves[k:]))


def path(index: int, leaves: list[bytes]) -> list[bytes]:
    """RFC 9162 §2.1.3.1: PATH."""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return [*path(index, leaves[:k]), head(leaves[k:])]
    return [*path(index - k, leaves[k:]), head(leaves[:k])]


@settings(deadline=None)
@given(STATES)
def test_root_and_proofs_are_the_reference_s(states: list[State]) -> None:
    tree, leaves = StateTree(states), [leaf(state) for state in states]
    assert tree.root == hex32(head(leaves))
    for index, state in enumerate(states):
        proof = tree.proof(index)
        assert proof == Proof(index, len(states), [hex32(step) for step in path(index, leaves)])
        verify_state_in_root(state, proof, tree.root)


@settings(deadline=None)
@given(STATES, st.data())
def test_a_changed_proof_does_not_hold(states: list[State], data: st.DataObject) -> None:
    tree = StateTree(states)
    index = data.draw(st.integers(0, len(states) - 1))
    state, proof, other = states[index], tree.proof(index), hex32(keccak(b"other"))
    wrong = [
        (state._replace(project_id=other), proof, tree.root),
        (state._replace(version=state.version - 1), proof, tree.root),
        (state._replace(state_hash=other), proof, tree.root),
        (state, replace(proof, path=[*proof.path, other]), tree.root),
        (state, replace(proof, index=proof.size), tree.root),
        (state, replace(proof, index=-1), tree.root),
        (state, replace(proof, size=0), tree.root),
        (state, proof, other),
    ]
    if proof.path:
        step = data.draw(st.integers(0, len(proof.path) - 1))
        wrong.append((state, replace(proof, path=proof.path[:-1]), tree.root))
        changed = [other if at == step else value for at, value in enumerate(proof.path)]
        wrong.append((state, replace(proof, path=changed), tree.root))
    for given_state, given_proof, root in wrong:
        with pytest.raises(IntegrityError):
            verify_state_in_root(given_state, given_proof, root)


@pytest.mark.parametrize(("index", "size"), [(1, 2), (0, 1)])
def test_a_path_longer_than_its_tree_is_refused_even_where_it_leads_to_the_root(
    index: int, size: int
) -> None:
    """The last of 4 leaves isn't number 1 of 2, though the hashes on the way are the same."""
    states = [*WORKED, WORKED[0]._replace(version=4)]
    tree = StateTree(states)
    proof = tree.proof(3)
    verify_state_in_root(states[3], proof, tree.root)
    with pytest.raises(IntegrityError, match="longer"):
        verify_state_in_root(states[3], replace(proof, index=index, size=size), tree.root)


def test_worked_values() -> None:
    """As printed in docs/contracts.md, so that another implementation can check itself."""
    assert StateTree(WORKED[:1]).root == hex32(leaf(WORKED[0])) == WORKED_LEAF
    assert StateTree(WORKED).root == WORKED_ROOT


def test_order_is_part_of_the_root() -> None:
    assert StateTree(WORKED).root != StateTree(WORKED[::-1]).root


def test_what_is_no_state_makes_no_tree() -> None:
    with pytest.raises(Invalid):
        StateTree([])
    for wrong in [WORKED[0]._replace(version=2**64), WORKED[0]._replace(version=-1)]:
        with pytest.raises(Invalid, match="64 bits"):
            StateTree([wrong])
    with pytest.raises(Invalid):
        StateTree([WORKED[0]._replace(state_hash="0x12")])


@pytest.mark.parametrize("index", [-1, 3])
def test_a_state_outside_the_tree_has_no_proof(index: int) -> None:
    with pytest.raises(IndexError):
        StateTree(WORKED).proof(index)
