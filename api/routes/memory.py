"""One memory: read, filed, proved, audited."""

from __future__ import annotations

from typing import Any

from api.answers import (
    CATEGORY,
    COUNT,
    FLAG,
    FREE,
    HEX32,
    NUMBER,
    STATUS,
    TEXT,
    TIME,
    TX,
    UNIX,
    WHY_NOT,
    many,
    maybe,
    obj,
    one_of,
)
from api.door import Call, Doors
from api.routes.memory_items import ITEM_EXAMPLE, ITEM_KEYS
from chainmemory.engine import memory_filing, memory_proof, memory_read
from chainmemory.engine.once import Written
from chainmemory.engine.shapes import Boolean, Integer, Record

doors = Doors("Memories")

_HASH = "0xa6b6efbbff022c24b31f8080ae3f70e5572528b89e12ab497d531e6e8a56a0ee"
_CONTENT = "0xd7aee21c7ae2b09873fcf59eaa6392022ce1e31bc05a56920e5b5b53eceb4f91"
_N = {"n": Integer(1)}

_FILED = obj({**ITEM_KEYS, "superseded_by": maybe(NUMBER)})
_FILED_EXAMPLE = {**ITEM_EXAMPLE, "summary": None, "superseded_by": None}
_ONE_KEYS = {
    "memory_number": NUMBER,
    "memory_id": TEXT,
    "timestamp": UNIX,
    "event_hash": HEX32,
    "content_hash": maybe(HEX32),
    "header": {**FREE, "description": "the testimony, every key of protocol §3: event_hash is over it"},
    "filing": obj(
        {"category": CATEGORY, "tags": many(TEXT), "archived": FLAG, "superseded_by": maybe(NUMBER)}
    ),
    "forgotten": FLAG,
    "chain_sync": STATUS,
    "sync": obj(
        {"status": STATUS, "tx_hash": TX, "block_number": maybe(COUNT), "anchored_at": maybe(TIME)}, WHY_NOT
    ),
}
_ONE = {
    "memory_number": 1,
    "memory_id": "1",
    "timestamp": 1789336955,
    "event_hash": _HASH,
    "content_hash": _CONTENT,
    "header": {"account_id": "fe63c0c224ed9e23ad0785954f0668f7", "number": 1, "kind": "memory.note"},
    "filing": {"category": "DECISION", "tags": ["consensus"], "archived": False, "superseded_by": None},
    "forgotten": False,
    "chain_sync": "pending",
    "sync": {"status": "pending", "tx_hash": None, "block_number": None, "anchored_at": None},
}


@doors.get(
    "/v1/memory/{n}",
    needs="read",
    summary="A memory's header, filing and sync status",
    params=_N,
    answer=obj(_ONE_KEYS),
    example=_ONE,
    errors=(404,),
)
def get_memory(call: Call) -> dict[str, Any]:
    return memory_read.one(call.engine, call.caller, call.path["n"])


@doors.get(
    "/v1/memory/{n}/decrypted",
    needs="read",
    summary="A memory with its text, verified now",
    description="`integrity_verified`: the event hash and, where this server can read the content, the "
    "content hash were recomputed and match. `summary` is null for what the server can't read.",
    params=_N,
    answer=obj({**_ONE_KEYS, "summary": maybe(TEXT), "integrity_verified": FLAG}),
    example={**_ONE, "summary": "Use Clique PoA consensus", "integrity_verified": True},
    errors=(404,),
)
def get_decrypted_memory(call: Call) -> dict[str, Any]:
    return memory_read.one(call.engine, call.caller, call.path["n"], decrypted=True)


@doors.get(
    "/v1/memory/{n}/blob",
    needs="read",
    summary="A memory's stored ciphertext",
    params=_N,
    answer=obj({"blob_b64": TEXT, "scheme": one_of(memory_read.SERVER_SCHEME, memory_read.CLIENT_SCHEME)}),
    example={"blob_b64": "AgAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAA", "scheme": memory_read.CLIENT_SCHEME},
    errors=(404,),
)
def get_memory_blob(call: Call) -> dict[str, Any]:
    return memory_read.blob(call.engine, call.caller, call.path["n"])


@doors.put(
    "/v1/memories/{n}/tags",
    needs="write",
    summary="Replace a memory's tags",
    description="Filing only; no hash changes.",
    params=_N,
    body=memory_filing.RETAG,
    body_example={"tags": ["consensus", "chain"]},
    once=True,
    answer=_FILED,
    example=_FILED_EXAMPLE,
    errors=(404,),
)
def set_memory_tags(call: Call) -> Written:
    return memory_filing.set_tags(call.engine, call.caller, call.once, call.path["n"], call.body["tags"])


@doors.post(
    "/v1/memories/{n}/archive",
    needs="write",
    summary="Archive a memory",
    description="Filing only; it leaves the default lists.",
    params=_N,
    body=Record({}),
    body_required=False,
    once=True,
    answer=_FILED,
    example={**_FILED_EXAMPLE, "archived": True},
    errors=(404,),
)
def archive_memory(call: Call) -> Written:
    return memory_filing.set_archived(call.engine, call.caller, call.once, call.path["n"], True)


@doors.post(
    "/v1/memories/{n}/unarchive",
    needs="write",
    summary="Take a memory back from the archive",
    params=_N,
    body=Record({}),
    body_required=False,
    once=True,
    answer=_FILED,
    example=_FILED_EXAMPLE,
    errors=(404,),
)
def unarchive_memory(call: Call) -> Written:
    return memory_filing.set_archived(call.engine, call.caller, call.once, call.path["n"], False)


@doors.put(
    "/v1/memories/{n}/filing",
    needs="write",
    summary="Refile a memory",
    description="Changes the category it is filed under, and which memory supersedes it (null: none). "
    "The header keeps what was declared.",
    params=_N,
    body=memory_filing.REFILE,
    body_example={"category": "LEARNING", "superseded_by": 2},
    once=True,
    answer=_FILED,
    example={**_FILED_EXAMPLE, "category": "LEARNING", "superseded_by": 2},
    errors=(404,),
)
def set_memory_filing(call: Call) -> Written:
    return memory_filing.set_filing(call.engine, call.caller, call.once, call.path["n"], call.body)


@doors.get(
    "/v1/my/memory/{n}/proof",
    needs="read",
    summary="Where the chain holds a memory, and how anybody checks it",
    description="`chain_memory_id` is `<account_ref>/<number>`, the registry's own name of it.",
    params=_N,
    answer=obj(
        {
            "memory_number": NUMBER,
            "anchored": FLAG,
            "event_hash": HEX32,
            "chain_memory_id": maybe(TEXT),
            "chain_tx": TX,
            "block_number": maybe(COUNT),
            "batch_root": TX,
            "chain_id": maybe(COUNT),
            "contract": maybe(TEXT),
            "how_to_verify": TEXT,
        }
    ),
    example={
        "memory_number": 1,
        "anchored": True,
        "event_hash": _HASH,
        "chain_memory_id": f"{_CONTENT}/1",
        "chain_tx": _HASH,
        "block_number": 3,
        "batch_root": _CONTENT,
        "chain_id": 20250,
        "contract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
        "how_to_verify": "1. Take the header …",
    },
    errors=(404,),
)
def prove_memory(call: Call) -> dict[str, Any]:
    return memory_proof.proof(call.engine, call.caller, call.path["n"])


@doors.post(
    "/v1/audit/memory/{n}",
    needs="read",
    summary="Recompute everything about a memory",
    description="Writes nothing, with or without `dry_run`. `chain.status` is `anchored` where the registry "
    "logged this very event hash, `mismatch` where another, `missing` where none though one is expected, "
    "`unknown` where the chain can't be reached, else how far it is. `ledger.verdict` is that of the "
    "memory's own entry.",
    params=_N,
    body=Record({"dry_run": Boolean()}),
    body_required=False,
    body_example={"dry_run": True},
    answer=obj(
        {
            "memory_number": NUMBER,
            "category": CATEGORY,
            "dry_run": FLAG,
            "hash": obj(
                {
                    "status": one_of("match", "mismatch"),
                    "stored_hash": HEX32,
                    "computed_hash": maybe(HEX32),
                }
            ),
            "chain": obj({"status": TEXT, "chain_memory_id": maybe(TEXT), "chain_tx": TX}),
            "ledger": obj({"verdict": one_of("sealed", "altered", "unsealed"), "seq": maybe(NUMBER)}),
            "fee_charged": COUNT,
        }
    ),
    example={
        "memory_number": 1,
        "category": "DECISION",
        "dry_run": True,
        "hash": {"status": "match", "stored_hash": _HASH, "computed_hash": _HASH},
        "chain": {"status": "anchored", "chain_memory_id": f"{_CONTENT}/1", "chain_tx": _HASH},
        "ledger": {"verdict": "sealed", "seq": 1},
        "fee_charged": 0,
    },
    errors=(404,),
)
def audit_memory(call: Call) -> dict[str, Any]:
    return memory_proof.audit(call.engine, call.caller, call.path["n"], dry_run=bool(call.body["dry_run"]))
