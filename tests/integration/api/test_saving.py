"""Single saves: alone, in a crowd, and while somebody else holds the store."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from api import saving
from chainmemory.engine import accounts, memory_save
from chainmemory.engine.callers import Caller
from chainmemory.engine.memory_save import SAVE, Save, save_each, save_now
from chainmemory.engine.once import Written
from chainmemory.engine.projects import delete
from chainmemory.engine.runtime import Engine
from chainmemory.engine.state_ops import apply
from chainmemory.errors import Conflict, Unavailable
from chainmemory.settings import Settings
from chainmemory.state.builder import check_call
from tests.support.databases import ENGINES, fresh_database_url
from tests.support.saving import check_ledger
from tests.support.served import Served, serving


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with fresh_database_url(request.param, tmp_path, migrated=True) as url:
        opened = Engine.open(Settings.load(home=tmp_path, database_url=url))
        yield opened
        opened.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as running:
        yield running


def _owner(engine: Engine) -> Caller:
    made = accounts.create_account(engine)
    return Caller(made["account_id"], made["key_id"], "owner")


def _save(caller: Caller, text: str, **fields: Any) -> Save:
    return Save(caller, SAVE.check({"content": text, **fields}))


def _numbers(answers: list[Written | Exception]) -> list[int | str]:
    return [
        one.answer["memory_number"] if isinstance(one, Written) else type(one).__name__ for one in answers
    ]


def test_saves_of_several_accounts_share_a_transaction(engine: Engine) -> None:
    ada, bob = _owner(engine), _owner(engine)
    answers = save_each(
        engine,
        [_save(ada, "a1", project="p"), _save(bob, "b1"), _save(ada, "a2"), _save(bob, "b2", tags=["x"])],
    )
    assert _numbers(answers) == [1, 1, 2, 2]
    with engine.db.read() as tx:
        assert check_ledger(tx, ada.account_id) == check_ledger(tx, bob.account_id) == 2
    assert _numbers(save_each(engine, [_save(ada, "a3")])) == [3]


def test_one_that_is_refused_harms_no_other(engine: Engine) -> None:
    ada, bob = _owner(engine), _owner(engine)
    apply(engine, ada, None, "old", check_call({"ops": [{"op": "set_phase", "phase": "x"}]}))
    assert delete(engine, ada, None, "old").answer["archived"]
    answers = save_each(
        engine, [_save(ada, "a1"), _save(ada, "refused", project="old"), _save(bob, "b1"), _save(ada, "a2")]
    )
    assert _numbers(answers) == [1, "Conflict", 1, 2]
    (alone,) = save_each(engine, [_save(ada, "refused", project="old")])
    assert isinstance(alone, Conflict)
    with engine.db.read() as tx:
        assert check_ledger(tx, ada.account_id) == 3  # a state and two memories


def test_a_save_at_once_saves_or_says_that_it_can_not(tmp_path: Path) -> None:
    with fresh_database_url("sqlite", tmp_path, migrated=True) as url:
        engine = Engine.open(Settings.load(home=tmp_path, database_url=url))
        ada = _owner(engine)
        assert save_now(engine, _save(ada, "one"), wait_s=0.01).answer["memory_number"] == 1
        other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        before = time.monotonic()
        with pytest.raises(Unavailable):
            save_now(engine, _save(ada, "two"), wait_s=0.01)
        assert time.monotonic() - before < 5
        other.execute("ROLLBACK")
        with engine.db.write(), ThreadPoolExecutor(1) as pool:
            refused = pool.submit(save_now, engine, _save(ada, "two"), wait_s=0.01).exception(10)
            assert isinstance(refused, Unavailable)
        assert save_now(engine, _save(ada, "two"), wait_s=0.01).answer["memory_number"] == 2
        with engine.db.read() as tx:
            assert check_ledger(tx, ada.account_id) == 2
        engine.close()


def test_postgresql_is_never_written_to_from_the_event_loop(tmp_path: Path) -> None:
    with fresh_database_url("postgresql", tmp_path, migrated=True) as url:
        engine = Engine.open(Settings.load(home=tmp_path, database_url=url))
        with pytest.raises(Unavailable):
            save_now(engine, _save(_owner(engine), "x"), wait_s=1)
        engine.close()


def test_a_small_save_alone_is_written_at_once_and_a_crowd_together(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[str] = []
    together: list[int] = []

    def now(*args: Any, **more: Any) -> Written:
        at_once.append(threading.current_thread().name)
        return save_now(*args, **more)

    def each(engine: Engine, saves: list[Save]) -> list[Written | Exception]:
        together.append(len(saves))
        return save_each(engine, saves)

    monkeypatch.setattr(saving, "save_now", now)
    monkeypatch.setattr(served.app.site.saver._gatherer, "_work", lambda saves: each(served.engine, saves))
    key = served.new_key()

    def post(size: int = 10) -> int:
        body = json.dumps({"content": "x" * size}).encode()
        return served.request("POST", "/v1/memory", body, [("x-api-key", key)])[0]

    assert post() == 201
    assert (len(at_once), together) == (1, [])
    assert post(20_000) == 201
    assert (len(at_once), together) == (1, [1])
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: post(), range(64))) == [201] * 64
    assert len(at_once) - 1 + sum(together) - 1 == 64
    _, listed = served.request("GET", "/v1/memories/list?limit=1", headers=[("x-api-key", key)])
    assert listed["memories"][0]["memory_number"] == listed["total"] == 66


def test_while_another_process_holds_the_store_the_server_goes_on_answering(
    served: Served, tmp_path: Path
) -> None:
    key = served.new_key()
    body = json.dumps({"content": "x"}).encode()
    assert served.request("POST", "/v1/memory", body, [("x-api-key", key)])[0] == 201
    other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(4) as pool:
        waiting = [
            pool.submit(served.request, "POST", "/v1/memory", body, [("x-api-key", key)]) for _ in range(3)
        ]
        for path in ("/healthz", "/v1/memory/1", "/v1/memories"):
            before = time.monotonic()
            assert served.request("GET", path, headers=[("x-api-key", key)])[0] == 200
            assert time.monotonic() - before < 5
        assert not any(one.done() for one in waiting)
        other.execute("ROLLBACK")
        assert sorted(one.result(20)[1]["memory_number"] for one in waiting) == [2, 3, 4]


def test_after_a_slow_save_the_loop_writes_nothing_itself_for_a_while(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def slow(*args: Any, **more: Any) -> Written:
        calls.append("now")
        time.sleep(saving.SLOW_S * 2)
        return save_now(*args, **more)

    monkeypatch.setattr(saving, "save_now", slow)
    key = served.new_key()
    body = json.dumps({"content": "x"}).encode()
    for _ in range(3):
        assert served.request("POST", "/v1/memory", body, [("x-api-key", key)])[0] == 201
    assert calls == ["now"]


def test_an_idempotent_save_and_a_plain_one_get_numbers_of_their_own(served: Served) -> None:
    key = served.new_key()

    def post(number: int) -> int:
        headers = [("x-api-key", key)] + ([("idempotency-key", str(number))] if number % 2 else [])
        status, saved = served.request("POST", "/v1/memory", b'{"content": "x"}', headers)
        assert status == 201
        return int(saved["memory_number"])

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(post, range(40))) == list(range(1, 41))


def test_what_is_refused_alone_is_refused_over_http_too(served: Served) -> None:
    key = served.new_key()
    headers = [("x-api-key", key)]
    ops = json.dumps({"ops": [{"op": "set_phase", "phase": "x"}]}).encode()
    assert served.request("POST", "/v1/project/p/state/ops", ops, headers)[0] == 200
    assert served.request("DELETE", "/v1/projects/p", headers=headers)[1]["archived"]
    status, told = served.request("POST", "/v1/memory", b'{"content": "x", "project": "p"}', headers)
    assert (status, told["code"]) == (409, "project_archived")
    assert memory_save.save_each(served.engine, []) == []
