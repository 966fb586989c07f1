"""The evidence tree: one root over a set of event hashes, with proofs (protocol §6, RFC 9162 §2.1)."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from chainmemory.errors import IntegrityError, Invalid, NotFound
from chainmemory.protocol.hashing import ZERO, hex32, parse_hex32
from chainmemory.protocol.rfc9162 import climb, path_to_root, raise_levels

_LEAF: Final = b"CM_EVIDENCE_LEAF_V1\x00"
_NODE: Final = b"CM_EVIDENCE_NODE_V1\x00"


@dataclass(frozen=True, slots=True)
class Proof:
    """That one hash is in a tree of `size` leaves: its leaf `index` and the siblings from leaf to root."""

    index: int
    size: int
    path: list[str]


def evidence_root(hashes: Iterable[str]) -> str:
    """Compute the root over a set of event hashes (hex32, any order, duplicates dropped); ZERO for none."""
    return EvidenceTree.of(hashes).root


def inclusion_proof(hashes: Iterable[str], event_hash: str) -> Proof:
    """Prove that `event_hash` is one of `hashes`; NotFound if it isn't."""
    return EvidenceTree.of(hashes).proof(event_hash)


def verify_inclusion(event_hash: str, proof: Proof, root: str) -> None:
    """Check a proof against a root as RFC 9162 §2.1.3.2 says.

    Raises: IntegrityError if it doesn't hold; Invalid if a hash in it has no hex32 form.
    """
    reached = climb(_leaf(parse_hex32(event_hash)), proof.index, proof.size, proof.path, _node)
    if reached != parse_hex32(root):
        raise IntegrityError("the proof leads to another root")


class EvidenceTree:
    """An immutable set of event hashes with its tree.

    A larger set made by `adding` keeps every node left of the first new leaf, so a long history of citations
    isn't hashed again for each new one. Iterating gives the hashes as hex32, ascending.
    """

    __slots__ = ("_hashes", "_levels")

    def __init__(self, hashes: list[bytes], levels: list[list[bytes]] | None = None) -> None:
        self._hashes = hashes
        self._levels = levels  # made when the root is first asked for

    @classmethod
    def of(cls, hashes: Iterable[str]) -> EvidenceTree:
        """Make the tree of a set of hex32 event hashes; Invalid for another form."""
        return cls(sorted({parse_hex32(text) for text in hashes}))

    def adding(self, hashes: Iterable[str]) -> EvidenceTree:
        """Return the tree of this set and the given hex32 hashes; the same tree if none is new."""
        merged, leaves, first = self._hashes, self._levels and self._levels[0], len(self._hashes)
        for new in sorted({parse_hex32(text) for text in hashes}):
            at = bisect_left(merged, new)
            if at < len(merged) and merged[at] == new:
                continue
            if merged is self._hashes:
                merged, leaves, first = merged.copy(), leaves and leaves.copy(), at
            merged.insert(at, new)
            if leaves:
                leaves.insert(at, _leaf(new))
        if merged is self._hashes:
            return self
        kept = leaves and self._levels
        return EvidenceTree(merged, raise_levels(leaves, _node, kept, first) if leaves and kept else None)

    @property
    def root(self) -> str:
        """The root as hex32, ZERO for the empty set."""
        return hex32(self._nodes()[-1][0]) if self._hashes else ZERO

    def proof(self, event_hash: str) -> Proof:
        """Prove that `event_hash` is in this set; NotFound if it isn't, Invalid if it is no hex32."""
        wanted = parse_hex32(event_hash)
        index = bisect_left(self._hashes, wanted)
        if index == len(self._hashes) or self._hashes[index] != wanted:
            raise NotFound("this event hash is not among the evidence")
        return Proof(index, len(self._hashes), path_to_root(self._nodes(), index))

    def __contains__(self, event_hash: object) -> bool:
        try:
            wanted = parse_hex32(event_hash)  # type: ignore[arg-type]
        except Invalid:
            return False
        index = bisect_left(self._hashes, wanted)
        return index < len(self._hashes) and self._hashes[index] == wanted

    def __iter__(self) -> Iterator[str]:
        return (hex32(value) for value in self._hashes)

    def __len__(self) -> int:
        return len(self._hashes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EvidenceTree) and self._hashes == other._hashes

    def __hash__(self) -> int:
        return hash(tuple(self._hashes))

    def _nodes(self) -> list[list[bytes]]:
        if self._levels is None:
            self._levels = raise_levels([_leaf(value) for value in self._hashes], _node)
        return self._levels


EMPTY: Final = EvidenceTree([])


def _leaf(value: bytes) -> bytes:
    return hashlib.sha3_256(_LEAF + value).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha3_256(_NODE + left + right).digest()
