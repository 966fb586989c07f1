"""Stored answers, and where the contracts are."""

from __future__ import annotations

import threading

import pytest

from chainmemory.errors import Conflict
from chainmemory.store.database import Database
from chainmemory.store.deployments import DeploymentRow
from chainmemory.store.idempotency import StoredAnswer
from chainmemory.store.tx import Tx
from tests.support.saving import NOW, Person, append, at, create_account, save

KEY = {"key_hash": "k" * 64}
BODY = {"body_hash": "b" * 64}


def _claim(tx: Tx, person: Person, now: str = at(1000), **changed: str) -> StoredAnswer | None:
    fields = {**KEY, **BODY, "route": "POST /v1/memory", "expired": at(0), **changed}
    route = fields.pop("route")
    return tx.idempotency.claim(person.account_id, route, now=now, **fields)


def _store(tx: Tx, person: Person, answer: bytes, numbers: tuple[int, int] | None = None) -> None:
    tx.idempotency.store(
        person.account_id, "POST /v1/memory", **KEY, status=201, answer_blob=answer, numbers=numbers
    )


def test_the_same_key_and_body_get_the_same_answer(db: Database) -> None:
    person = create_account(db)
    with db.write() as tx:
        assert _claim(tx, person) is None
        _store(tx, person, b"sealed")
    for _ in range(2):
        with db.write() as tx:
            assert _claim(tx, person) == StoredAnswer(201, b"sealed")


def test_the_same_key_with_another_body_is_a_conflict(db: Database) -> None:
    person = create_account(db)
    with db.write() as tx:
        _claim(tx, person)
        _store(tx, person, b"sealed")
    with pytest.raises(Conflict) as caught, db.write() as tx:
        _claim(tx, person, body_hash="c" * 64)
    assert caught.value.code == "idempotency_conflict"


def test_keys_belong_to_an_account_and_a_route(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    with db.write() as tx:
        _claim(tx, person)
        _store(tx, person, b"sealed")
    with db.write() as tx:
        assert _claim(tx, other, body_hash="c" * 64) is None
        _store(tx, other, b"x")
        assert (
            tx.idempotency.claim(person.account_id, "POST /v1/other", **KEY, **BODY, now=NOW, expired=at(0))
            is None
        )
        tx.idempotency.store(person.account_id, "POST /v1/other", **KEY, status=200, answer_blob=b"x")


def test_a_work_that_fails_leaves_no_claim(db: Database) -> None:
    person = create_account(db)

    def fail(tx: Tx) -> None:
        _claim(tx, person)
        append(tx, person, ["never"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(fail)
    with db.write() as tx:
        assert _claim(tx, person, body_hash="c" * 64) is None
        _store(tx, person, b"x")
        assert tx.memories.highest_number(person.account_id) == 0


def test_an_answer_ends_after_its_time(db: Database) -> None:
    person = create_account(db)
    with db.write() as tx:
        _claim(tx, person, now=at(1000))
        _store(tx, person, b"old")
    with db.write() as tx:
        assert _claim(tx, person, now=at(2000), expired=at(1000)) == StoredAnswer(201, b"old")
    with db.write() as tx:
        assert _claim(tx, person, now=at(2001), expired=at(1001), body_hash="c" * 64) is None
        _store(tx, person, b"new")
    with db.write() as tx:
        assert _claim(tx, person, body_hash="c" * 64) == StoredAnswer(201, b"new")
        assert tx.idempotency.purge(expired=at(2001)) == 0
        assert tx.idempotency.purge(expired=at(2002)) == 1
    with db.write() as tx:
        assert _claim(tx, person) is None
        _store(tx, person, b"x")


def test_an_answer_is_stored_only_for_a_claimed_key(db: Database) -> None:
    person = create_account(db)
    with pytest.raises(RuntimeError), db.write() as tx:
        _store(tx, person, b"x")


def test_answers_that_tell_about_a_memory_can_be_destroyed(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    for owner in (person, other):
        with db.write() as tx:
            _claim(tx, owner)
            _store(tx, owner, b"x", numbers=(3, 5))
    with db.write() as tx:
        assert tx.idempotency.forget_memory(person.account_id, 2) == 0
        assert tx.idempotency.forget_memory(person.account_id, 6) == 0
        assert tx.idempotency.forget_memory(person.account_id, 4) == 1
        assert _claim(tx, other) == StoredAnswer(201, b"x")


def test_of_requests_at_once_one_does_the_work(db: Database) -> None:
    person = create_account(db)
    answers: list[bytes] = []
    failures: list[BaseException] = []

    def work(tx: Tx) -> bytes:
        stored = _claim(tx, person)
        if stored is not None:
            return stored.answer_blob
        answer = f"saved {append(tx, person, ['once'])[0].number}".encode()
        _store(tx, person, answer)
        return answer

    def request() -> None:
        try:
            answers.append(db.transact(work))
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=request) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert answers == [b"saved 1"] * 8
    assert [row.number for row in save(db, person, "next")] == [2]


ANCHOR = DeploymentRow(20250, "ProjectStateAnchor", "0xa", 3, "0xt", "0xc", NOW)


def test_a_contract_is_recorded_once_per_chain_and_name(db: Database) -> None:
    registry = ANCHOR._replace(name="MemoryRegistry", address="0xr")
    elsewhere = ANCHOR._replace(chain_id=1, address="0xe")
    with db.write() as tx:
        for row in (registry, ANCHOR, elsewhere, ANCHOR):
            tx.deployments.add(row)
    with pytest.raises(Conflict) as caught, db.write() as tx:
        tx.deployments.add(ANCHOR._replace(address="0xother"))
    assert (caught.value.code, caught.value.details) == ("deployment_exists", {"address": "0xa"})
    with db.read() as tx:
        assert tx.deployments.of_chain(20250) == {"MemoryRegistry": registry, "ProjectStateAnchor": ANCHOR}
        assert tx.deployments.of_chain(2) == {}
        assert tx.deployments.all() == [elsewhere, registry, ANCHOR]
    with db.write() as tx:
        assert tx.deployments.remove(20250) == 2
        assert tx.deployments.all() == [elsewhere]
