"""`POST /rpc`: the embedded chain's read methods and `eth_sendRawTransaction`, bounded."""

from __future__ import annotations

from typing import Any, Final

import httpx
import orjson

from api.answers import FREE
from api.door import Answer, Call, Doors
from chainmemory.engine.shapes import Anything
from chainmemory.errors import NotFound, TooLarge, Unavailable

doors = Doors("Chain and operations")

MAX_BATCH: Final = 50
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
METHODS: Final = frozenset(
    {
        "eth_blockNumber",
        "eth_call",
        "eth_chainId",
        "eth_estimateGas",
        "eth_feeHistory",
        "eth_gasPrice",
        "eth_getBalance",
        "eth_getBlockByHash",
        "eth_getBlockByNumber",
        "eth_getBlockReceipts",
        "eth_getBlockTransactionCountByHash",
        "eth_getBlockTransactionCountByNumber",
        "eth_getCode",
        "eth_getLogs",
        "eth_getProof",
        "eth_getStorageAt",
        "eth_getTransactionByBlockHashAndIndex",
        "eth_getTransactionByBlockNumberAndIndex",
        "eth_getTransactionByHash",
        "eth_getTransactionCount",
        "eth_getTransactionReceipt",
        "eth_maxPriorityFeePerGas",
        "eth_sendRawTransaction",
        "eth_syncing",
        "net_listening",
        "net_version",
        "web3_clientVersion",
        "clique_getSigner",
        "clique_getSigners",
        "clique_getSignersAtHash",
        "clique_getSnapshot",
        "clique_getSnapshotAtHash",
        "clique_status",
    }
)
_REQUEST: Final = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["integer", "string", "null"]},
        "method": {"type": "string"},
        "params": {"type": ["array", "object"]},
    },
}


@doors.post(
    "/rpc",
    needs="public",
    summary="JSON-RPC of the embedded chain",
    description="Read methods and eth_sendRawTransaction; other methods answer error -32601. "
    f"A batch has at most {MAX_BATCH} requests. 404 where this deployment anchors on another chain.",
    body=Anything(
        {"anyOf": [_REQUEST, {"type": "array", "items": _REQUEST, "minItems": 1, "maxItems": MAX_BATCH}]}
    ),
    body_example={"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []},
    answer={"anyOf": [FREE, {"type": "array", "items": FREE}]},
    example={"jsonrpc": "2.0", "id": 1, "result": "0x2a"},
    errors=(404, 413, 503),
)
async def rpc(call: Call) -> Answer:
    if not call.engine.settings.embedded:
        raise NotFound("This deployment anchors on another chain; /v1/chain says which node to ask.")
    body = call.body
    if isinstance(body, list) and not 1 <= len(body) <= MAX_BATCH:
        return Answer(_error(None, -32600, f"A batch has 1 to {MAX_BATCH} requests, not {len(body)}."))
    requests = body if isinstance(body, list) else [body]
    refusals = [_refusal(request) for request in requests]
    allowed = [request for request, refusal in zip(requests, refusals, strict=True) if refusal is None]
    told = await _forward(call, allowed) if allowed else []
    answers = [refusal for refusal in refusals if refusal is not None] + told
    if not isinstance(body, list):
        # A notification gets no answer from the node; HTTP needs one all the same.
        return Answer(answers[0] if answers else b"", media="application/json")
    return Answer(answers)


def _refusal(request: Any) -> dict[str, Any] | None:
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return _error(None, -32600, 'A request is an object with "jsonrpc": "2.0" and a string "method".')
    if request["method"] not in METHODS:
        return _error(request.get("id"), -32601, "This method doesn't exist or isn't offered here.")
    return None


def _error(request_id: Any, code: int, message: str) -> dict[str, Any]:
    known = request_id if isinstance(request_id, int | str) and not isinstance(request_id, bool) else None
    return {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": message}}


async def _forward(call: Call, requests: list[dict[str, Any]]) -> list[Any]:
    """Ask the node. Raises Unavailable; nothing of its address is told."""
    client = call.site.http()
    try:
        async with client.stream(
            "POST", call.engine.settings.chain_url, content=orjson.dumps(requests), headers=_HEADERS
        ) as answer:
            answer.raise_for_status()
            chunks, size = [], 0
            async for chunk in answer.aiter_bytes():
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    raise TooLarge("The node's answer is too large; ask for less at once.")
                chunks.append(chunk)
        told = orjson.loads(b"".join(chunks)) if size else []
    except (httpx.HTTPError, orjson.JSONDecodeError):
        raise Unavailable(
            "The embedded chain doesn't answer now; try again.", code="chain_unavailable"
        ) from None
    return told if isinstance(told, list) else [told]


_HEADERS: Final = {"content-type": "application/json"}
