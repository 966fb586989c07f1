"""The project's state: applying ops, reading versions, evidence, the brief, the audit."""

from __future__ import annotations

from typing import Any

from api.answers import (
    ANCHOR,
    ANCHOR_STATUS,
    COUNT,
    FLAG,
    FREE,
    HEX32,
    NUMBER,
    SLUG,
    STATUS,
    TEXT,
    TIME,
    TX,
    many,
    maybe,
    obj,
    one_of,
)
from api.door import Call, Doors
from api.paging import PAGE, page_in
from chainmemory.engine import state_ops, state_read
from chainmemory.engine.once import Written
from chainmemory.engine.shapes import Boolean, Field, Integer, Record, Slug, Text
from chainmemory.state.builder import check_call
from chainmemory.state.call import MAX_OPS
from chainmemory.state.operations import OPERATIONS

doors = Doors("Project state")

_HASH = "0xa6b6efbbff022c24b31f8080ae3f70e5572528b89e12ab497d531e6e8a56a0ee"
_TIME = "2026-09-13T22:02:35.000000Z"
_NAME = {"name": Slug()}
_VERSION = Record({"version": Field(Integer(0), note="default: the latest")})
_ANCHOR = {"status": "pending", "onchain_anchor_id": None, "tx_hash": None, "block_number": None}


class _CallKind:
    """The body of a call; its shape is the grammar's."""

    def check(self, value: Any, _path: str) -> Any:
        return check_call(value)

    def read(self, text: str, path: str) -> Any:
        raise NotImplementedError("a call has no text form")

    def schema(self) -> dict[str, Any]:
        integer = {"anyOf": [Integer().schema(), {"type": "null"}]}
        flag = {"anyOf": [{"type": "boolean"}, {"type": "null"}]}
        return {
            "type": "object",
            "required": ["ops"],
            "additionalProperties": False,
            "properties": {
                "ops": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_OPS,
                    "items": {
                        "type": "object",
                        "required": ["op"],
                        "properties": {
                            "op": {"type": "string", "description": ", ".join(sorted(OPERATIONS))},
                            "evidence_memory_ids": {"description": "up to 200 memory numbers"},
                            "ref": {"description": "a label that later ops use as @label"},
                        },
                    },
                },
                "consolidated_until_event": {**integer, "description": "the new watermark"},
                "expected_version": {**integer, "description": "refuse unless this is the current version"},
                "atomic": {**flag, "description": "refuse the whole call if one op is rejected"},
                "dry_run": {**flag, "description": "answer without writing anything"},
                "generated_by": {"type": ["string", "null"], "description": "who or what made the call"},
            },
        }


@doors.post(
    "/v1/project/{name}/state/ops",
    needs="owner",
    summary="Apply operations to the state",
    description="1 to 100 of the 30 operations (docs/grammar.md). Each invalid op is rejected alone, unless "
    "`atomic`. Whole-call refusals, nothing written, in this order: shape; `project_archived` (409); "
    "`version_conflict` (409); `evidence_not_found`; `invalid_watermark`; `ops_rejected`; `state_too_large` "
    "(422). A project the account doesn't have is created, but not by a dry run or a refused call. "
    "`previous_*` is the state before the call. In a dry run `generated_at` and `anchor.status` are null.",
    params=_NAME,
    body=_CallKind(),
    body_example={
        "ops": [
            {
                "op": "add_decision",
                "title": "Consensus",
                "statement": "Use Clique proof of authority.",
                "evidence_memory_ids": [1],
            }
        ],
        "consolidated_until_event": 1,
    },
    once=True,
    answer=obj(
        {
            "project": SLUG,
            "version": COUNT,
            "previous_version": COUNT,
            "state_hash": TX,
            "previous_state_hash": HEX32,
            "unchanged": FLAG,
            "message": TEXT,
            "applied_count": COUNT,
            "applied": many(
                obj(
                    {
                        "index": COUNT,
                        "op": TEXT,
                        "id": TEXT,
                        "evidence_root": HEX32,
                        "evidence": many(obj({"memory_number": NUMBER, "event_hash": HEX32})),
                    }
                )
            ),
            "rejected": many(obj({"index": COUNT, "op": TEXT, "code": TEXT, "error": TEXT})),
            "refs": FREE,
            "generated_at": maybe(TIME),
            "anchor": ANCHOR_STATUS,
        }
    ),
    example={
        "project": "payments",
        "version": 1,
        "previous_version": 0,
        "state_hash": _HASH,
        "previous_state_hash": "0x" + "0" * 64,
        "unchanged": False,
        "message": "1 op applied: version 1.",
        "applied_count": 1,
        "applied": [
            {
                "index": 0,
                "op": "add_decision",
                "id": "dec_0001",
                "evidence_root": _HASH,
                "evidence": [{"memory_number": 1, "event_hash": _HASH}],
            }
        ],
        "rejected": [],
        "refs": {},
        "generated_at": _TIME,
        "anchor": {"status": "pending"},
    },
    errors=(409,),
)
def apply_state_ops(call: Call) -> Written:
    return state_ops.apply(call.engine, call.caller, call.once, call.path["name"], call.body)


@doors.get(
    "/v1/project/{name}/state",
    needs="owner",
    summary="A version of the state",
    description="Rebuilt from the stored ops and checked against its hash. Version 0 is the empty document.",
    params=_NAME,
    query=_VERSION,
    answer=obj(
        {
            "project": SLUG,
            "schema_version": NUMBER,
            "version": COUNT,
            "state_hash": HEX32,
            "generated_at": maybe(TIME),
            "anchor": ANCHOR,
            "state": FREE,
        }
    ),
    example={
        "project": "payments",
        "schema_version": 2,
        "version": 1,
        "state_hash": _HASH,
        "generated_at": _TIME,
        "anchor": _ANCHOR,
        "state": {"phase": None, "vision": None, "current_focus": None, "decisions": []},
    },
    errors=(404,),
)
def get_state(call: Call) -> dict[str, Any]:
    return state_read.state(call.engine, call.caller, call.path["name"], call.query["version"])


_VERSION_KEYS = {
    "version": NUMBER,
    "state_hash": HEX32,
    "generated_at": TIME,
    "ops_count": COUNT,
    "anchor": ANCHOR_STATUS,
}


@doors.get(
    "/v1/project/{name}/state/versions",
    needs="owner",
    summary="The state's versions, newest first",
    params=_NAME,
    query=Record(PAGE),
    answer=obj(
        {
            "project": SLUG,
            "versions": many(
                obj({**_VERSION_KEYS, "previous_state_hash": HEX32, "generated_by": maybe(TEXT)})
            ),
            "total": COUNT,
        }
    ),
    example={
        "project": "payments",
        "versions": [
            {
                "version": 1,
                "state_hash": _HASH,
                "previous_state_hash": "0x" + "0" * 64,
                "generated_at": _TIME,
                "generated_by": None,
                "ops_count": 1,
                "anchor": {"status": "anchored"},
            }
        ],
        "total": 1,
    },
    errors=(404,),
)
def list_state_versions(call: Call) -> dict[str, Any]:
    return state_read.versions(call.engine, call.caller, call.path["name"], **page_in(call.query))


@doors.get(
    "/v1/project/{name}/state/ops",
    needs="owner",
    summary="The ops that made a version",
    description="`applied`: as resolved, with item ids and event hashes, which is what a rebuild applies. "
    "`rejected`: as given, with the reason; of a rejected environment op only its fate is kept, since it may "
    "hold a credential.",
    params=_NAME,
    query=Record({"version": Field(Integer(1), note="default: the latest")}),
    answer=obj(
        {
            "project": SLUG,
            "version": NUMBER,
            "state_hash": HEX32,
            "consolidated_until_event": COUNT,
            "generated_at": maybe(TIME),
            "applied": many(FREE),
            "rejected": many(
                obj({"index": COUNT, "op": TEXT, "code": TEXT, "error": TEXT, "given": maybe(FREE)})
            ),
        }
    ),
    example={
        "project": "payments",
        "version": 1,
        "state_hash": _HASH,
        "consolidated_until_event": 1,
        "generated_at": _TIME,
        "applied": [{"index": 0, "op": "set_phase", "item": "phase", "fields": {"phase": "beta"}}],
        "rejected": [],
    },
    errors=(404,),
)
def get_state_ops(call: Call) -> dict[str, Any]:
    return state_read.ops(call.engine, call.caller, call.path["name"], call.query["version"])


@doors.get(
    "/v1/project/{name}/state/evidence/{item_id}",
    needs="owner",
    summary="The memories behind an item, with proofs",
    description="`item_id` is an item's id, or phase, vision or current_focus. Each proof leads from the "
    "event hash to the item's evidence_root (docs/protocol.md §6).",
    params={**_NAME, "item_id": Text(1, 100)},
    query=Record({"version": Field(Integer(0), note="default: the latest"), **PAGE}),
    answer=obj(
        {
            "project": SLUG,
            "item_id": TEXT,
            "version": COUNT,
            "evidence_root": HEX32,
            "evidence": many(
                obj(
                    {
                        "memory_number": NUMBER,
                        "event_hash": HEX32,
                        "chain_sync": STATUS,
                        "forgotten": FLAG,
                        "proof": obj({"index": COUNT, "size": NUMBER, "path": many(HEX32)}),
                    }
                )
            ),
            "total": COUNT,
        }
    ),
    example={
        "project": "payments",
        "item_id": "dec_0001",
        "version": 1,
        "evidence_root": _HASH,
        "evidence": [
            {
                "memory_number": 1,
                "event_hash": _HASH,
                "chain_sync": "anchored",
                "forgotten": False,
                "proof": {"index": 0, "size": 1, "path": []},
            }
        ],
        "total": 1,
    },
    errors=(404,),
)
def get_state_evidence(call: Call) -> dict[str, Any]:
    return state_read.evidence(
        call.engine,
        call.caller,
        call.path["name"],
        call.path["item_id"],
        call.query["version"],
        **page_in(call.query),
    )


@doors.post(
    "/v1/audit/state/{name}",
    needs="read",
    summary="Rebuild the current state and compare it with its hash",
    description="Writes nothing, with or without `dry_run`. `version_history` has the newest 200 versions.",
    params=_NAME,
    body=Record({"dry_run": Boolean()}),
    body_required=False,
    body_example={"dry_run": True},
    answer=obj(
        {
            "project": SLUG,
            "current_version": COUNT,
            "dry_run": FLAG,
            "hash_verification": obj({"status": one_of("match", "mismatch"), "stored": TX, "computed": TX}),
            "anchor": ANCHOR,
            "total_memories": COUNT,
            "version_history": many(obj(_VERSION_KEYS)),
            "fee_charged": COUNT,
        }
    ),
    example={
        "project": "payments",
        "current_version": 1,
        "dry_run": True,
        "hash_verification": {"status": "match", "stored": _HASH, "computed": _HASH},
        "anchor": _ANCHOR,
        "total_memories": 12,
        "version_history": [],
        "fee_charged": 0,
    },
    errors=(404,),
)
def audit_state(call: Call) -> dict[str, Any]:
    return state_read.audit(call.engine, call.caller, call.path["name"], dry_run=bool(call.body["dry_run"]))
