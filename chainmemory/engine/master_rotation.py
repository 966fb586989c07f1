"""Rotating the master key: a new one wraps every account's key, no content is touched (protocol §4).

What a kill at each point leaves, and what the next run makes of it:
- before the new key is in the file: nothing happened.
- with the new key in the file: both keys are there, and open what is wrapped by either. The next run takes
  the newest key for the one that was begun with, and wraps what is left.
- all wrapped anew, the old key still there: the next run drops it.
The old key leaves the file last, while no process uses the ring, and only if nothing is wrapped by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chainmemory.errors import ConfigurationError
from chainmemory.settings import Settings
from chainmemory.store.database import Database
from chainmemory.store.tx import Tx
from chainmemory.vault.master import VARIABLE, MasterKeyring, retire, rotate
from chainmemory.vault.ring_lock import one_rotation, ring_to_itself

BATCH = 200


@dataclass(frozen=True)
class Rotated:
    """What a rotation did."""

    key_id: str
    """The master key that wraps now."""
    rewrapped: int
    """Accounts whose key was wrapped anew."""
    dropped: list[str]
    """Master keys that are gone from the file."""
    waiting: list[str]
    """Master keys that nothing needs, but that are there still: a process may be using the ring, or it is in
    the environment."""


def rotate_master_key(
    settings: Settings, db: Database, advance: Callable[[int], None] = lambda _: None
) -> Rotated:
    """Rotate the master key of a deployment, or finish a rotation that was broken off.

    `advance` is told how many accounts were wrapped anew, at the beginning (0) and after each batch, which is
    one transaction. Raises ConfigurationError where a key is missing, or where the ring is in the environment
    and has no new key yet; Conflict (`rotation_runs`).
    """
    given = settings.master_key.get_secret_value().strip() if settings.master_key else ""
    if given:
        return _with_ring_of_the_environment(given, settings, db, advance)
    home = settings.home
    with one_rotation(home):
        ring = _ring_that_opens_all(settings, db)
        if len(ring.key_ids) == 1:
            rotate(home)
            ring = _ring_that_opens_all(settings, db)
        rewrapped = _rewrap_all(db, ring, advance)
        old = [key_id for key_id in ring.key_ids if key_id != ring.newest_id]
        with ring_to_itself(home) as alone:
            if not alone:
                return Rotated(ring.newest_id, rewrapped, dropped=[], waiting=old)
            # What a server made with the old ring between the last look and its end.
            rewrapped += _rewrap_all(db, ring, advance)
            retire(home, ring.newest_id)
        return Rotated(ring.newest_id, rewrapped, dropped=old, waiting=[])


def _with_ring_of_the_environment(
    given: str, settings: Settings, db: Database, advance: Callable[[int], None]
) -> Rotated:
    ring = MasterKeyring.load(settings.home, {VARIABLE: given})
    if len(ring.key_ids) == 1:
        raise ConfigurationError(
            f"The master key is kept in {VARIABLE}. Put a new one behind it, separated by a comma (64 hex "
            "digits, as `openssl rand -hex 32` makes), restart the server with both, and run this again.",
            code="no_new_master_key",
        )
    with db.read() as tx:
        ring.require(tx.accounts.key_ids())
    rewrapped = _rewrap_all(db, ring, advance)
    return Rotated(ring.newest_id, rewrapped, dropped=[], waiting=ring.key_ids[:-1])


def _ring_that_opens_all(settings: Settings, db: Database) -> MasterKeyring:
    with db.read() as tx:
        key_ids = tx.accounts.key_ids()
    ring = MasterKeyring.load(settings.home, {}, create=False)
    ring.require(key_ids)
    return ring


def _rewrap_all(db: Database, ring: MasterKeyring, advance: Callable[[int], None]) -> int:
    def batch(tx: Tx) -> int:
        accounts = tx.accounts.not_wrapped_by(ring.newest_id, limit=BATCH)
        for account in accounts:
            key = ring.unwrap_account_key(account.account_id, account.key_id, account.wrapped_key)
            key_id, wrapped = ring.wrap_account_key(account.account_id, key)
            tx.accounts.rewrap(
                account.account_id, old_key_id=account.key_id, key_id=key_id, wrapped_key=wrapped
            )
        return len(accounts)

    done = 0
    advance(0)
    while count := db.transact(batch):
        done += count
        advance(count)
    return done
