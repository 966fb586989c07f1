"""Works of several threads that share a transaction on SQLite: fewer commits, and nothing else changes."""

from __future__ import annotations

import contextvars
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chainmemory.errors import Conflict, NotFound, Unavailable
from chainmemory.store import groups
from chainmemory.store.database import Database
from chainmemory.store.tx import Tx
from tests.support.saving import Person, append, check_ledger, create_account


@pytest.fixture
def sqlite_db(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "store.sqlite") as db:
        yield db


def _at_once(db: Database, *works: Callable[[Tx], Any]) -> list[Any]:
    """Run the works from a thread each, so that all but the first wait together; return results or errors."""
    outcomes: list[Any] = [None] * len(works)
    first_is_in, all_wait = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        first_is_in.set()
        all_wait.wait()

    def run(place: int, work: Callable[[Tx], Any]) -> None:
        try:
            outcomes[place] = db.transact(work)
        except Exception as error:  # noqa: BLE001 - the outcome
            outcomes[place] = error

    holder = threading.Thread(target=db.transact, args=(hold,))
    holder.start()
    first_is_in.wait()
    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for count, thread in enumerate(threads, start=1):
        thread.start()
        while len(db._groups._queue) < count:
            pass
    all_wait.set()
    for thread in (holder, *threads):
        thread.join()
    return outcomes


def _commits(db: Database) -> list[str]:
    """Return a list that fills with the transaction statements of the writer from now on."""
    seen: list[str] = []
    session = db._backend.begin_write()
    words = ("BEGIN", "COMMIT", "ROLLBACK")
    session.raw.set_trace_callback(lambda sql: seen.append(sql) if sql.startswith(words) else None)
    db._backend.end(session, None)
    seen.clear()
    return seen


def _saving(person: Person, text: str) -> Callable[[Tx], int]:
    return lambda tx: append(tx, person, [text])[0].number


def test_works_that_wait_together_are_committed_once(sqlite_db: Database) -> None:
    person = create_account(sqlite_db)
    seen = _commits(sqlite_db)
    numbers = _at_once(sqlite_db, *(_saving(person, f"text {n}") for n in range(8)))
    assert numbers == list(range(1, 9))
    # The first commit is the holder's.
    assert seen == ["BEGIN IMMEDIATE", "COMMIT", "BEGIN IMMEDIATE", "COMMIT"]
    with sqlite_db.read() as tx:
        assert check_ledger(tx, person.account_id) == 8


def test_a_work_that_fails_undoes_only_itself(sqlite_db: Database) -> None:
    person = create_account(sqlite_db)

    def fail(tx: Tx) -> None:
        append(tx, person, ["never"])
        raise ZeroDivisionError("mine")

    def refuse(tx: Tx) -> None:
        append(tx, person, ["never"])
        raise Conflict("no", code="version_conflict")

    def break_a_constraint(tx: Tx) -> None:
        append(tx, person, ["never"])
        tx.keys.create("k", account_id="nobody", key_hash="h", scope="owner", label_blob=None, created_at="t")

    seen = _commits(sqlite_db)
    outcomes = _at_once(
        sqlite_db,
        _saving(person, "a"),
        fail,
        _saving(person, "b"),
        refuse,
        break_a_constraint,
        _saving(person, "c"),
    )
    assert outcomes[0::2][:2] == [1, 2]
    assert outcomes[5] == 3
    assert isinstance(outcomes[1], ZeroDivisionError)
    assert isinstance(outcomes[3], Conflict)
    assert outcomes[3].code == "version_conflict"
    assert isinstance(outcomes[4], Conflict)
    assert seen.count("COMMIT") == 2
    with sqlite_db.read() as tx:
        assert check_ledger(tx, person.account_id) == 3
        assert [memory.number for memory in tx.memories.stream(person.account_id)] == [1, 2, 3]


def test_works_are_bounded_in_one_transaction(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_WORKS", 3)
    person = create_account(sqlite_db)
    seen = _commits(sqlite_db)
    assert sorted(_at_once(sqlite_db, *(_saving(person, "x") for _ in range(7)))) == list(range(1, 8))
    assert seen.count("COMMIT") == 1 + 3


def test_where_the_database_ends_the_transaction_each_work_is_done_alone(sqlite_db: Database) -> None:
    """A full disk (here: a page limit) ends the transaction with all its savepoints."""
    person = create_account(sqlite_db)

    def limit(pages: int) -> None:
        session = sqlite_db._backend.begin_write()
        session.raw.execute("ROLLBACK")
        session.raw.execute(f"PRAGMA max_page_count={pages}")
        sqlite_db._backend.end(session, None)

    limit(1)  # SQLite takes the present size for a limit below it
    huge = "word " * 100_000
    outcomes = _at_once(sqlite_db, _saving(person, "small"), _saving(person, huge), _saving(person, "tiny"))
    assert isinstance(outcomes[1], Unavailable)
    assert "full" in str(outcomes[1])
    limit(2**30)
    saved = [outcome for outcome in outcomes if isinstance(outcome, int)]
    with sqlite_db.read() as tx:
        assert tx.memories.highest_number(person.account_id) == len(saved)
        assert check_ledger(tx, person.account_id) == len(saved)
    assert sqlite_db.transact(_saving(person, huge)) == len(saved) + 1


def test_a_commit_that_fails_is_told_to_everyone_it_was_for(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = create_account(sqlite_db)

    def fail(session: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    real = sqlite_db._backend.commit
    commits: list[int] = []

    def after_the_first(session: Any) -> None:
        commits.append(1)
        (real if len(commits) == 1 else fail)(session)

    monkeypatch.setattr(sqlite_db._backend, "commit", after_the_first)
    outcomes = _at_once(sqlite_db, _saving(person, "a"), _saving(person, "b"))
    assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
    monkeypatch.undo()
    with sqlite_db.read() as tx:
        assert tx.memories.highest_number(person.account_id) == 0
    assert sqlite_db.transact(_saving(person, "c")) == 1


def test_a_transaction_within_a_work_is_a_mistake(sqlite_db: Database) -> None:
    person = create_account(sqlite_db)
    with pytest.raises(RuntimeError, match="already open"):
        sqlite_db.transact(lambda tx: sqlite_db.transact(_saving(person, "x")))
    assert sqlite_db.transact(_saving(person, "x")) == 1


def test_a_work_keeps_the_context_of_its_thread(sqlite_db: Database) -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")
    seen: list[str] = []

    def run(name: str) -> None:
        request.set(name)
        sqlite_db.transact(lambda tx: seen.append(request.get()))

    threads = [threading.Thread(target=run, args=(f"request {n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [f"request {n}" for n in range(6)]


def test_an_interrupted_leader_leaves_nobody_waiting(sqlite_db: Database) -> None:
    person = create_account(sqlite_db)

    class Interrupt(BaseException):
        pass

    def interrupt(tx: Tx) -> None:
        raise Interrupt

    told: list[BaseException] = []

    def run() -> None:
        try:
            sqlite_db.transact(interrupt)
        except BaseException as error:  # noqa: BLE001 - the outcome
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [type(error) for error in told] == [Interrupt]
    assert sqlite_db.transact(_saving(person, "x")) == 1


def test_not_found_and_results_reach_their_own_thread(sqlite_db: Database) -> None:
    person = create_account(sqlite_db)
    outcomes = _at_once(
        sqlite_db,
        lambda tx: tx.accounts.get("nobody"),
        lambda tx: tx.accounts.get(person.account_id).account_id,
    )
    assert isinstance(outcomes[0], NotFound)
    assert outcomes[1] == person.account_id
