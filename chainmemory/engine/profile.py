"""The agent behind an account: its name and model, and how much of its memory is on chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from chainmemory.engine.callers import Caller
from chainmemory.engine.once import Once, Written, write
from chainmemory.engine.shapes import Record, Text, need
from chainmemory.store.outbox_rows import ANCHORED
from chainmemory.store.tx import Tx

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

REGISTER: Final = Record(
    {"name": need(Text(1, 200), "the agent's name"), "model": need(Text(1, 200), "the model behind it")}
)


def register(engine: Engine, caller: Caller, once: Once | None, fields: dict[str, Any]) -> Written:
    """Name the agent behind the account; registering again renames it."""
    vault = engine.vault(caller.account_id)
    profile = {"name": fields["name"], "model": fields["model"]}

    def work(tx: Tx) -> dict[str, Any]:
        tx.accounts.set_profile(caller.account_id, vault.seal_small(orjson.dumps(profile), "profile"))
        return {"ai_id": caller.account_id, **profile, "wallet": None, "tx_hash": None}

    return write(engine, caller, once, work)


def profile(engine: Engine, caller: Caller) -> dict[str, Any]:
    """Return the agent and the counts of its memories."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        account = tx.accounts.get(caller.account_id)
        depth = tx.outbox.depth_of(caller.account_id)
    said: dict[str, Any] = {}
    if account.profile_blob is not None:
        said = orjson.loads(vault.open_small(account.profile_blob, "profile"))
    anchored = depth.get(ANCHORED, 0)
    return {
        "registered": account.profile_blob is not None,
        "ai_id": account.account_id if said else None,
        "name": said.get("name"),
        "model": said.get("model"),
        "owner": account.account_id,
        "active": True,
        "reputation": 0,
        "local_memories": account.memory_count,
        "synced_memories": anchored,
        "chain_memories": anchored,
        "pending_sync": account.memory_count - anchored,
    }
