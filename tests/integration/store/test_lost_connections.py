"""A PostgreSQL that drops its connections: the work at hand fails, the next one goes through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from chainmemory.errors import NotFound, Unavailable
from chainmemory.store.database import Database
from chainmemory.store.tx import Tx
from tests.support.databases import fresh_database_url
from tests.support.saving import append, check_ledger, create_account, save


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with fresh_database_url("postgresql", tmp_path, migrated=True) as url:
        yield url


def _drop_all_connections(url: str) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_idle_connections_are_replaced(url: str) -> None:
    with Database.open(url) as db:
        person = create_account(db)
        save(db, person, "one")
        _drop_all_connections(url)
        assert [row.number for row in save(db, person, "two")] == [2]
        _drop_all_connections(url)
        db.check()
        with db.read() as tx:
            assert check_ledger(tx, person.account_id) == 2


@pytest.mark.parametrize("when", ["before a statement", "before the commit"])
def test_a_transaction_that_loses_its_connection_leaves_nothing(url: str, when: str) -> None:
    with Database.open(url) as db:
        person = create_account(db)

        def work(tx: Tx) -> None:
            append(tx, person, ["never"])
            _drop_all_connections(url)
            if when == "before a statement":
                tx.memories.highest_number(person.account_id)

        with pytest.raises(Unavailable):
            db.transact(work)
        assert [row.number for row in save(db, person, "one")] == [1]
        with db.read() as tx:
            assert check_ledger(tx, person.account_id) == 1


def test_a_connection_lost_when_all_was_read_is_no_failure(url: str) -> None:
    with Database.open(url) as db:
        person = create_account(db)
        save(db, person, "one")
        with db.read() as tx:
            assert tx.memories.highest_number(person.account_id) == 1
            _drop_all_connections(url)
        assert [row.number for row in save(db, person, "two")] == [2]


def test_a_refusal_stays_what_it_is_where_rolling_back_finds_no_connection(url: str) -> None:
    with Database.open(url) as db:
        person = create_account(db)

        def refuse(tx: Tx) -> None:
            append(tx, person, ["never"])
            _drop_all_connections(url)
            raise NotFound("There is no such thing.")

        with pytest.raises(NotFound):
            db.transact(refuse)
        assert [row.number for row in save(db, person, "one")] == [1]
