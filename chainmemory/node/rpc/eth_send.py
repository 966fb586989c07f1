"""eth_sendRawTransaction."""

from __future__ import annotations

from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.registry import method
from chainmemory.node.rpc.shapes import hexed


@method("eth_sendRawTransaction", params.data)
def send_raw_transaction(context: Context, raw: bytes) -> str:
    return hexed(context.submit(raw))
