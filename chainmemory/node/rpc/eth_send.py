"""eth_sendRawTransaction."""

from __future__ import annotations

from concurrent.futures import Future

from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.registry import method


@method("eth_sendRawTransaction", params.data)
def send_raw_transaction(context: Context, raw: bytes) -> Future[bytes]:
    """Offer a transaction; the future gives its hash once it is durable, or Refused."""
    return context.submit(raw)
