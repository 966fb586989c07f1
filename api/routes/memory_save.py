"""Saving memories."""

from __future__ import annotations

from api.answers import (
    HEX32,
    NUMBER,
    SHA256,
    SLUG,
    STATUS,
    TEXT,
    many,
    maybe,
    obj,
    one_of,
)
from api.door import Call, Doors
from api.limits import IN_LOOP_BYTES
from chainmemory.engine import memory_save
from chainmemory.engine.once import Written

doors = Doors("Memories")

_HASH = "0xa6b6efbbff022c24b31f8080ae3f70e5572528b89e12ab497d531e6e8a56a0ee"
_CONTENT = "0xd7aee21c7ae2b09873fcf59eaa6392022ce1e31bc05a56920e5b5b53eceb4f91"

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
async def save_memory(call: Call) -> Written:
    if call.once is not None:
        return await call.site.pool.run(memory_save.save, call.engine, call.caller, call.once, call.body)
    small = len(call.raw) <= IN_LOOP_BYTES
    return await call.site.saver.save(memory_save.Save(call.caller, call.body), small=small)


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
