"""The Merkle Patricia trie of a list (a block's transactions or receipts), built in one go.

py-evm inserts item after item and hashes the path each time; building from the sorted keys hashes every node
once, which is a sixth of the time a block takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_hash.auto import keccak
from rlp.codec import encode_raw  # type: ignore[import-untyped]

EMPTY_ROOT = keccak(b"\x80")

_Pairs = list[tuple[list[int], bytes]]
"""(nibbles of the key, value), sorted; no key is the beginning of another."""


def list_trie(items: Sequence[bytes]) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the root and the nodes (hash → RLP) of the trie that maps rlp(index) to each item."""
    if not items:
        return EMPTY_ROOT, {}
    nodes: dict[bytes, bytes] = {}
    pairs = sorted((_nibbles(rlp.encode(index)), item) for index, item in enumerate(items))
    encoded = encode_raw(_build(pairs, 0, nodes))
    root = keccak(encoded)
    nodes[root] = encoded
    return root, nodes


def _build(pairs: _Pairs, depth: int, nodes: dict[bytes, bytes]) -> list[Any]:
    """Return the node that holds `pairs`, all of whose keys agree up to `depth`."""
    first, value = pairs[0]
    if len(pairs) == 1:
        return [_compact(first[depth:], leaf=True), value]
    last = pairs[-1][0]
    shared = depth
    while first[shared] == last[shared]:
        shared += 1
    if shared > depth:
        return [_compact(first[depth:shared], leaf=False), _refer(_build(pairs, shared, nodes), nodes)]
    branch: list[Any] = [b""] * 17
    start = 0
    while start < len(pairs):
        nibble, end = pairs[start][0][depth], start
        while end < len(pairs) and pairs[end][0][depth] == nibble:
            end += 1
        branch[nibble] = _refer(_build(pairs[start:end], depth + 1, nodes), nodes)
        start = end
    return branch


def _refer(node: list[Any], nodes: dict[bytes, bytes]) -> Any:
    """Return what a parent holds of a node: its hash, or itself when it is shorter than one."""
    encoded = encode_raw(node)
    if len(encoded) < 32:
        return node
    digest = keccak(encoded)
    nodes[digest] = encoded
    return digest


def _nibbles(key: bytes) -> list[int]:
    return [nibble for byte in key for nibble in (byte >> 4, byte & 15)]


def _compact(nibbles: list[int], *, leaf: bool) -> bytes:
    """Pack nibbles into bytes with the flags for leaf and odd length in front (Yellow Paper, appendix C)."""
    flag = 2 if leaf else 0
    packed = [flag + 1, *nibbles] if len(nibbles) % 2 else [flag, 0, *nibbles]
    return bytes(16 * high + low for high, low in zip(packed[::2], packed[1::2], strict=True))
