"""Opening, migrating and using a database."""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, make_url, text

from chainmemory.errors import ConfigurationError, Conflict, NotFound, Unavailable
from chainmemory.store import migrate
from chainmemory.store.database import Database
from chainmemory.store.sqlite import SqliteBackend
from chainmemory.store.tables import metadata
from chainmemory.store.tx import Tx
from tests.support.processes import CONTEXT
from tests.support.saving import NOW, Person, create_account, save


def _engine(url: str) -> Any:
    parsed = make_url(url)
    return create_engine(
        parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed
    )


def _open_at_once(url: str, gate: Any, results: Any) -> None:
    gate.wait()
    try:
        with Database.open(url) as db:
            db.check()
            create_account(db)
    except BaseException as error:  # noqa: BLE001 - handed to the test
        results.put(repr(error))
    else:
        results.put(None)


def test_the_migrations_make_the_tables(database_url: str) -> None:
    Database.open(database_url).close()
    with _engine(database_url).connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_the_tables_have_the_keys_and_indexes_they_name(database_url: str) -> None:
    Database.open(database_url).close()
    with _engine(database_url).connect() as connection:
        query = (
            "SELECT name FROM sqlite_master WHERE type = 'index'"
            if connection.dialect.name == "sqlite"
            else "SELECT indexname FROM pg_indexes WHERE schemaname = 'public'"
        )
        there = {row[0] for row in connection.execute(text(query))}
    named = {index.name for table in metadata.tables.values() for index in table.indexes}
    assert named <= there


def test_the_revisions_listed_are_those_in_the_folder() -> None:
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    assert tuple(reversed([script.revision for script in scripts.walk_revisions()])) == migrate.REVISIONS
    assert scripts.get_heads() == [migrate.HEAD]


def test_opening_again_changes_nothing(database_url: str) -> None:
    with Database.open(database_url) as db:
        person = create_account(db)
        save(db, person, "one")
    with Database.open(database_url) as db, db.read() as tx:
        assert tx.accounts.get(person.account_id).memory_count == 1


def test_processes_that_open_an_empty_database_together_all_succeed(database_url: str) -> None:
    gate, results = CONTEXT.Barrier(4), CONTEXT.Queue()
    workers = [CONTEXT.Process(target=_open_at_once, args=(database_url, gate, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    said = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert said == [None] * 4
    with Database.open(database_url) as db, db.read() as tx:
        assert tx.accounts.totals() == (4, 0)


def test_tables_of_a_newer_version_are_refused(database_url: str) -> None:
    Database.open(database_url).close()
    with _engine(database_url).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigurationError, match="newer version"):
        Database.open(database_url)


@pytest.mark.parametrize(
    "url", ["mysql://root:hunter2@localhost/x", "sqlite://", "sqlite:///:memory:", "://x"]
)
def test_other_addresses_are_refused_without_quoting_a_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Database.open(url)
    assert "hunter2" not in str(caught.value)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable) as caught:
        Database.open("postgresql://someone:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be opened"):
        Database.open(tmp_path / "missing" / "store.sqlite")


def test_sqlite_keeps_its_promises(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Database.open(path) as db:
        create_account(db)
        for begin in (db._backend.begin_write, db._backend.begin_read):
            session = begin()
            told = {
                name: session.raw.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
            }
            db._backend.end(session, None)
            assert told == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}
        for file in tmp_path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
        assert {file.name for file in tmp_path.iterdir()} >= {"store.sqlite", "store.sqlite-wal"}


def test_an_exception_undoes_the_whole_transaction(db: Database) -> None:
    person = create_account(db)

    def change_and_fail(tx: Tx) -> None:
        tx.accounts.set_profile(person.account_id, b"changed")
        tx.projects.list(person.account_id)
        tx.memories.list(person.account_id)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(change_and_fail)
    with db.read() as tx:
        assert tx.accounts.get(person.account_id).profile_blob is None
    with db.write() as tx:
        tx.accounts.set_profile(person.account_id, b"changed")
    with db.read() as tx:
        assert tx.accounts.get(person.account_id).profile_blob == b"changed"


def test_a_broken_constraint_is_a_conflict_that_quotes_nothing(db: Database) -> None:
    person = create_account(db)
    with pytest.raises(Conflict) as caught, db.write() as tx:
        tx.keys.create(
            "k1", account_id="nobody", key_hash="ab", scope="owner", label_blob=None, created_at=NOW
        )
    assert "nobody" not in str(caught.value)
    with db.read() as tx:
        assert tx.keys.list(person.account_id) == []


def test_a_read_sees_one_moment(db: Database) -> None:
    person = create_account(db)
    with db.read() as tx:
        before = tx.accounts.get(person.account_id)
        save(db, person, "one")
        assert tx.accounts.get(person.account_id) == before
        assert tx.memories.list(person.account_id) == ([], 0)
    with db.read() as tx:
        assert tx.memories.list(person.account_id)[1] == 1


def test_a_read_writes_nothing(db: Database) -> None:
    person = create_account(db)
    with pytest.raises(Unavailable), db.read() as tx:
        tx.accounts.set_profile(person.account_id, b"changed")
    with db.read() as tx:
        assert tx.accounts.get(person.account_id).profile_blob is None


def test_a_write_inside_a_write_is_a_mistake_on_sqlite(tmp_path: Path) -> None:
    with Database.open(tmp_path / "store.sqlite") as db:
        with db.write(), pytest.raises(RuntimeError, match="already open"), db.write():
            pass
        create_account(db)


def test_readers_in_many_threads_see_whole_transactions(db: Database) -> None:
    person = create_account(db)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        try:
            while not stop.is_set():
                with db.read() as tx:
                    account = tx.accounts.get(person.account_id)
                    _, total = tx.memories.list(person.account_id, limit=1)
                    if not account.memory_count == account.ledger_seq == total:
                        wrong.append((account, total))
        except BaseException as error:  # noqa: BLE001 - handed to the test
            wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(30):
        save(db, person, f"text {number}", "and another")
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_check_says_when_the_tables_are_gone(database_url: str) -> None:
    with Database.open(database_url) as db:
        db.check()
        with _engine(database_url).begin() as connection:
            connection.execute(text("DROP TABLE alembic_version"))
        with pytest.raises(Unavailable):
            db.check()


def test_transact_runs_again_after_a_lost_race(db: Database) -> None:
    runs = []

    def work(tx: object) -> str:
        runs.append(tx)
        if len(runs) < 3:
            raise Conflict("lost", code="try_again")
        return "done"

    assert db.transact(work) == "done"
    assert len(runs) == 3

    def refuse(tx: object) -> None:
        runs.append(tx)
        raise NotFound("no")

    with pytest.raises(NotFound):
        db.transact(refuse)
    assert len(runs) == 4


def test_a_deadlock_is_a_lost_race_that_transact_wins_in_the_end(db: Database) -> None:
    """Two writers lock two accounts in opposite order. On SQLite they queue; PostgreSQL fells one of them."""
    one, two = create_account(db), create_account(db)
    both_hold_one = threading.Barrier(2)
    failures: list[BaseException] = []

    def work(first: Person, second: Person) -> None:
        met = False

        def lock_both(tx: Any) -> None:
            nonlocal met
            tx.accounts.lock(first.account_id)
            if not met:
                met = True
                # On SQLite the other one can't have begun.
                with contextlib.suppress(threading.BrokenBarrierError):
                    both_hold_one.wait(timeout=1)
            tx.accounts.set_profile(second.account_id, b"x")
            tx.accounts.set_profile(first.account_id, b"x")

        try:
            db.transact(lock_both)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in ((one, two), (two, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_writer_that_waits_too_long_gets_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Database.open(path).close()
    with Database(SqliteBackend(path, wait_s=0.2)) as db:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"), db.write():
            pass
        other.execute("ROLLBACK")
        other.close()
        create_account(db)


def test_a_process_that_waits_in_the_turnstile_goes_first(tmp_path: Path) -> None:
    with Database.open(tmp_path / "store.sqlite") as db:
        person = create_account(db)
        with (tmp_path / "store.sqlite-turn").open("rb") as other_process:
            fcntl.flock(other_process, fcntl.LOCK_EX)
            saving = threading.Thread(target=save, args=(db, person, "one"))
            saving.start()
            saving.join(timeout=0.2)
            assert saving.is_alive()
            with db.read() as tx:
                assert tx.memories.highest_number(person.account_id) == 0
            fcntl.flock(other_process, fcntl.LOCK_UN)
            saving.join()
        with db.read() as tx:
            assert tx.memories.highest_number(person.account_id) == 1


def test_a_turnstile_that_is_never_left_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Database.open(path).close()
    with Database(SqliteBackend(path, wait_s=0.1)) as db:
        with path.with_name("store.sqlite-turn").open("rb") as other_process:
            fcntl.flock(other_process, fcntl.LOCK_EX)
            with pytest.raises(Unavailable, match="other processes"):
                create_account(db)
        create_account(db)


def test_scrub_leaves_no_deleted_bytes_in_the_files(tmp_path: Path) -> None:
    with Database.open(tmp_path / "store.sqlite") as db:
        person = create_account(db)
        marks = [b"\xfa\xce" * 20 + bytes([number]) * 8 for number in range(50)]
        for mark in marks:
            with db.write() as tx:
                tx.accounts.set_profile(person.account_id, mark)
        with db.write() as tx:
            tx.accounts.set_profile(person.account_id, None)
        assert any(mark in file.read_bytes() for mark in marks for file in tmp_path.iterdir())
        db.scrub()
        assert not any(mark in file.read_bytes() for mark in marks for file in tmp_path.iterdir())
        assert (tmp_path / "store.sqlite-wal").stat().st_size == 0


def test_scrub_works_on_both(db: Database) -> None:
    person = create_account(db)
    save(db, person, "one")
    db.scrub()
    save(db, person, "two")
    with db.read() as tx:
        assert tx.memories.counts(person.account_id).total == 2


def test_scrub_says_when_a_reader_is_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Database.open(path).close()
    with Database(SqliteBackend(path, wait_s=0.1)) as db:
        person = create_account(db)
        with db.read() as tx:
            tx.accounts.get(person.account_id)
            save(db, person, "one")
            with pytest.raises(Unavailable, match="A long read"):
                db.scrub()
        db.scrub()
        with db.read() as tx:
            assert tx.memories.counts(person.account_id).total == 1
