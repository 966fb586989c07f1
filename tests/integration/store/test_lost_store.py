"""A store that is missing, empty or damaged is told from one that isn't begun yet, and never begun anew."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from chainmemory import store_file
from chainmemory.errors import ConfigurationError, Unavailable
from chainmemory.store import database
from chainmemory.store.database import Database
from tests.support.databases import fresh_database_url
from tests.support.saving import create_account, save


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in use: an account with memories, closed."""
    with fresh_database_url("sqlite", tmp_path, migrated=True) as url, Database.open(url) as db:
        person = create_account(db)
        save(db, person, *(f"memory {number}" for number in range(50)))
    return tmp_path / "store.sqlite"


def _delete(store: Path) -> None:
    store.unlink()


def _empty(store: Path) -> None:
    os.truncate(store, 0)


def _another(store: Path) -> None:
    store.unlink()
    sqlite3.connect(store).execute("PRAGMA journal_mode=WAL").connection.close()


@pytest.mark.parametrize(
    ("lose", "found"),
    [(_delete, "is missing"), (_empty, r"is empty \(0 bytes\)"), (_another, "holds no tables")],
)
def test_a_store_that_was_lost_is_refused_and_nothing_is_made(
    store: Path, lose: Callable[[Path], None], found: str
) -> None:
    kept = shutil.copy(store, store.with_name("backup"))
    lose(store)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=rf"store\.sqlite ({found}), but .*backup") as refused:
            Database.open(store)
        assert refused.value.code == "store_lost"
    assert not store.exists() or store.stat().st_size < 5000
    # What the message offers: a backup, or a new beginning.
    shutil.copy(kept, store)
    Database.open(store).close()
    lose(store)
    store_file.mark_of(store).unlink()
    with Database.open(store) as db, db.read() as tx:
        assert tx.accounts.totals() == (0, 0)


@pytest.mark.parametrize("step", ["refuse_lost", "migrate", "remember"])
def test_a_first_start_that_was_killed_goes_on(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    store = tmp_path / "store.sqlite"
    if step == "refuse_lost":
        store.touch()  # made, and nothing in it yet
    else:
        monkeypatch.setattr(database, step, die)
        with pytest.raises(Killed):
            Database.open(store)
        monkeypatch.undo()
    assert not store_file.mark_of(store).exists()
    with Database.open(store) as db:
        create_account(db)
    assert store_file.mark_of(store).stat().st_mode & 0o777 == 0o600
    Database.open(store).close()


def _garble(store: Path, start: int, length: int) -> None:
    with store.open("r+b") as file:
        file.seek(start)
        file.write(random.Random(start).randbytes(length))


@pytest.mark.parametrize(
    ("start", "length"),
    [(0, 100), (16, 84), (100, 3996), (0, 1 << 20)],
    ids=["magic", "header", "schema", "all"],
)
def test_a_damaged_file_is_refused_for_good_with_what_to_do(store: Path, start: int, length: int) -> None:
    _garble(store, start, length)
    before = store.read_bytes()
    with pytest.raises(
        ConfigurationError, match=r"store\.sqlite can't be opened.*restore it from a backup"
    ) as refused:
        Database.open(store)
    assert refused.value.code == "store_damaged"
    assert store.read_bytes() == before


def test_damage_that_is_met_later_has_a_name_of_its_own(store: Path) -> None:
    with sqlite3.connect(store) as raw:
        [page] = raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'memories'").fetchone()
        [size] = raw.execute("PRAGMA page_size").fetchone()
    raw.close()
    _garble(store, (page - 1) * size, size)
    with Database.open(store) as db:
        db.check()
        with (
            pytest.raises(Unavailable, match=r"file is damaged.*restore it from a backup") as refused,
            db.read() as tx,
        ):
            tx.memories.get(tx.accounts.not_wrapped_by("")[0].account_id, 1)
        assert refused.value.code == "store_damaged"
