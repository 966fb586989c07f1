"""Accounts and their keys (api.md, Accounts and keys)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from chainmemory.engine import clock
from chainmemory.engine.callers import SCOPES, Caller, new_key
from chainmemory.engine.shapes import Choice, Record, Text, need
from chainmemory.errors import Conflict
from chainmemory.store.keys import ApiKey
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

CREATE = Record({}, strict=True)
MEMBER = Record(
    {
        "label": need(Text(1, 200), "who or what uses the key"),
        "scope": need(Choice(SCOPES), "owner: everything; write: memories, events, facts; read"),
    },
    strict=True,
)


def create_account(engine: Engine) -> dict[str, Any]:
    """Create an account with its owner key, and return both; the key is never shown again."""
    account_id = secrets.token_hex(16)
    master_key_id, wrapped_key = engine.new_account_key(account_id)
    key, key_hash = new_key()
    key_id = _new_key_id()
    created_at = clock.now()

    def work(tx: Tx) -> None:
        tx.accounts.create(account_id, created_at=created_at, key_id=master_key_id, wrapped_key=wrapped_key)
        tx.keys.create(
            key_id,
            account_id=account_id,
            key_hash=key_hash,
            scope="owner",
            label_blob=None,
            created_at=created_at,
        )

    engine.db.transact(work)
    return {"api_key": key, "account_id": account_id, "key_id": key_id, "wallet": None}


def list_keys(engine: Engine, caller: Caller, *, limit: int, offset: int) -> dict[str, Any]:
    """Return a page of the account's keys, oldest first, revoked ones too; never the keys themselves."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        rows = tx.keys.list(caller.account_id)
    return {"keys": [_shown(vault, row) for row in rows[offset : offset + limit]], "total": len(rows)}


def add_member(engine: Engine, caller: Caller, *, label: str, scope: str) -> dict[str, Any]:
    """Add a key to the caller's account and return it; it is never shown again."""
    vault = engine.vault(caller.account_id)
    key, key_hash = new_key()
    key_id = _new_key_id()
    created_at = clock.now()
    label_blob = vault.seal_small(label.encode(), "key_label", key_id=key_id)

    def work(tx: Tx) -> None:
        tx.keys.create(
            key_id,
            account_id=caller.account_id,
            key_hash=key_hash,
            scope=scope,
            label_blob=label_blob,
            created_at=created_at,
        )

    engine.db.transact(work)
    return {"api_key": key, "key_id": key_id, "label": label, "scope": scope, "created_at": created_at}


def revoke_key(engine: Engine, caller: Caller, key_id: str) -> dict[str, Any]:
    """End a key for ever.

    Raises NotFound, and Conflict (`last_owner_key`): an account nobody can own any more would be lost.
    """
    revoked_at = clock.now()

    def work(tx: Tx) -> None:
        # The account's row is locked, so that of two owners revoking each other one fails.
        tx.accounts.lock(caller.account_id)
        tx.keys.revoke(caller.account_id, key_id, now=revoked_at)
        live = [row for row in tx.keys.list(caller.account_id) if row.revoked_at is None]
        if not any(row.scope == "owner" for row in live):
            raise Conflict(
                "This is the account's last owner key; make another owner key first (POST /v1/keys/members).",
                code="last_owner_key",
            )

    engine.db.transact(work)
    engine.callers.forget(key_id)
    return {"key_id": key_id, "revoked": True, "revoked_at": revoked_at}


def _new_key_id() -> str:
    return "key_" + secrets.token_hex(8)


def _shown(vault: AccountVault, row: ApiKey) -> dict[str, Any]:
    label = None
    if row.label_blob is not None:
        label = vault.open_small(row.label_blob, "key_label", key_id=row.key_id).decode()
    return {
        "key_id": row.key_id,
        "label": label,
        "scope": row.scope,
        "created_at": row.created_at,
        "revoked_at": row.revoked_at,
    }
