"""eth_*: what gas costs."""

from __future__ import annotations

from typing import Any

from chainmemory.node.evm import BlockHeaderAPI
from chainmemory.node.formats import base_fee_of
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import RpcError
from chainmemory.node.rpc.params import BlockRef
from chainmemory.node.rpc.registry import Param, method
from chainmemory.node.rpc.shapes import effective_price

SUGGESTED_TIP = 1_000_000_000
MOST_BLOCKS = 1024


@method("eth_gasPrice")
def gas_price(context: Context) -> str:
    return hex(_next_base_fee(context, context.head) + SUGGESTED_TIP)


@method("eth_maxPriorityFeePerGas")
def max_priority_fee(_context: Context) -> str:
    return hex(SUGGESTED_TIP)


@method("eth_feeHistory", params.count, params.block_number, Param(params.number_list, ()), slow=True)
def fee_history(context: Context, blocks: int, newest: BlockRef, percentiles: list[float]) -> Any:
    if any(not 0 <= p <= 100 for p in percentiles) or sorted(percentiles) != list(percentiles):
        raise RpcError("invalid reward percentile: they must rise from 0 to 100")
    head = context.head.block_number
    if newest.number is not None and newest.number > head:
        raise RpcError(f"request beyond head block: requested {newest.number}, head {head}")
    last = context.header(newest)
    blocks = min(blocks, MOST_BLOCKS, last.block_number + 1)
    if blocks == 0:
        return {"oldestBlock": "0x0", "gasUsedRatio": None}
    headers = [context.header(BlockRef(number=last.block_number - i)) for i in reversed(range(blocks))]
    history: dict[str, Any] = {
        "oldestBlock": hex(headers[0].block_number),
        "baseFeePerGas": [hex(base_fee_of(header)) for header in headers]
        + [hex(_next_base_fee(context, last))],
        "gasUsedRatio": [header.gas_used / header.gas_limit for header in headers],
    }
    if percentiles:
        history["reward"] = [_rewards(context, header, percentiles) for header in headers]
    return history


def _next_base_fee(context: Context, header: BlockHeaderAPI) -> int:
    child = context.chain.create_header_from_parent(
        header, timestamp=header.timestamp + 1, difficulty=1, gas_limit=header.gas_limit
    )
    return base_fee_of(child)


def _rewards(context: Context, header: BlockHeaderAPI, percentiles: list[float]) -> list[str]:
    """Return the tips at the percentiles of gas used, as geth weighs them."""
    if not header.gas_used:
        return ["0x0"] * len(percentiles)
    block, base_fee = context.block(header), base_fee_of(header)
    tips, before = [], 0
    for transaction, receipt in zip(
        block.transactions, block.get_receipts(context.chain.chaindb), strict=True
    ):
        tips.append((effective_price(transaction, base_fee) - base_fee, receipt.gas_used - before))
        before = receipt.gas_used
    tips.sort()
    rewards, index, passed = [], 0, tips[0][1]
    for percentile in percentiles:
        while passed < header.gas_used * percentile / 100 and index < len(tips) - 1:
            index += 1
            passed += tips[index][1]
        rewards.append(hex(tips[index][0]))
    return rewards
