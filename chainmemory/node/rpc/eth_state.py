"""eth_*: balances, code, storage, nonces and Merkle proofs after a block."""

from __future__ import annotations

from typing import Any

from chainmemory.node import pool
from chainmemory.node.proofs import prove_account
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.params import BlockRef, ProofKey
from chainmemory.node.rpc.registry import Param, method
from chainmemory.node.rpc.shapes import hexed

LATEST = Param(params.block, BlockRef(tag="latest"))
MOST_PROOF_KEYS = 1024


@method("eth_getBalance", params.address, LATEST)
def get_balance(context: Context, address: bytes, ref: BlockRef) -> str:
    return hex(context.state(ref).get_balance(address))  # type: ignore[arg-type]


@method("eth_getCode", params.address, LATEST)
def get_code(context: Context, address: bytes, ref: BlockRef) -> str:
    return hexed(context.state(ref).get_code(address))  # type: ignore[arg-type]


@method("eth_getStorageAt", params.address, params.storage_key, LATEST)
def get_storage_at(context: Context, address: bytes, key: bytes, ref: BlockRef) -> str:
    value = context.state(ref).get_storage(address, int.from_bytes(key, "big"))  # type: ignore[arg-type]
    return hexed(value.to_bytes(32, "big"))


@method("eth_getTransactionCount", params.address, LATEST)
def get_transaction_count(context: Context, address: bytes, ref: BlockRef) -> str:
    nonce = context.state(ref).get_nonce(address)  # type: ignore[arg-type]
    if ref.tag == "pending":
        nonce = pool.next_nonce(context.connection, address, nonce)
    return hex(nonce)


@method("eth_getProof", params.address, params.list_of(params.proof_key, MOST_PROOF_KEYS), LATEST, slow=True)
def get_proof(context: Context, address: bytes, keys: list[ProofKey], ref: BlockRef) -> Any:
    root = context.header(ref).state_root
    proof = prove_account(context.database, root, address, [key.slot for key in keys])
    return {
        "address": hexed(address),
        "balance": hex(proof.balance),
        "nonce": hex(proof.nonce),
        "codeHash": hexed(proof.code_hash),
        "storageHash": hexed(proof.storage_root),
        "accountProof": [hexed(node) for node in proof.nodes],
        "storageProof": [
            {"key": key.name, "value": hex(slot.value), "proof": [hexed(node) for node in slot.nodes]}
            for key, slot in zip(keys, proof.slots, strict=True)
        ],
    }
