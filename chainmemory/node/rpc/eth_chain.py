"""eth_*: blocks, transactions and receipts."""

from __future__ import annotations

from typing import Any

from chainmemory.node import logs, pool
from chainmemory.node.evm import BlockHeaderAPI, TransactionNotFound
from chainmemory.node.formats import decode_transaction
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import RpcError
from chainmemory.node.rpc.params import BlockRef
from chainmemory.node.rpc.registry import Param, method
from chainmemory.node.rpc.shapes import block_json, hexed, receipt_json, transaction_json

PENDING_IN_BLOCK = 1000
"""The pending block shows at most so many waiting transactions."""


@method("eth_chainId")
def chain_id(context: Context) -> str:
    return hex(context.genesis.chain_id)


@method("eth_syncing")
def syncing(_context: Context) -> bool:
    return False


@method("eth_accounts")
def accounts(_context: Context) -> list[str]:
    return []  # the node signs blocks, never transactions


@method("eth_mining")
def mining(context: Context) -> bool:
    return context.config.seal


@method("eth_blockNumber")
def block_number(context: Context) -> str:
    return hex(context.head.block_number)


@method("eth_getBlockByNumber", params.block_number, Param(params.boolean, False))
def get_block_by_number(context: Context, ref: BlockRef, full: bool) -> Any:
    if ref.tag == "pending":
        return _pending_block(context, full)
    return _block(context, ref, full)


@method("eth_getBlockByHash", params.hash32, Param(params.boolean, False))
def get_block_by_hash(context: Context, block_hash: bytes, full: bool) -> Any:
    return _block(context, BlockRef(hash=block_hash), full)


@method("eth_getHeaderByNumber", params.block_number)
def get_header_by_number(context: Context, ref: BlockRef) -> Any:
    return _header(context, ref)


@method("eth_getHeaderByHash", params.hash32)
def get_header_by_hash(context: Context, block_hash: bytes) -> Any:
    return _header(context, BlockRef(hash=block_hash))


@method("eth_getBlockTransactionCountByNumber", params.block_number)
def get_block_transaction_count_by_number(context: Context, ref: BlockRef) -> str | None:
    if ref.tag == "pending":
        return hex(min(pool.count(context.connection), PENDING_IN_BLOCK))
    return _transaction_count(context, ref)


@method("eth_getBlockTransactionCountByHash", params.hash32)
def get_block_transaction_count_by_hash(context: Context, block_hash: bytes) -> str | None:
    return _transaction_count(context, BlockRef(hash=block_hash))


@method("eth_getUncleCountByBlockNumber", params.block_number)
def get_uncle_count_by_number(context: Context, ref: BlockRef) -> str | None:
    return "0x0" if context.find_header(ref) else None


@method("eth_getUncleCountByBlockHash", params.hash32)
def get_uncle_count_by_hash(context: Context, block_hash: bytes) -> str | None:
    return "0x0" if context.find_header(BlockRef(hash=block_hash)) else None


@method("eth_getUncleByBlockNumberAndIndex", params.block_number, params.index)
def get_uncle_by_number(_context: Context, _ref: BlockRef, _index: int) -> None:
    return None  # a Clique block has no uncles


@method("eth_getUncleByBlockHashAndIndex", params.hash32, params.index)
def get_uncle_by_hash(_context: Context, _block_hash: bytes, _index: int) -> None:
    return None


@method("eth_getTransactionByHash", params.hash32)
def get_transaction_by_hash(context: Context, tx_hash: bytes) -> Any:
    place = find_transaction(context, tx_hash)
    if place is None:
        waiting = pool.find(context.connection, tx_hash)
        return transaction_json(decode_transaction(waiting.raw), None, None) if waiting else None
    header, index = place
    transaction = context.chain.get_canonical_transaction_by_index(header.block_number, index)
    return transaction_json(transaction, header, index)


@method("eth_getTransactionByBlockNumberAndIndex", params.block_number, params.index)
def get_transaction_by_number(context: Context, ref: BlockRef, index: int) -> Any:
    return _transaction_at(context, ref, index)


@method("eth_getTransactionByBlockHashAndIndex", params.hash32, params.index)
def get_transaction_by_block_hash(context: Context, block_hash: bytes, index: int) -> Any:
    return _transaction_at(context, BlockRef(hash=block_hash), index)


@method("eth_getRawTransactionByHash", params.hash32)
def get_raw_transaction(context: Context, tx_hash: bytes) -> str | None:
    place = find_transaction(context, tx_hash)
    if place is None:
        waiting = pool.find(context.connection, tx_hash)
        return hexed(waiting.raw) if waiting else None
    header, index = place
    return hexed(context.chain.get_canonical_transaction_by_index(header.block_number, index).encode())


@method("eth_getTransactionReceipt", params.hash32)
def get_transaction_receipt(context: Context, tx_hash: bytes) -> Any:
    place = find_transaction(context, tx_hash)
    if place is None:
        return None
    header, index = place
    number, chain = header.block_number, context.chain
    gas_before = chain.get_transaction_receipt_by_index(number, index - 1).gas_used if index else 0
    return receipt_json(
        chain.get_canonical_transaction_by_index(number, index),
        chain.get_transaction_receipt_by_index(number, index),
        header,
        index,
        gas_before,
        logs.of_block(context.connection, number, index),
    )


@method("eth_getBlockReceipts", params.block, slow=True)
def get_block_receipts(context: Context, ref: BlockRef) -> Any:
    header = context.find_header(ref)
    if header is None:
        return None
    if not context.is_canonical(header):
        raise RpcError("receipts are kept for the canonical chain only")
    block = context.block(header)
    by_transaction: dict[int, list[logs.StoredLog]] = {}
    for log in logs.of_block(context.connection, header.block_number):
        by_transaction.setdefault(log.tx_index, []).append(log)
    shapes, gas_before = [], 0
    receipts = block.get_receipts(context.chain.chaindb)
    for index, (transaction, receipt) in enumerate(zip(block.transactions, receipts, strict=True)):
        found = by_transaction.get(index, [])
        shapes.append(receipt_json(transaction, receipt, header, index, gas_before, found))
        gas_before = receipt.gas_used
    return shapes


def find_transaction(context: Context, tx_hash: bytes) -> tuple[BlockHeaderAPI, int] | None:
    """Return the canonical block and position of a transaction, None where there is none."""
    try:
        number, index = context.chain.get_canonical_transaction_index(tx_hash)  # type: ignore[arg-type]
    except TransactionNotFound:
        return None
    return context.header(BlockRef(number=number)), index


def _header(context: Context, ref: BlockRef) -> Any:
    header = context.find_header(ref)
    if header is None:
        return None
    shape = block_json(context.block(header), context.chain.get_score(header.hash), False)
    del shape["transactions"], shape["uncles"], shape["size"]
    return shape


def _block(context: Context, ref: BlockRef, full: bool) -> Any:
    header = context.find_header(ref)
    if header is None:
        return None
    return block_json(context.block(header), context.chain.get_score(header.hash), full)


def _pending_block(context: Context, full: bool) -> Any:
    """Return what the next block may look like: the head's child, not executed, without hash and seal."""
    head = context.head
    child = context.chain.create_header_from_parent(
        head, timestamp=head.timestamp + context.genesis.period, difficulty=1, gas_limit=head.gas_limit
    )
    waiting = [
        decode_transaction(entry.raw) for entry in pool.everything(context.connection, limit=PENDING_IN_BLOCK)
    ]
    empty = context.chain.get_vm(child).get_block()
    shape = block_json(empty, context.chain.get_score(head.hash) + 1, False)
    shape.update(dict.fromkeys(("hash", "nonce", "miner", "totalDifficulty"), None))
    shape["transactions"] = [
        transaction_json(transaction, None, None) if full else hexed(transaction.hash)
        for transaction in waiting
    ]
    return shape


def _transaction_count(context: Context, ref: BlockRef) -> str | None:
    header = context.find_header(ref)
    return hex(len(context.block(header).transactions)) if header else None


def _transaction_at(context: Context, ref: BlockRef, index: int) -> Any:
    header = context.find_header(ref)
    if header is None:
        return None
    transactions = context.block(header).transactions
    return transaction_json(transactions[index], header, index) if index < len(transactions) else None
