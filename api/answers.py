"""The answers' shapes as JSON Schema. Objects are exact: every key listed is there, and no other."""

from __future__ import annotations

from typing import Any

from chainmemory.engine.anchors import STATUSES
from chainmemory.protocol.event import CATEGORIES

Schema = dict[str, Any]


def obj(properties: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Describe an object with exactly these keys; `optional` ones may be absent."""
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": {**properties, **(optional or {})},
    }


def many(of: Schema) -> Schema:
    """Describe an array."""
    return {"type": "array", "items": of}


def maybe(of: Schema) -> Schema:
    """Describe a value or null."""
    return {"anyOf": [of, {"type": "null"}]}


def one_of(*allowed: str) -> Schema:
    """Describe one of a few strings."""
    return {"type": "string", "enum": list(allowed)}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "integer", "minimum": 1}
FLAG: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}
FREE: Schema = {"type": "object"}
TIME: Schema = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
}
UNIX: Schema = {"type": "integer", "description": "Unix seconds"}
HEX32: Schema = {"type": "string", "pattern": "^0x[0-9a-f]{64}$"}
SHA256: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
SLUG: Schema = {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"}
CATEGORY: Schema = one_of(*CATEGORIES)
STATUS: Schema = one_of(*STATUSES)
TX: Schema = maybe(HEX32)

WHY_NOT: dict[str, Schema] = {
    "reason": {**TEXT, "description": "why it isn't anchored yet"},
    "next_attempt_at": {**TIME, "description": "when the worker tries again"},
}
ANCHOR: Schema = obj(
    {
        "status": maybe(STATUS),
        "onchain_anchor_id": maybe(TEXT),
        "tx_hash": TX,
        "block_number": maybe(COUNT),
    },
    WHY_NOT,
)
PROOF: Schema = obj({"root": HEX32, "index": COUNT, "size": NUMBER, "path": many(HEX32)})
ANCHOR_STATUS: Schema = obj({"status": maybe(STATUS)})
CHAIN: Schema = obj(
    {
        "chainId": maybe(COUNT),
        "contract_name": TEXT,
        "contract": maybe(TEXT),
        "rpc": maybe(TEXT),
        "explorer": maybe(TEXT),
    }
)
