"""Public verification: what anybody may ask, answered from the contract."""

from __future__ import annotations

from typing import Any

from api.answers import (
    CHAIN,
    COUNT,
    FLAG,
    HEX32,
    NUMBER,
    PROOF,
    STATUS,
    TEXT,
    TIME,
    TX,
    WHY_NOT,
    many,
    maybe,
    obj,
    one_of,
)
from api.door import Call, Doors
from chainmemory.engine import verification
from chainmemory.engine.shapes import Field, Integer, Record, Text

doors = Doors("Public verification")

_HASH = "0xa6b6efbbff022c24b31f8080ae3f70e5572528b89e12ab497d531e6e8a56a0ee"
_ID = "0x65016e30a1c9c7c5b509a4048143e9aa9d03813c5c48fc7d2c2073a3b7bbad92"
_TIME = "2026-09-13T22:02:35.000000Z"
_CHAIN = {
    "chainId": 20250,
    "contract_name": "ProjectStateAnchor",
    "contract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
    "rpc": "http://127.0.0.1:8420/rpc",
    "explorer": None,
}


@doors.get(
    "/v1/project/{name}/state/anchor",
    needs="public",
    knows_key=True,
    summary="How a version of a project's state is anchored",
    description="`name` is a public name or a hashed id. `chain.chainId` and `confirmations` are null while "
    "the chain can't be reached.",
    params={"name": Text(1, 100)},
    query=Record({"version": Field(Integer(1), note="default: the latest")}),
    answer=obj(
        {
            "project": TEXT,
            "project_id": HEX32,
            "version": NUMBER,
            "state_hash": HEX32,
            "anchor": obj(
                {
                    "status": maybe(STATUS),
                    "onchain_anchor_id": maybe(TEXT),
                    "tx_hash": TX,
                    "block_number": maybe(COUNT),
                    "block_hash": TX,
                    "anchored_at": maybe(TIME),
                    "confirmations": maybe(COUNT),
                },
                {**WHY_NOT, "proof": PROOF},
            ),
            "chain": CHAIN,
            "how_to_verify": TEXT,
        }
    ),
    example={
        "project": "payments",
        "project_id": _ID,
        "version": 1,
        "state_hash": _HASH,
        "anchor": {
            "status": "anchored",
            "onchain_anchor_id": "1",
            "tx_hash": _HASH,
            "block_number": 3,
            "block_hash": _ID,
            "anchored_at": _TIME,
            "confirmations": 4,
        },
        "chain": _CHAIN,
        "how_to_verify": "Ask any node of the chain yourself …",
    },
    errors=(404,),
)
def get_state_anchor(call: Call) -> dict[str, Any]:
    return verification.anchor(
        call.engine, call.caller_or_none, call.path["name"], call.query["version"], call.base
    )


@doors.get(
    "/v1/verify/{public_name}",
    needs="public",
    summary="Compare a project's anchors with what the contract holds",
    description="Newest first. `onchain_state_hash` is read from the contract, never from the database. "
    "`verified` is true if the latest version is anchored and every listed anchor matches, false if one "
    "differs, null in every other case (nothing anchored yet, or the chain can't be reached). A version that "
    "was anchored under a Merkle root has its `proof`, as the contract's verifyInRoot takes it. `witness: "
    "self` says that this server runs the chain itself.",
    params={"public_name": Text(1, 100)},
    query=Record(
        {
            "limit": Field(
                Integer(1, verification.MOST_ANCHORS), note=f"default {verification.MOST_ANCHORS}"
            ),
            "cursor": Field(Text(1, 16, pattern="[0-9]+", note="the page before's next_cursor")),
        }
    ),
    answer=obj(
        {
            "project": TEXT,
            "project_id": HEX32,
            "latest_version": COUNT,
            "latest_state_hash": TX,
            "verified": maybe(FLAG),
            "chain": CHAIN,
            "anchors": many(
                obj(
                    {
                        "version": NUMBER,
                        "state_hash": HEX32,
                        "status": maybe(STATUS),
                        "anchor_id": maybe(TEXT),
                        "tx_hash": TX,
                        "block_number": maybe(COUNT),
                        "anchored_at": maybe(TIME),
                        "onchain_state_hash": TX,
                        "matches": maybe(FLAG),
                    },
                    {"proof": PROOF},
                )
            ),
            "how_to_verify": TEXT,
            "next_cursor": maybe(TEXT),
        },
        {"witness": one_of("self")},
    ),
    example={
        "project": "payments",
        "project_id": _ID,
        "latest_version": 1,
        "latest_state_hash": _HASH,
        "verified": True,
        "chain": _CHAIN,
        "anchors": [
            {
                "version": 1,
                "state_hash": _HASH,
                "status": "anchored",
                "anchor_id": "1",
                "tx_hash": _HASH,
                "block_number": 3,
                "anchored_at": _TIME,
                "onchain_state_hash": _HASH,
                "matches": True,
            }
        ],
        "how_to_verify": "Ask any node of the chain yourself …",
        "next_cursor": None,
        "witness": "self",
    },
    errors=(404,),
)
def verify_project(call: Call) -> dict[str, Any]:
    return verification.verify(
        call.engine,
        call.path["public_name"],
        limit=call.query["limit"] or verification.MOST_ANCHORS,
        cursor=verification.read_cursor(call.query["cursor"]),
        base=call.base,
    )
