"""The engine: what every use case works with, opened once per process."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from typing import Final

from chainmemory.engine.callers import Callers
from chainmemory.engine.chain_view import ChainView
from chainmemory.engine.explorer import Explorer
from chainmemory.engine.lost_store import refuse_lost_store
from chainmemory.engine.state_cache import StateCache
from chainmemory.errors import ChainMemoryError
from chainmemory.logging import log
from chainmemory.settings import Settings
from chainmemory.store.database import Database
from chainmemory.store_file import damage_is_final
from chainmemory.vault.account import AccountVault
from chainmemory.vault.master import VARIABLE, MasterKeyring
from chainmemory.vault.ring_lock import hold_ring

MOST_VAULTS: Final = 1024
"""Accounts whose unwrapped keys are kept at once."""


class Engine:
    """Store, vault, chain and caches of one process. Safe to share between threads."""

    def __init__(
        self, settings: Settings, db: Database, keyring: MasterKeyring, ring_held: int | None = None
    ) -> None:
        self.settings = settings
        self.db = db
        self.callers = Callers(db)
        self.chain = ChainView(settings, db)
        self.explorer = Explorer(settings, db, self.chain)
        self.states = StateCache()
        self.damage: str | None = None
        """What is wrong with the store's file, once somebody met it; it doesn't pass by itself."""
        self._keyring = keyring
        self._ring_held = ring_held
        self._lock = threading.Lock()
        self._vaults: OrderedDict[str, AccountVault] = OrderedDict()
        self._purged_at = float("-inf")

    @classmethod
    def open(cls, settings: Settings) -> Engine:
        """Open the store and the master keys of this deployment. Raises ConfigurationError, Unavailable."""
        given = settings.master_key
        environ = {VARIABLE: given.get_secret_value()} if given is not None else {}
        refuse_lost_store(settings)
        db = Database.open(settings.store_url)
        held = None
        try:
            # Until the end: no key leaves the file while this process may wrap with it.
            held = None if environ.get(VARIABLE, "").strip() else hold_ring(settings.home)
            with damage_is_final(db.path), db.read() as tx:
                key_ids = tx.accounts.key_ids()
            # A new or another master key couldn't open the accounts that are there. Read after them: a
            # rotation puts the new key in the file before it uses it.
            keyring = MasterKeyring.load(settings.home, environ, create=not key_ids)
            keyring.require(key_ids)
        except BaseException:
            if held is not None:
                os.close(held)
            db.close()
            raise
        return cls(settings, db, keyring, held)

    def close(self) -> None:
        """Close the store; the engine is of no more use."""
        self.explorer.close()
        self.db.close()
        if self._ring_held is not None:
            os.close(self._ring_held)
            self._ring_held = None

    def new_account_key(self, account_id: str) -> tuple[str, bytes]:
        """Make an account's key and return the master key's id and the wrapped key."""
        return self._keyring.wrap_account_key(account_id, AccountVault.new_key())

    def vault(self, account_id: str) -> AccountVault:
        """Return an account's vault. Raises NotFound, IntegrityError (the master key is another one)."""
        known = self._vaults.get(account_id)
        if known is not None:
            return known
        with self.db.read() as tx:
            account = tx.accounts.get(account_id)
        if account.key_id not in self._keyring.key_ids and self._ring_held is not None:
            # A rotation put a new key in the file while this process ran.
            self._keyring = MasterKeyring.load(self.settings.home, {}, create=False)
        key = self._keyring.unwrap_account_key(account_id, account.key_id, account.wrapped_key)
        vault = AccountVault(account_id, key)
        with self._lock:
            self._vaults[account_id] = vault
            while len(self._vaults) > MOST_VAULTS:
                self._vaults.popitem(last=False)
        return vault

    def note_damage(self, error: ChainMemoryError) -> None:
        """Remember that the store's file is damaged, so that /readyz says so, and say it in the log."""
        log.error(error.message, action="store.damaged")
        self.damage = error.message

    def purge_due(self, every_s: float) -> bool:
        """Say, at most once in `every_s` seconds, that it is time to purge old answers."""
        with self._lock:
            now = time.monotonic()
            due = now - self._purged_at >= every_s
            if due:
                self._purged_at = now
            return due
