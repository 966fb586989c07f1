"""The home's own store, opened by a command that needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chainmemory.errors import ConfigurationError

if TYPE_CHECKING:
    from chainmemory.settings import Settings
    from chainmemory.store.database import Database


@contextmanager
def open_store(settings: Settings) -> Iterator[Database]:
    """Open the store that is there. Raises ConfigurationError where there is none: a look makes nothing."""
    if settings.database_url is None and not (settings.home / "store.sqlite").exists():
        raise ConfigurationError(f"There is no store in {settings.home} yet.")
    from chainmemory.store.database import Database

    with Database.open(settings.store_url) as db:
        yield db
