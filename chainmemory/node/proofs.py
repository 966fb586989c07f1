"""Merkle proofs of accounts and storage slots (EIP-1186)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chainmemory.node.database import ReadDatabase
from chainmemory.node.vm import Account, keccak, rlp_decode, rlp_decode_integer, trie_proof

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
    raw, nodes = trie_proof(database, state_root, keccak(address))
    if not raw:
        absent = tuple(SlotProof(key, 0, ()) for key in keys)
        return AccountProof(0, 0, bytes(32), bytes(32), nodes, absent)
    account = rlp_decode(raw, Account)
    slots = []
    for key in keys:
        stored: bytes = b""
        path: tuple[bytes, ...] = ()
        if account.storage_root != EMPTY_ROOT:
            stored, path = trie_proof(database, account.storage_root, keccak(key))
        slots.append(SlotProof(key, rlp_decode_integer(stored) if stored else 0, path))
    return AccountProof(
        account.balance, account.nonce, account.code_hash, account.storage_root, nodes, tuple(slots)
    )
