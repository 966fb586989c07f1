"""debug_getRaw*: the consensus bytes, which the other authorities and auditors pull."""

from __future__ import annotations

from chainmemory.node.formats import encode_block, encode_header
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import RpcError
from chainmemory.node.rpc.eth_chain import get_raw_transaction
from chainmemory.node.rpc.params import BlockRef
from chainmemory.node.rpc.registry import method
from chainmemory.node.rpc.shapes import hexed


@method("debug_getRawBlock", params.block)
def get_raw_block(context: Context, ref: BlockRef) -> str:
    return hexed(encode_block(context.block(context.header(ref))))


@method("debug_getRawHeader", params.block)
def get_raw_header(context: Context, ref: BlockRef) -> str:
    return hexed(encode_header(context.header(ref)))


@method("debug_getRawReceipts", params.block)
def get_raw_receipts(context: Context, ref: BlockRef) -> list[str]:
    block = context.block(context.header(ref))
    return [hexed(receipt.encode()) for receipt in block.get_receipts(context.chain.chaindb)]


@method("debug_getRawTransaction", params.hash32)
def debug_get_raw_transaction(context: Context, tx_hash: bytes) -> str:
    raw = get_raw_transaction(context, tx_hash)
    if raw is None:
        raise RpcError("transaction not found")
    return raw
