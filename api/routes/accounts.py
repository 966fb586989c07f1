"""Accounts and keys."""

from __future__ import annotations

from typing import Any

from api.answers import COUNT, FLAG, FREE, NULL, TEXT, TIME, many, maybe, obj, one_of
from api.door import Call, Doors
from api.paging import PAGE, page_in
from chainmemory.engine import accounts, health, profile
from chainmemory.engine.callers import SCOPES
from chainmemory.engine.once import Written
from chainmemory.engine.shapes import Record, Text

doors = Doors("Accounts and keys")

_ACCOUNT = "7c0e9b1fd3a84f0e8d5a1b2c3d4e5f60"
_KEY = obj(
    {
        "key_id": TEXT,
        "label": maybe(TEXT),
        "scope": one_of(*SCOPES),
        "created_at": TIME,
        "revoked_at": maybe(TIME),
    }
)


@doors.post(
    "/v1/keys",
    needs="local",
    status=201,
    summary="Create an account and its owner key",
    description="Shown once; only a hash of the key is kept. Open only to programs on the server's own "
    "machine: the server listens on loopback, the peer is loopback, Host is localhost, 127.0.0.1 or [::1], "
    "there is no foreign Origin and no Forwarded, X-Forwarded-*, X-Real-IP or Via header. From elsewhere "
    "send the server's CHAINMEMORY_ADMIN_TOKEN as a Bearer token (or in x-admin-token).",
    body=accounts.CREATE,
    body_required=False,
    answer=obj({"api_key": TEXT, "account_id": TEXT, "key_id": TEXT, "wallet": NULL}),
    example={"api_key": "aic_…", "account_id": _ACCOUNT, "key_id": "key_0a1b2c3d4e5f6071", "wallet": None},
    errors=(401,),
)
def create_account(call: Call) -> dict[str, Any]:
    return accounts.create_account(call.engine)


@doors.get(
    "/v1/keys",
    needs="owner",
    summary="List the account's keys",
    description="Oldest first, revoked ones too; never the keys themselves.",
    query=Record(PAGE),
    answer=obj({"keys": many(_KEY), "total": COUNT}),
    example={
        "keys": [
            {
                "key_id": "key_0a1b2c3d4e5f6071",
                "label": None,
                "scope": "owner",
                "created_at": "2026-09-13T22:02:35.000000Z",
                "revoked_at": None,
            }
        ],
        "total": 1,
    },
)
def list_keys(call: Call) -> dict[str, Any]:
    return accounts.list_keys(call.engine, call.caller, **page_in(call.query))


@doors.post(
    "/v1/keys/members",
    needs="owner",
    status=201,
    summary="Add a key to the account",
    body=accounts.MEMBER,
    body_example={"label": "deploy bot", "scope": "write"},
    answer=obj(
        {"api_key": TEXT, "key_id": TEXT, "label": TEXT, "scope": one_of(*SCOPES), "created_at": TIME}
    ),
    example={
        "api_key": "aic_…",
        "key_id": "key_1a1b2c3d4e5f6071",
        "label": "deploy bot",
        "scope": "write",
        "created_at": "2026-09-13T22:02:35.000000Z",
    },
)
def add_member_key(call: Call) -> dict[str, Any]:
    return accounts.add_member(call.engine, call.caller, **call.body)


@doors.delete(
    "/v1/keys/{key_id}",
    needs="owner",
    summary="Revoke a key",
    description="For ever. The last owner key of an account can't be revoked (409 `last_owner_key`).",
    params={"key_id": Text(1, 100)},
    answer=obj({"key_id": TEXT, "revoked": FLAG, "revoked_at": TIME}),
    example={
        "key_id": "key_1a1b2c3d4e5f6071",
        "revoked": True,
        "revoked_at": "2026-09-13T22:02:35.000000Z",
    },
    errors=(404, 409),
)
def revoke_key(call: Call) -> dict[str, Any]:
    return accounts.revoke_key(call.engine, call.caller, call.path["key_id"])


@doors.post(
    "/v1/register",
    needs="owner",
    summary="Name the agent behind the account",
    description="Registering again renames it. `ai_id` is the account's id.",
    body=profile.REGISTER,
    body_example={"name": "Ada", "model": "some-model-1"},
    once=True,
    answer=obj({"ai_id": TEXT, "name": TEXT, "model": TEXT, "wallet": NULL, "tx_hash": NULL}),
    example={"ai_id": _ACCOUNT, "name": "Ada", "model": "some-model-1", "wallet": None, "tx_hash": None},
)
def register_agent(call: Call) -> Written:
    return profile.register(call.engine, call.caller, call.once, call.body)


@doors.get(
    "/v1/profile",
    needs="read",
    summary="The agent behind the account, and how much of its memory is on chain",
    description="`owner` is the account's id. `synced_memories` counts what the worker saw anchored, "
    "`chain_memories` the same on this deployment's contract, `pending_sync` the rest.",
    answer=obj(
        {
            "registered": FLAG,
            "ai_id": maybe(TEXT),
            "name": maybe(TEXT),
            "model": maybe(TEXT),
            "owner": TEXT,
            "active": FLAG,
            "reputation": COUNT,
            "local_memories": COUNT,
            "synced_memories": COUNT,
            "chain_memories": COUNT,
            "pending_sync": COUNT,
        }
    ),
    example={
        "registered": True,
        "ai_id": _ACCOUNT,
        "name": "Ada",
        "model": "some-model-1",
        "owner": _ACCOUNT,
        "active": True,
        "reputation": 0,
        "local_memories": 12,
        "synced_memories": 11,
        "chain_memories": 11,
        "pending_sync": 1,
    },
)
def get_profile(call: Call) -> dict[str, Any]:
    return profile.profile(call.engine, call.caller)


@doors.get(
    "/v1/stats",
    needs="public",
    summary="Totals of this deployment",
    description="`chain_id` and `block` are null while the chain can't be reached.",
    answer=obj(
        {
            "network": TEXT,
            "chain_id": maybe(COUNT),
            "block": maybe(COUNT),
            "total_memories": COUNT,
            "episodic_memories": COUNT,
            "total_ais": COUNT,
            "total_identities": COUNT,
            "total_states": COUNT,
            "total_anchors": COUNT,
            "contracts": FREE,
            "tiers": FREE,
        }
    ),
    example={
        "network": "chainmemory-embedded",
        "chain_id": 20250,
        "block": 42,
        "total_memories": 120,
        "episodic_memories": 120,
        "total_ais": 2,
        "total_identities": 2,
        "total_states": 9,
        "total_anchors": 9,
        "contracts": {"ProjectStateAnchor": "0x5FbDB2315678afecb367f032d93F642f64180aa3"},
        "tiers": {"episodic": 120},
    },
)
def get_stats(call: Call) -> dict[str, Any]:
    return health.stats(call.engine)
