"""The home's own store, opened by a command that needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chainmemory.errors import ConfigurationError

if TYPE_CHECKING:
    from chainmemory.settings import Settings
    from chainmemory.store.database import Database


@contextmanager
def open_store(settings: Settings) -> Iterator[Database]:
    """Open the store that is there. Raises ConfigurationError where there is none: a look makes nothing."""
    file = _file_of(settings.store_url)
    if file is not None and not file.exists():
        raise ConfigurationError(f"There is no store at {file} yet.")
    from chainmemory.store.database import Database

    with Database.open(settings.store_url) as db:
        yield db


def _file_of(url: str) -> Path | None:
    """Return the file of a SQLite store: of its URL, or of what is no URL at all."""
    if "://" not in url:
        return Path(url)
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
