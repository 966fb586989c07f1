"""Numbers without gaps and one unforked chain, whoever writes at once, and whoever dies while writing."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from chainmemory.store.database import Database
from tests.support.databases import ENGINES, fresh_database_url
from tests.support.processes import CONTEXT
from tests.support.saving import Person, append, check_ledger, create_account, save


def _write(url: str, person: Person, times: int, batch: int, gate: Any, results: Any) -> None:
    """Save `times` batches from one process and tell the numbers got."""
    got: list[int] = []
    try:
        with Database.open(url) as db:
            gate.wait()
            for _ in range(times):
                got += [row.number for row in save(db, person, *(["text"] * batch))]
    except BaseException as error:  # noqa: BLE001 - handed to the test
        results.put(repr(error))
    else:
        results.put(got)


def _write_until_killed(url: str, person: Person, told: Any) -> None:
    with Database.open(url) as db:
        while True:
            told.send(save(db, person, "a", "b", "c")[-1].number)


def _die_in_the_middle(url: str, person: Person) -> None:
    """Leave a transaction with everything written and nothing committed."""
    with Database.open(url) as db, db.write() as tx:
        append(tx, person, ["never", "said"])
        os.kill(os.getpid(), signal.SIGKILL)


def _assert_whole(db: Database, person: Person, expected: int) -> None:
    with db.read() as tx:
        assert tx.memories.highest_number(person.account_id) == expected
        numbers = [memory.number for memory in tx.memories.stream(person.account_id)]
        assert numbers == list(range(1, expected + 1))
        assert check_ledger(tx, person.account_id) == expected
        assert len(tx.outbox.statuses("memory", person.account_id, numbers)) == expected


def test_threads(db: Database) -> None:
    person = create_account(db)
    got: list[int] = []
    failures: list[BaseException] = []

    def work(batch: int) -> None:
        try:
            for _ in range(12):
                got.extend(row.number for row in save(db, person, *(["text"] * batch)))
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in (1, 1, 2, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(got) == list(range(1, 145))
    _assert_whole(db, person, 144)


def test_processes(database_url: str) -> None:
    with Database.open(database_url) as db:
        person = create_account(db)
        gate, results = CONTEXT.Barrier(3), CONTEXT.Queue()
        workers = [
            CONTEXT.Process(target=_write, args=(database_url, person, 20, batch, gate, results))
            for batch in (1, 2, 4)
        ]
        for worker in workers:
            worker.start()
        got = [results.get(timeout=120) for _ in workers]
        for worker in workers:
            worker.join()
        assert [numbers for numbers in got if isinstance(numbers, str)] == []
        assert sorted(number for numbers in got for number in numbers) == list(range(1, 141))
        _assert_whole(db, person, 140)


def test_a_writer_killed_at_any_moment_leaves_whole_batches(database_url: str) -> None:
    with Database.open(database_url) as db:
        person = create_account(db)
        for pause in (0.0, 0.03, 0.07):
            receiver, sender = CONTEXT.Pipe(duplex=False)
            writer = CONTEXT.Process(target=_write_until_killed, args=(database_url, person, sender))
            writer.start()
            sender.close()
            told = receiver.recv()
            time.sleep(pause)
            os.kill(writer.pid or 0, signal.SIGKILL)
            writer.join()
            with contextlib.suppress(EOFError):
                while True:
                    told = receiver.recv()
            _wait_until_writable(db, person)
            with db.read() as tx:
                highest = tx.memories.highest_number(person.account_id)
            # What was told was durable; at most one more batch was committed and not told.
            assert highest - told in (1, 4)
            save(db, person, "x", "y")
            _assert_whole(db, person, highest + 2)


def test_a_writer_killed_before_its_commit_leaves_nothing(database_url: str) -> None:
    with Database.open(database_url) as db:
        person = create_account(db)
        save(db, person, "one")
        writer = CONTEXT.Process(target=_die_in_the_middle, args=(database_url, person))
        writer.start()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        assert [row.number for row in save(db, person, "two")] == [2]
        _assert_whole(db, person, 2)


def _wait_until_writable(db: Database, person: Person) -> None:
    """A killed process's lock falls when the server or the kernel notices; one more save shows it did."""
    save(db, person, "z")


@pytest.mark.parametrize("engine", ENGINES)
def test_different_accounts_do_not_disturb_each_other(engine: str, tmp_path: Path) -> None:
    with fresh_database_url(engine, tmp_path, migrated=True) as url, Database.open(url) as db:
        people = [create_account(db) for _ in range(4)]
        failures: list[BaseException] = []

        def work(person: Person) -> None:
            try:
                for _ in range(10):
                    save(db, person, "one", "two")
            except BaseException as error:  # noqa: BLE001 - handed to the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(person,)) for person in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        for person in people:
            _assert_whole(db, person, 20)
