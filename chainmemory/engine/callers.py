"""Who calls: an API key's account and scope."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Literal

from chainmemory.errors import Unauthorized
from chainmemory.store.database import Database

Scope = Literal["owner", "write", "read"]

SCOPES: Final = ("owner", "write", "read")
KEY_PREFIX: Final = "aic_"
KNOWN_FOR_S: Final = 1.0
"""How long a key is believed without asking the store again: another process's revocation shows after this.
"""

_RANK: Final = {"read": 0, "write": 1, "owner": 2}
_MOST_KNOWN: Final = 4096
_LONGEST_KEY: Final = 200


@dataclass(frozen=True, slots=True)
class Caller:
    """An account, through one of its keys."""

    account_id: str
    key_id: str
    scope: Scope

    def reaches(self, needed: Scope) -> bool:
        """Say whether this key may do what needs the scope `needed`."""
        return _RANK[self.scope] >= _RANK[needed]


def new_key() -> tuple[str, str]:
    """Return a new API key and the hash that is kept of it."""
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    return key, hash_key(key)


def hash_key(key: str) -> str:
    """Return what is kept of a key. It has 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


class Callers:
    """Keys to callers, remembered for a second. Safe to share between threads."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Caller, float]] = OrderedDict()

    def known(self, key: str) -> Caller | None:
        """Return the caller if this key was found valid within the last second, without asking the store."""
        found = self._known.get(hash_key(key))
        if found is None or time.monotonic() > found[1]:
            return None
        return found[0]

    def authenticate(self, key: str) -> Caller:
        """Return the caller behind a key. Raises Unauthorized."""
        if not key.startswith(KEY_PREFIX) or len(key) > _LONGEST_KEY:
            raise Unauthorized(f"This is not an API key of ours; they start with {KEY_PREFIX}.")
        key_hash = hash_key(key)
        until = time.monotonic() + KNOWN_FOR_S
        with self._db.read() as tx:
            row = tx.keys.by_hash(key_hash)
        if row is None:
            raise Unauthorized("This API key isn't valid; it was revoked, or never existed.")
        caller = Caller(row.account_id, row.key_id, _scope(row.scope))
        with self._lock:
            self._known[key_hash] = (caller, until)
            self._known.move_to_end(key_hash)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return caller

    def forget(self, key_id: str) -> None:
        """Stop believing a key that was revoked in this process."""
        with self._lock:
            for key_hash, (caller, _) in list(self._known.items()):
                if caller.key_id == key_id:
                    del self._known[key_hash]


def _scope(text: str) -> Scope:
    for known in ("owner", "write", "read"):
        if text == known:
            return known
    raise Unauthorized("This API key has a scope this version doesn't know.")
