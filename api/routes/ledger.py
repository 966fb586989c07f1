"""The ledger: is anything changed, what is in it, and sealing what was put in past the server."""

from __future__ import annotations

from typing import Any

import orjson

from api.answers import COUNT, FLAG, FREE, SHA256, TEXT, TX, many, maybe, obj, one_of
from api.door import Answer, Call, Doors
from api.paging import LIMIT, limit_in
from chainmemory.engine import ledger_seal, ledger_verify
from chainmemory.engine.once import Written
from chainmemory.engine.shapes import Boolean, Field, Integer, Record

doors = Doors("Ledger")

_NAMES = {**many(TEXT), "description": "`memory:7`, `fact:ID@2`, `state:SLUG@3`"}
REPORT = obj(
    {
        "ok": {
            **maybe(FLAG),
            "description": "null where the chain can't be reached and nothing else is wrong",
        },
        "chain": one_of("empty", "intact", "broken", "repaired"),
        "entries": COUNT,
        "broken_at": {**maybe(COUNT), "description": "position of the first failure, from 1"},
        "reason": maybe(one_of("unparseable", "seq", "prev", "hash")),
        "sealed": COUNT,
        "altered": _NAMES,
        "missing": _NAMES,
        "unsealed": _NAMES,
        "disputed": _NAMES,
        "forgotten": COUNT,
        "head": obj({"seq": COUNT, "hash": SHA256}),
        "anchored_head": obj(
            {
                "seq": maybe(COUNT),
                "hash": maybe(SHA256),
                "matches": maybe(FLAG),
                "tx_hash": TX,
            }
        ),
    }
)
_HASH = "ed968e840d10d2d313a870bc131a4e2c311d7ad09bdf32b3418147221f51a6e2"
_REPORT = {
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
    "head": {"seq": 4213, "hash": _HASH},
    "anchored_head": {"seq": 4210, "hash": _HASH, "matches": True, "tx_hash": "0x" + _HASH},
}
_ENTRY = {
    "seq": 1,
    "ts": "2026-09-13T22:02:35.000000Z",
    "op": "save",
    "memory_id": "1",
    "content_sha256": _HASH,
    "blob_sha256": _HASH,
    "prev": "0" * 64,
    "hash": _HASH,
}


@doors.get(
    "/v1/ledger/verify",
    needs="read",
    summary="Check the account's whole ledger, and everything it seals",
    description="Walks the hash chain, compares every memory and state version with what its entry sealed, "
    "and the anchored heads with the contract. The routine check needs no key of yours; `deep` decrypts and "
    "recomputes everything too. Filing changes nothing here. 429 where other checks are running.",
    query=Record({"deep": Field(Boolean(), note="default false")}),
    answer=REPORT,
    example=_REPORT,
    errors=(429,),
)
def verify_ledger(call: Call) -> dict[str, Any]:
    return ledger_verify.verify(call.engine, call.caller, deep=bool(call.query["deep"]))


@doors.get(
    "/v1/ledger",
    needs="read",
    summary="List ledger entries",
    description="Ascending from seq `from`. `total` is the seq of the last entry; `next_from` is the next "
    'page\'s `from`, null on the last one. An entry that is no JSON any more is `{"seq","unparseable"}`.',
    query=Record({"from": Field(Integer(1), note="default 1"), **LIMIT}),
    answer=obj({"entries": many(FREE), "total": COUNT, "next_from": maybe(COUNT)}),
    example={"entries": [_ENTRY], "total": 1, "next_from": None},
)
def list_ledger(call: Call) -> dict[str, Any]:
    return ledger_verify.entries(
        call.engine, call.caller, first=call.query["from"] or 1, limit=limit_in(call.query)
    )


@doors.get(
    "/v1/ledger/export",
    needs="read",
    summary="The whole chain as ledger.jsonl",
    description="One entry a line, byte for byte as it was hashed.",
    answer=TEXT,
    example=orjson.dumps(_ENTRY, option=orjson.OPT_SORT_KEYS).decode() + "\n",
    media="application/x-ndjson",
)
def export_ledger(call: Call) -> Answer:
    return Answer(
        ledger_verify.export(call.engine, call.caller),
        media="application/x-ndjson",
        headers=((b"content-disposition", b'attachment; filename="ledger.jsonl"'),),
    )


@doors.post(
    "/v1/ledger/seal",
    needs="owner",
    summary="Adopt what was put into the store past the server",
    description="Each unsealed record that can be read gets an entry with op `adopt`; an altered one never "
    "does. 409 with the report in `details.report` where the chain is broken (`ledger_broken`), an anchored "
    "head is gone (`head_missing`) or the chain holds another hash of a record (`chain_mismatch`). After "
    "a restore `accept_break` with a `reason` goes on knowingly: an entry names what is accepted, and the "
    "chain is `repaired` from then on, never plain intact and never `ok`. 503 where there is something "
    "to seal and the chain can't be asked.",
    body=ledger_seal.SEAL,
    body_required=False,
    body_example={"accept_break": True, "reason": "restored from Tuesday's backup"},
    once=True,
    answer=obj({"sealed": _NAMES, "report": REPORT}),
    example={"sealed": ["memory:7"], "report": _REPORT},
    errors=(429,),
)
def seal_ledger(call: Call) -> Written:
    return ledger_seal.seal(call.engine, call.caller, call.once, call.body)
