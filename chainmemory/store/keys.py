"""API keys: only their SHA-256 is kept."""

from __future__ import annotations

import hmac
from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from chainmemory.errors import Conflict, NotFound
from chainmemory.store.sql import Session, Statement, insert_or_ignore
from chainmemory.store.tables import api_keys


class ApiKey(NamedTuple):
    """One API key: `key_hash` is the SHA-256 (64 hex) of the key as the caller sends it."""

    key_id: str
    account_id: str
    key_hash: str
    scope: str
    label_blob: bytes | None
    created_at: str
    revoked_at: str | None


_COLUMNS = [api_keys.c[name] for name in ApiKey._fields]
_INSERT = insert_or_ignore(
    api_keys, "key_id", "account_id", "key_hash", "scope", "label_blob", "created_at", revoked_at=None
)
_BY_HASH = Statement(
    select(*_COLUMNS).where(api_keys.c.key_hash == bindparam("hash"), api_keys.c.revoked_at.is_(None)), "hash"
)
_LIST = Statement(
    select(*_COLUMNS)
    .where(api_keys.c.account_id == bindparam("of"))
    .order_by(api_keys.c.created_at, api_keys.c.key_id),
    "of",
)
_REVOKE = Statement(
    update(api_keys)
    .where(
        api_keys.c.account_id == bindparam("of"),
        api_keys.c.key_id == bindparam("key"),
        api_keys.c.revoked_at.is_(None),
    )
    .values(revoked_at=bindparam("now")),
    "now",
    "of",
    "key",
)


class Keys:
    """`tx.keys`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self,
        key_id: str,
        *,
        account_id: str,
        key_hash: str,
        scope: str,
        label_blob: bytes | None,
        created_at: str,
    ) -> None:
        """Add a key; raises Conflict (`key_exists`) if its id or its hash is taken."""
        if not self._session.run(_INSERT, (key_id, account_id, key_hash, scope, label_blob, created_at)):
            raise Conflict("This key exists already.", code="key_exists")

    def by_hash(self, key_hash: str) -> ApiKey | None:
        """Return the key with this SHA-256 (64 hex) that is not revoked, or None.

        The row found by the index is compared again in constant time.
        """
        row = self._session.one(_BY_HASH, (key_hash,))
        if row is None or not hmac.compare_digest(str(row[2]).encode(), key_hash.encode()):
            return None
        return ApiKey(*row)

    def list(self, account_id: str) -> list[ApiKey]:
        """Return the account's keys, revoked ones too, oldest first."""
        return [ApiKey(*row) for row in self._session.all(_LIST, (account_id,))]

    def revoke(self, account_id: str, key_id: str, *, now: str) -> None:
        """End a key for ever; raises NotFound if the account has no such key, or it ended already."""
        if not self._session.run(_REVOKE, (now, account_id, key_id)):
            raise NotFound("There is no such key.")
