"""Saving memories, reading them, filing them."""

from __future__ import annotations

from typing import Any

from api.answers import (
    CATEGORY,
    COUNT,
    FLAG,
    FREE,
    HEX32,
    NUMBER,
    SHA256,
    SLUG,
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
from api.paging import LIMIT, PAGE, limit_in, page_in
from chainmemory.engine import memory_filing, memory_proof, memory_read, memory_save
from chainmemory.engine.once import Written
from chainmemory.engine.shapes import Boolean, Choice, Field, Integer, Moment, Record, Slug, Text, need
from chainmemory.protocol.event import CATEGORIES

doors = Doors("Memories")

_HASH = "0xa6b6efbbff022c24b31f8080ae3f70e5572528b89e12ab497d531e6e8a56a0ee"
_CONTENT = "0xd7aee21c7ae2b09873fcf59eaa6392022ce1e31bc05a56920e5b5b53eceb4f91"
_TIME = "2026-09-13T22:02:35.000000Z"
_N = {"n": Integer(1)}

SAVED = obj(
    {
        "memory_number": NUMBER,
        "memory_id": TEXT,
        "event_hash": HEX32,
        "content_hash": HEX32,
        "tags": many(TEXT),
        "project": maybe(SLUG),
        "tier": one_of("episodic"),
        "chain_sync": STATUS,
        "chain_memory_id": maybe(TEXT),
        "trust": {
            **one_of("server_sealed", "client_sealed"),
            "description": "who encrypted it: this server, or the client, whose plaintext the server never "
            "saw",
        },
        "ledger_seq": NUMBER,
        "ledger_hash": SHA256,
    }
)
_SAVED = {
    "memory_number": 1,
    "memory_id": "1",
    "event_hash": _HASH,
    "content_hash": _CONTENT,
    "tags": ["consensus"],
    "project": "payments",
    "tier": "episodic",
    "chain_sync": "pending",
    "chain_memory_id": None,
    "trust": "server_sealed",
    "ledger_seq": 1,
    "ledger_hash": "f79c7f27396f3af18ba06bb943fcb578e672da9bd2a09756e40b43cfc222ae92",
}
_ITEM_KEYS = {
    "memory_number": NUMBER,
    "id": TEXT,
    "timestamp": {**UNIX, "description": "when it happened (occurred_at), Unix seconds"},
    "category": {**CATEGORY, "description": "as filed"},
    "importance": NUMBER,
    "project": maybe(SLUG),
    "tags": many(TEXT),
    "archived": FLAG,
    "source": TEXT,
    "event_hash": HEX32,
    "content_hash": maybe(HEX32),
    "chain_sync": STATUS,
    "summary": maybe(TEXT),
    "summary_preview": maybe({**TEXT, "maxLength": 80}),
    "occurred_at": TIME,
    "provenance": maybe(FREE),
}
ITEM = obj(_ITEM_KEYS)
_ITEM = {
    "memory_number": 1,
    "id": "1",
    "timestamp": 1789336955,
    "category": "DECISION",
    "importance": 6,
    "project": "payments",
    "tags": ["consensus"],
    "archived": False,
    "source": "api",
    "event_hash": _HASH,
    "content_hash": _CONTENT,
    "chain_sync": "anchored",
    "summary": "Use Clique PoA consensus",
    "summary_preview": "Use Clique PoA consensus",
    "occurred_at": _TIME,
    "provenance": None,
}
_FILED = obj({**_ITEM_KEYS, "superseded_by": maybe(NUMBER)})
_FILED_EXAMPLE = {**_ITEM, "summary": None, "superseded_by": None}
_LIST = Record(
    {
        **PAGE,
        "project": Slug(),
        "tag": Field(Text(1, 100), note="exactly as written"),
        "category": Field(Choice(CATEGORIES), note="as filed"),
        "archived": Field(
            Choice(("0", "1", "true", "false", "all")), note="1: archived ones alone; all: both; default 0"
        ),
        "include_plaintext": Field(Boolean(), note="on /v1/memories/list: give the whole text in summary"),
        "since": Field(Moment(), note="occurred at or after this time"),
        "until": Field(Moment(), note="occurred before this time"),
    }
)
_ARCHIVED = {None: False, "0": False, "false": False, "1": True, "true": True, "all": None}
_BODY_EXAMPLE = {
    "content": "Use Clique PoA consensus",
    "project": "payments",
    "tags": ["consensus"],
    "category": "DECISION",
    "importance": 6,
}


@doors.post(
    "/v1/memory",
    needs="write",
    status=201,
    summary="Save a memory",
    description="Encrypted, sealed in the account's ledger and queued for the chain in one durable "
    "transaction. `content` (text, or a JSON object or array, which is put in RFC 8785 form) wins over "
    "`summary`; `platform` becomes the header's `source`. At most 1 MiB of content. "
    "A project the account doesn't have is created. Unknown fields are ignored.",
    body=memory_save.SAVE,
    body_example=_BODY_EXAMPLE,
    once=True,
    answer=SAVED,
    example=_SAVED,
    errors=(409,),
)
def save_memory(call: Call) -> Written:
    return memory_save.save(call.engine, call.caller, call.once, call.body)


@doors.post(
    "/v1/memories/batch",
    needs="write",
    status=201,
    summary="Save up to 500 memories in one transaction",
    description="All or nothing; an error names the index (`field` is `memories.<i>.…`).",
    body=memory_save.BATCH,
    body_example={"memories": [_BODY_EXAMPLE]},
    once=True,
    answer=obj({"memories": many(SAVED)}),
    example={"memories": [_SAVED]},
    errors=(409,),
)
def save_memories(call: Call) -> Written:
    return memory_save.save_batch(call.engine, call.caller, call.once, call.body)


@doors.post(
    "/v1/memory/sealed",
    needs="write",
    status=201,
    summary="Save a memory that the client encrypted",
    description="`blob_b64` is `0x02 ‖ nonce(12) ‖ ciphertext ‖ tag(16)`, made by the client; the server "
    "stores it as it is and vouches only that it doesn't change. The given `event_hash` is the content hash.",
    body=memory_save.SEALED,
    body_example={
        "blob_b64": "AgAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAA",
        "event_hash": _CONTENT,
        "plain_len": 1,
        "category": "DECISION",
    },
    once=True,
    answer=SAVED,
    example={**_SAVED, "trust": "client_sealed", "tags": [], "project": None},
    errors=(409,),
)
def save_sealed_memory(call: Call) -> Written:
    return memory_save.save_sealed(call.engine, call.caller, call.once, call.body)


def _listed(call: Call, *, whole: bool) -> dict[str, Any]:
    query = call.query
    return memory_read.list_memories(
        call.engine,
        call.caller,
        **page_in(query),
        whole=whole,
        project=query["project"],
        tag=query["tag"],
        category=query["category"],
        archived=_ARCHIVED[query["archived"]],
        since=query["since"],
        until=query["until"],
    )


@doors.get(
    "/v1/memories",
    needs="read",
    summary="List memories with their text",
    description="Newest (highest number) first. `summary` is null for what the server can't read: "
    "client-sealed or forgotten memories, and damaged ones (the audit names those).",
    query=_LIST,
    answer=obj({"memories": many(ITEM), "total": COUNT}),
    example={"memories": [_ITEM], "total": 1},
)
def list_memories(call: Call) -> dict[str, Any]:
    return _listed(call, whole=True)


@doors.get(
    "/v1/memories/list",
    needs="read",
    summary="List memories with a preview",
    description="As /v1/memories; `summary` is null unless `include_plaintext=1`.",
    query=_LIST,
    answer=obj({"memories": many(ITEM), "total": COUNT}),
    example={"memories": [{**_ITEM, "summary": None}], "total": 1},
)
def list_memory_previews(call: Call) -> dict[str, Any]:
    return _listed(call, whole=bool(call.query["include_plaintext"]))


@doors.get(
    "/v1/memories/search",
    needs="read",
    summary="Search the memories' words, best first",
    description="Ranked full text over encrypted storage: the index holds keyed tokens, no words. Whole "
    "words, case-folded. Archived memories are found too.",
    query=Record({"q": need(Text(1, 1000)), **LIMIT, "project": Slug()}),
    answer=obj(
        {
            "query": TEXT,
            "memories": many(obj({**_ITEM_KEYS, "score": {"type": "number", "minimum": 0}})),
            "total": COUNT,
        }
    ),
    example={"query": "consensus", "memories": [{**_ITEM, "score": 1.386294}], "total": 1},
)
def search_memories(call: Call) -> dict[str, Any]:
    return memory_read.search(
        call.engine,
        call.caller,
        query=call.query["q"],
        limit=limit_in(call.query),
        project=call.query["project"],
    )


@doors.get(
    "/v1/memory/context",
    needs="read",
    summary="The newest memories as a context for a model",
    description="`verified`: all hashes add up now, and the chain holds it. `timestamp` is Unix seconds.",
    query=Record({**LIMIT, "verified_only": Boolean()}),
    answer=obj(
        {
            "summary": TEXT,
            "memories": many(obj({"timestamp": UNIX, "platform": TEXT, "summary": TEXT, "verified": FLAG})),
        }
    ),
    example={
        "summary": "The 1 newest memories, newest first:\n- Use Clique PoA consensus",
        "memories": [
            {
                "timestamp": 1789336955,
                "platform": "api",
                "summary": "Use Clique PoA consensus",
                "verified": True,
            }
        ],
    },
)
def memory_context(call: Call) -> dict[str, Any]:
    return memory_read.context(
        call.engine,
        call.caller,
        limit=limit_in(call.query),
        verified_only=bool(call.query["verified_only"]),
    )


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
