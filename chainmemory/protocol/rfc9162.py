"""RFC 9162's tree (§2.1), whatever its leaves and hash: levels, paths, and the climb from leaf to root.

A level is a list of nodes; level 0 are the leaves, the last level is the root alone. A node without a sibling
moves up unchanged, which is the RFC's split at the largest power of two: no leaf is ever doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chainmemory.errors import IntegrityError
from chainmemory.protocol.hashing import hex32, parse_hex32

Level = list[bytes]
NodeHash = Callable[[bytes, bytes], bytes]
"""Hashes two children into their parent, in the tree's own domain."""


def raise_levels(leaves: Level, node: NodeHash, old: Sequence[Level] = (), first: int = 0) -> list[Level]:
    """Compute all levels over `leaves`, keeping `old`'s nodes that cover only leaves left of `first`."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        below, height = levels[-1], len(levels)
        # These nodes are full: each covers 2^height leaves, all of them left of the first change.
        level = old[height][: first >> height] if height < len(old) else []
        pairs = range(2 * len(level), len(below) - 1, 2)
        level.extend([node(below[left], below[left + 1]) for left in pairs])
        if len(below) % 2:
            level.append(below[-1])
        levels.append(level)
    return levels


def path_to_root(levels: Sequence[Level], index: int) -> list[str]:
    """Return the siblings (hex32) from the leaf at `index` (from 0) up to the root."""
    path, position = [], index
    for level in levels[:-1]:
        if (sibling := position ^ 1) < len(level):
            path.append(hex32(level[sibling]))
        position >>= 1
    return path


def climb(leaf: bytes, index: int, size: int, path: Sequence[str], node: NodeHash) -> bytes:
    """Return the root that a leaf's path (hex32 siblings) leads to in a tree of `size` leaves.

    Source: RFC 9162 §2.1.3.2.
    Raises: IntegrityError if such a tree has no such path; Invalid if a sibling has no hex32 form.
    """
    if type(index) is not int or type(size) is not int or not 0 <= index < size:
        raise IntegrityError(f"the proof's leaf index {index} is not below its tree size {size}")
    position, last, reached = index, size - 1, leaf
    for step in path:
        sibling = parse_hex32(step)
        if last == 0:
            raise IntegrityError("the proof's path is longer than its tree is high")
        if position & 1 or position == last:
            reached = node(sibling, reached)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            reached = node(reached, sibling)
        position, last = position >> 1, last >> 1
    if last != 0:
        raise IntegrityError("the proof's path is shorter than its tree is high")
    return reached
