"""The file of a SQLite store that isn't what it was: missing or empty where one was begun, or damaged.

SQLite makes a file that isn't there, and takes an empty one for a new database: a store that was deleted, or
left out of a restored backup, would be begun anew without a word. So beside the file lies a mark that says
that its tables were made once. What a crash leaves behind: the mark is made after the tables are on disk, so
a first start that was killed has no mark, and goes on.

Apart from `chainmemory.store`, for the supervisor asks this too and loads no database library.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from chainmemory.errors import ConfigurationError, Unavailable
from chainmemory.folders import sync_folder

DAMAGED: Final = "store_damaged"
FULL: Final = "store_full"
FULL_WORDS: Final = (
    "The disk that the store is on is full, so nothing was saved; make room on it, then it goes on by itself."
)
LEAST_ROOM_BYTES: Final = 256 * 1024
_SUFFIX: Final = "-begun"
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def mark_of(store: Path) -> Path:
    """Return the mark's path."""
    return store.with_name(store.name + _SUFFIX)


def what_is_missing(store: Path) -> str | None:
    """Return what is wrong with the file where there is none, or an empty one: a sentence's end."""
    try:
        return None if store.stat().st_size else "is empty (0 bytes)"
    except FileNotFoundError:
        return "is missing"


def refuse_lost(store: Path) -> None:
    """Raise ConfigurationError where the file is missing or empty, and was a store once."""
    found = what_is_missing(store)
    if found is not None and mark_of(store).exists():
        raise _lost(store, found)


def refuse_emptied(store: Path, raw: sqlite3.Connection) -> None:
    """Raise ConfigurationError where the database has no tables, and had them once."""
    if mark_of(store).exists() and not raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise _lost(store, "holds no tables")


def remember(store: Path) -> None:
    """Make the mark, durably, once the tables are."""
    mark = mark_of(store)
    if mark.exists():
        return
    with suppress(OSError):  # a full disk: the next start makes it, and nothing here depends on it
        mark.touch(0o600)
        sync_folder(store.parent)


@contextmanager
def damage_is_final(store: Path | None) -> Iterator[None]:
    """Turn damage of the database, found while it is opened, into a ConfigurationError that names it."""
    try:
        yield
    except Unavailable as error:
        if store is None or error.code != DAMAGED:
            raise
        raise ConfigurationError(
            f"The store {store} can't be opened. {error.message} Keep the damaged file: "
            '"sqlite3 FILE .recover" may save what can still be read.',
            code=DAMAGED,
        ) from error


def damage(error: sqlite3.Error) -> Unavailable | None:
    """Return what to say where an error of SQLite's means that the file is damaged, or is no database."""
    if _code(error) not in _DAMAGE:
        return None
    return Unavailable(
        f"The database file is damaged ({error}); whoever runs it must restore it from a backup.",
        code=DAMAGED,
    )


def is_full_file(error: BaseException) -> bool:
    """Tell whether SQLite found no room for the file."""
    return isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_FULL


def has_room(place: Path) -> bool:
    """Tell whether the disk of a file or folder has more than next to no room left. Raises OSError."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize >= LEAST_ROOM_BYTES


def refuse_full(store: Path) -> None:
    """Raise Unavailable (`store_full`) where the file has next to no room to grow."""
    if not has_room(store):
        raise Unavailable(FULL_WORDS, code=FULL)


def refuse_damaged(store: Path) -> None:
    """Raise ConfigurationError where the file's header or table of contents can't be read. Quick; a page
    that is damaged further in is found by whoever reads it.
    """
    with damage_is_final(store):
        try:
            with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True, timeout=5)) as raw:
                raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            found = damage(error)
            if found is not None:
                raise found from error


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 where the error isn't the library's."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _lost(store: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        f"The store {store} {found}, but it was in use before ({mark_of(store).name} beside it says so). "
        "Restore it from a backup. To begin anew without what it held, move away that mark, and from the "
        "home what belongs to the lost store: the folder chain and the file client.json.",
        code="store_lost",
    )
