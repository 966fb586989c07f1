"""The evidence tree beyond the vectors: forged proofs, growth, odd sizes (protocol §6)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from chainmemory.errors import IntegrityError, Invalid, NotFound
from chainmemory.protocol.evidence import (
    EMPTY,
    EvidenceTree,
    Proof,
    evidence_root,
    inclusion_proof,
    verify_inclusion,
)
from chainmemory.protocol.hashing import ZERO, tagged_hash

HASHES = ["0x" + hashlib.sha256(bytes([n])).hexdigest() for n in range(70)]


def reference(leaves: list[bytes]) -> bytes:
    """RFC 9162's definition, word for word."""
    if len(leaves) == 1:
        return tagged_hash("CM_EVIDENCE_LEAF_V1", leaves[0])
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return tagged_hash("CM_EVIDENCE_NODE_V1", reference(leaves[:split]) + reference(leaves[split:]))


@pytest.mark.parametrize("size", [*range(1, 35), 63, 64, 65, 70])
def test_root_and_proofs_of_every_small_size(size: int) -> None:
    hashes = HASHES[:size]
    root = "0x" + reference(sorted(bytes.fromhex(one[2:]) for one in hashes)).hex()
    assert evidence_root(hashes) == root
    for event_hash in hashes:
        verify_inclusion(event_hash, inclusion_proof(hashes, event_hash), root)


def test_a_tree_that_grows_equals_one_made_at_once() -> None:
    for step in (1, 3, 7):
        tree = EMPTY
        for end in range(step, len(HASHES), step):
            tree = tree.adding(HASHES[end - step : end])
            assert tree.root == evidence_root(HASHES[:end])
            assert list(tree) == sorted(HASHES[:end])
            assert tree == EvidenceTree.of(HASHES[:end])
            assert len(tree) == end


def test_adding_what_is_there_gives_the_same_tree() -> None:
    tree = EvidenceTree.of(HASHES[:9])
    assert tree.adding(HASHES[3:6]) is tree
    assert tree.adding([]) is tree
    bigger = tree.adding(HASHES[8:10])
    assert (len(tree), len(bigger)) == (9, 10)
    assert HASHES[9] in bigger
    assert HASHES[9] not in tree
    assert "no hash" not in tree


def test_nothing_is_zero_and_can_not_be_proved() -> None:
    assert evidence_root([]) == EMPTY.root == ZERO
    with pytest.raises(NotFound):
        inclusion_proof(HASHES[:3], HASHES[5])


@pytest.mark.parametrize("bad", ["", "0x12", HASHES[0].upper(), None])
def test_a_hash_of_another_form_is_invalid(bad: Any) -> None:
    with pytest.raises(Invalid):
        evidence_root([bad])
    with pytest.raises(Invalid):
        verify_inclusion(bad, inclusion_proof(HASHES[:3], HASHES[0]), ZERO)


class TestForgedProofs:
    hashes = HASHES[:11]
    proof = inclusion_proof(HASHES[:11], HASHES[4])
    root = evidence_root(HASHES[:11])

    def refused(self, proof: Proof, event_hash: str = HASHES[4]) -> None:
        with pytest.raises(IntegrityError):
            verify_inclusion(event_hash, proof, self.root)

    def test_the_honest_one_holds(self) -> None:
        verify_inclusion(HASHES[4], self.proof, self.root)

    def test_for_another_hash(self) -> None:
        self.refused(self.proof, HASHES[5])

    def test_with_another_index_or_size(self) -> None:
        for index in range(-1, 13):
            if index != self.proof.index:
                self.refused(replace(self.proof, index=index))
        for size in (0, 1, self.proof.index, 2**60):
            self.refused(replace(self.proof, size=size))
        self.refused(replace(self.proof, index=True))

    def test_with_a_path_too_short_too_long_or_changed(self) -> None:
        path = self.proof.path
        self.refused(replace(self.proof, path=path[:-1]))
        self.refused(replace(self.proof, path=[*path, HASHES[0]]))
        self.refused(replace(self.proof, path=[]))
        for at in range(len(path)):
            self.refused(replace(self.proof, path=[*path[:at], HASHES[60], *path[at + 1 :]]))
        self.refused(replace(self.proof, path=path[::-1]))

    def test_against_another_root(self) -> None:
        with pytest.raises(IntegrityError):
            verify_inclusion(HASHES[4], self.proof, ZERO)

    def test_an_inner_node_is_no_leaf(self) -> None:
        two = HASHES[:2]
        proof = inclusion_proof(HASHES[:4], sorted(HASHES[:4])[0])
        inner = "0x" + reference(sorted(bytes.fromhex(one[2:]) for one in two)).hex()
        with pytest.raises(IntegrityError):
            verify_inclusion(inner, replace(proof, size=2, path=proof.path[1:]), evidence_root(HASHES[:4]))
