"""`POST /rpc`: the embedded chain's read methods and `eth_sendRawTransaction`, bounded.

The node behind it has a few threads, which its worker and this server's own pages need too. What makes it
execute or search waits here for one of a few turns, and gets less gas and time than the node gives its owner.
"""

from __future__ import annotations

from contextlib import nullcontext
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
CALL_GAS: Final = 5_000_000
"""For one call; reading a page of versions from the contract, the most that a verifier asks at once, takes
less than a quarter of it (a test measures it)."""
SLOW_SECONDS: Final = 3
"""For all that one request, batch or not, has the node do."""
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
SLOW: Final = frozenset(
    {
        "eth_call",
        "eth_estimateGas",
        "eth_feeHistory",
        "eth_getBlockReceipts",
        "eth_getLogs",
        "eth_getProof",
        "clique_status",
    }
)
"""Those that may keep the node busy for long (the node's own table says which; a test compares)."""
QUICK_BATCH: Final = 20
"""A batch of more requests is slow, whatever they are."""
_HEADERS: Final = {
    "content-type": "application/json",
    "x-rpc-seconds": str(SLOW_SECONDS),
    "x-rpc-call-gas": str(CALL_GAS),
}
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
    f"A batch has at most {MAX_BATCH} requests. A call has at most {CALL_GAS} gas, and a request "
    f"{SLOW_SECONDS} s for all its methods; few that execute or search run at once, so 429 may answer them. "
    "404 where this deployment anchors on another chain.",
    body=Anything(
        {"anyOf": [_REQUEST, {"type": "array", "items": _REQUEST, "minItems": 1, "maxItems": MAX_BATCH}]}
    ),
    body_example={"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []},
    answer={"anyOf": [FREE, {"type": "array", "items": FREE}]},
    example={"jsonrpc": "2.0", "id": 1, "result": "0x2a"},
    errors=(404, 413, 503),
    may_say_nothing=True,
)
async def rpc(call: Call) -> Answer:
    if not call.engine.settings.embedded:
        raise NotFound("This deployment anchors on another chain; /v1/chain says which node to ask.")
    body = call.body
    if isinstance(body, list) and not 1 <= len(body) <= MAX_BATCH:
        return Answer(_error(None, -32600, f"A batch has 1 to {MAX_BATCH} requests, not {len(body)}."))
    requests = body if isinstance(body, list) else [body]
    allowed = [request for request in requests if _is_offered(request)]
    refusals = [_refusal(request) for request in requests if not _is_offered(request)]
    told = await _in_turn(call, allowed) if allowed else []
    answers = [refusal for refusal in refusals if refusal is not None] + told
    if not answers:  # notifications alone
        return Answer(b"", status=204)
    return Answer(answers if isinstance(body, list) else answers[0])


def _is_offered(request: Any) -> bool:
    return (
        isinstance(request, dict) and isinstance(request.get("method"), str) and request["method"] in METHODS
    )


def _refusal(request: Any) -> dict[str, Any] | None:
    """Return the answer to what isn't offered; None to a notification, which is never answered."""
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return _error(None, -32600, 'A request is an object with "jsonrpc": "2.0" and a string "method".')
    if "id" not in request and request.get("jsonrpc") == "2.0":
        return None
    return _error(request.get("id"), -32601, "This method doesn't exist or isn't offered here.")


def _error(request_id: Any, code: int, message: str) -> dict[str, Any]:
    known = request_id if isinstance(request_id, int | str) and not isinstance(request_id, bool) else None
    return {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": message}}


async def _in_turn(call: Call, requests: list[dict[str, Any]]) -> list[Any]:
    """Ask the node, what may take long after waiting for a turn. Raises RateLimited, Unavailable."""
    slow = len(requests) > QUICK_BATCH or any(request["method"] in SLOW for request in requests)
    async with call.site.rpc_turns.turn(call.peer or "") if slow else nullcontext():
        return await _forward(call, requests)


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
