"""The ledgers of agents kept as files, for this machine's user or whoever holds the admin token."""

from __future__ import annotations

from typing import Any

from api.answers import COUNT, HEX32, SHA256, STATUS, TEXT, TX, many, maybe, obj
from api.door import Call, Doors
from api.routes.ledger import REPORT
from chainmemory.engine import ledger_files

doors = Doors("Ledger")

_REPORT = obj({"agent_id": TEXT, **REPORT["properties"]})
_EXAMPLE = {
    "agent_id": "cc",
    "ok": True,
    "chain": "intact",
    "entries": 4213,
    "broken_at": None,
    "reason": None,
    "sealed": 4213,
    "altered": [],
    "missing": [],
    "unsealed": [],
    "disputed": [],
    "forgotten": 0,
    "head": {"seq": 4213, "hash": "ab" * 32},
    "anchored_head": {"seq": 4210, "hash": "cd" * 32, "matches": True, "tx_hash": "0x" + "ef" * 32},
}
_WHO = (
    "For programs on the server's own machine, on the conditions of POST /v1/keys, or with its admin token. "
    "`agent_id` is the name of a folder in the server's agents folder (CHAINMEMORY_AGENTS_DIR), never a link."
)


@doors.get(
    "/ledger/verify",
    needs="local",
    summary="Check the ledger of an agent kept as files",
    description=f"{_WHO} `deep` reads every line a second time, by the slow and exact reader.",
    query=ledger_files.VERIFY,
    answer=_REPORT,
    example=_EXAMPLE,
    errors=(401, 404, 409, 503),
)
def verify_files(call: Call) -> dict[str, Any]:
    return ledger_files.verify_files(call.engine, **call.query)


@doors.post(
    "/ledger/seal",
    needs="local",
    summary="Seal an agent's unsealed files",
    description=f"{_WHO} Adopts every unsealed record, never an altered one; 409 `ledger_broken` or "
    "`head_missing` with the report in `details`. `root`, where given, must be the server's agents folder "
    "(409 `other_root`): a caller that sees the files makes sure that both mean the same ones.",
    body=ledger_files.SEAL,
    body_example={"agent_id": "cc"},
    answer=obj({"sealed": many(TEXT), "report": _REPORT}),
    example={"sealed": ["9f1c02"], "report": _EXAMPLE},
    errors=(401, 404, 409, 503),
)
def seal_files(call: Call) -> dict[str, Any]:
    return ledger_files.seal_files(call.engine, **call.body)


@doors.post(
    "/ledger/anchor",
    needs="local",
    summary="Anchor the head of an agent's ledger",
    description=f"{_WHO} Puts the head in the worker's queue, once, and says how far it is: call it again to "
    "see. Never a broken ledger's, nor one that lacks a head that is on chain (409).",
    body=ledger_files.SEAL,
    body_example={"agent_id": "cc"},
    answer=obj(
        {
            "agent_id": TEXT,
            "ledger_id": HEX32,
            "seq": COUNT,
            "hash": SHA256,
            "anchor": obj(
                {"status": STATUS, "tx_hash": TX, "block_number": maybe(COUNT), "reason": maybe(TEXT)}
            ),
        }
    ),
    example={
        "agent_id": "cc",
        "ledger_id": "0x" + "12" * 32,
        "seq": 4213,
        "hash": "ab" * 32,
        "anchor": {"status": "pending", "tx_hash": None, "block_number": None, "reason": None},
    },
    errors=(401, 404, 409, 503),
)
def anchor_files(call: Call) -> dict[str, Any]:
    return ledger_files.anchor_files(call.engine, **call.body)
