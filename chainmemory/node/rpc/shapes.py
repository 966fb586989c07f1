"""Blocks, transactions, receipts and logs as JSON-RPC shows them (field names and forms as in geth)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainmemory.node.evm import BlockAPI, BlockHeaderAPI, ReceiptAPI, SignedTransactionAPI
from chainmemory.node.formats import base_fee_of, contract_address, encode_block
from chainmemory.node.logs import StoredLog

BLOOM_DIGITS = 512
SUCCESS = b"\x01"


def hexed(value: bytes) -> str:
    """Return bytes as JSON-RPC's data."""
    return "0x" + value.hex()


def header_json(header: BlockHeaderAPI) -> dict[str, Any]:
    """Return a header's fields."""
    return {
        "number": hex(header.block_number),
        "hash": hexed(header.hash),
        "parentHash": hexed(header.parent_hash),
        "nonce": hexed(header.nonce),
        "mixHash": hexed(header.mix_hash),
        "sha3Uncles": hexed(header.uncles_hash),
        "logsBloom": f"0x{header.bloom:0{BLOOM_DIGITS}x}",
        "transactionsRoot": hexed(header.transaction_root),
        "stateRoot": hexed(header.state_root),
        "receiptsRoot": hexed(header.receipt_root),
        "miner": hexed(header.coinbase),
        "difficulty": hex(header.difficulty),
        "extraData": hexed(header.extra_data),
        "gasLimit": hex(header.gas_limit),
        "gasUsed": hex(header.gas_used),
        "timestamp": hex(header.timestamp),
        "baseFeePerGas": hex(base_fee_of(header)),
    }


def block_json(block: BlockAPI, total_difficulty: int, full: bool) -> dict[str, Any]:
    """Return a block with its transactions' hashes, or with all of them."""
    shape = header_json(block.header)
    shape["totalDifficulty"] = hex(total_difficulty)
    shape["size"] = hex(len(encode_block(block)))
    shape["uncles"] = []
    shape["transactions"] = [
        transaction_json(transaction, block.header, index) if full else hexed(transaction.hash)
        for index, transaction in enumerate(block.transactions)
    ]
    return shape


def transaction_type(transaction: SignedTransactionAPI) -> int:
    """Return 0 (legacy), 1 (access list) or 2 (dynamic fee)."""
    return transaction.type_id or 0


def effective_price(transaction: SignedTransactionAPI, base_fee: int) -> int:
    """Return what a unit of gas costs in a block with this base fee, in wei."""
    return min(transaction.max_fee_per_gas, base_fee + transaction.max_priority_fee_per_gas)


def transaction_json(
    transaction: SignedTransactionAPI, header: BlockHeaderAPI | None, index: int | None
) -> dict[str, Any]:
    """Return a transaction; without a header it is waiting in the pool."""
    kind = transaction_type(transaction)
    price = effective_price(transaction, base_fee_of(header)) if header else transaction.max_fee_per_gas
    shape: dict[str, Any] = {
        "blockHash": hexed(header.hash) if header else None,
        "blockNumber": hex(header.block_number) if header else None,
        "transactionIndex": hex(index) if index is not None else None,
        "hash": hexed(transaction.hash),
        "from": hexed(transaction.sender),
        "to": hexed(transaction.to) if transaction.to else None,
        "type": hex(kind),
        "nonce": hex(transaction.nonce),
        "value": hex(transaction.value),
        "gas": hex(transaction.gas),
        "gasPrice": hex(price),
        "input": hexed(transaction.data),
        "r": hex(transaction.r),
        "s": hex(transaction.s),
    }
    if transaction.chain_id is not None:
        shape["chainId"] = hex(transaction.chain_id)
    if kind == 0:
        shape["v"] = hex(transaction.v)  # type: ignore[attr-defined]
        return shape
    shape["v"] = shape["yParity"] = hex(transaction.y_parity)
    shape["accessList"] = [
        {"address": hexed(address), "storageKeys": [hexed(slot.to_bytes(32, "big")) for slot in slots]}
        for address, slots in transaction.access_list
    ]
    if kind == 2:
        shape["maxFeePerGas"] = hex(transaction.max_fee_per_gas)
        shape["maxPriorityFeePerGas"] = hex(transaction.max_priority_fee_per_gas)
    return shape


def receipt_json(
    transaction: SignedTransactionAPI,
    receipt: ReceiptAPI,
    header: BlockHeaderAPI,
    index: int,
    gas_before: int,
    logs: Sequence[StoredLog],
) -> dict[str, Any]:
    """Return a receipt; `gas_before` is the gas used by the block's earlier transactions."""
    return {
        "transactionHash": hexed(transaction.hash),
        "transactionIndex": hex(index),
        "blockHash": hexed(header.hash),
        "blockNumber": hex(header.block_number),
        "from": hexed(transaction.sender),
        "to": hexed(transaction.to) if transaction.to else None,
        "contractAddress": None if transaction.to else hexed(contract_address(transaction)),
        "cumulativeGasUsed": hex(receipt.gas_used),
        "gasUsed": hex(receipt.gas_used - gas_before),
        "effectiveGasPrice": hex(effective_price(transaction, base_fee_of(header))),
        "logs": [log_json(log, header.hash) for log in logs],
        "logsBloom": f"0x{receipt.bloom:0{BLOOM_DIGITS}x}",
        "type": hex(transaction_type(transaction)),
        "status": "0x1" if receipt.state_root == SUCCESS else "0x0",
    }


def log_json(log: StoredLog, block_hash: bytes) -> dict[str, Any]:
    """Return a log of a canonical block."""
    return {
        "address": hexed(log.address),
        "topics": [hexed(topic) for topic in log.topics],
        "data": hexed(log.data),
        "blockNumber": hex(log.block),
        "blockHash": hexed(block_hash),
        "transactionHash": hexed(log.tx_hash),
        "transactionIndex": hex(log.tx_index),
        "logIndex": hex(log.log_index),
        "removed": False,
    }
