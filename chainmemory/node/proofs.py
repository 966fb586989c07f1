"""Merkle proofs of accounts and storage slots (EIP-1186)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rlp  # type: ignore[import-untyped]
from rlp.sedes import big_endian_int  # type: ignore[import-untyped]
from trie.hexary import HexaryTrie

from chainmemory.node.database import ReadDatabase
from chainmemory.node.evm import Account, DatabaseAPI, Hash32, keccak

EMPTY_ROOT = keccak(b"\x80")


@dataclass(frozen=True)
class SlotProof:
    """A storage slot's value and the nodes from the storage root to it (or to where it is absent)."""

    key: bytes
    value: int
    nodes: tuple[bytes, ...]


@dataclass(frozen=True)
class AccountProof:
    """An account's fields and the nodes from the state root to it (or to where it is absent).

    An absent account has zeros for its hashes, as in geth.
    """

    balance: int
    nonce: int
    code_hash: bytes
    storage_root: bytes
    nodes: tuple[bytes, ...]
    slots: tuple[SlotProof, ...]


def prove_account(
    database: ReadDatabase, state_root: bytes, address: bytes, keys: Sequence[bytes]
) -> AccountProof:
    """Prove an account and some of its storage slots (32 byte keys) under a state root."""
    raw, nodes = _path(database, state_root, keccak(address))
    if not raw:
        absent = tuple(SlotProof(key, 0, ()) for key in keys)
        return AccountProof(0, 0, bytes(32), bytes(32), nodes, absent)
    account = rlp.decode(raw, sedes=Account)
    slots = []
    for key in keys:
        stored: bytes = b""
        path: tuple[bytes, ...] = ()
        if account.storage_root != EMPTY_ROOT:
            stored, path = _path(database, account.storage_root, keccak(key))
        slots.append(SlotProof(key, int(rlp.decode(stored, sedes=big_endian_int)) if stored else 0, path))
    return AccountProof(
        account.balance, account.nonce, account.code_hash, account.storage_root, nodes, tuple(slots)
    )


def _path(database: DatabaseAPI, root: bytes, key: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the value at `key` (empty when absent) and the RLP of the nodes from the root towards it.

    A node short enough to be part of its parent is not listed by itself.
    """
    trie: Any = HexaryTrie(database, Hash32(root))
    nodes = [bytes(rlp.encode(node)) for node in trie.get_proof(key)]
    return bytes(trie[key]), tuple(node for i, node in enumerate(nodes) if i == 0 or len(node) >= 32)
