"""Before anything is opened: is this a home whose store was lost, or is damaged?"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from chainmemory.errors import ConfigurationError
from chainmemory.settings import Settings
from chainmemory.store_file import refuse_damaged, refuse_lost, what_is_missing


def refuse_lost_store(settings: Settings) -> None:
    """Raise ConfigurationError where the home's own store is no database, or is missing though it was in use.

    Two things tell a lost store from one that isn't begun yet: the store's mark, and, where that is gone too
    (a backup restored in part), an embedded chain that somebody anchored on. The worker that writes to the
    chain opens the store first, so a first start that was killed has neither.
    """
    if settings.database_url is not None:
        return  # it lies elsewhere, and a new one there may be meant
    store = settings.home / "store.sqlite"
    refuse_lost(store)
    found = what_is_missing(store)
    if found is not None and settings.embedded and _was_written_to(settings.chain_dir / "chain.sqlite"):
        raise ConfigurationError(
            f"The store {store} {found}, but contracts on the chain in {settings.chain_dir} were written to: "
            "the store was lost, or lies elsewhere. Restore it from a backup, or name its place with "
            "CHAINMEMORY_DATABASE_URL. To begin anew without what it held, move away from the home what "
            "belongs to the lost store: the folder chain and the file client.json.",
            code="store_lost",
        )
    if found is None:
        refuse_damaged(store)


def _was_written_to(chain: Path) -> bool:
    """Say whether the embedded chain holds a log. Reads its file, for the node may not run yet."""
    if not chain.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{chain.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            return connection.execute("SELECT 1 FROM logs LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return False  # no chain yet, or one the node itself will refuse
