"""Idempotency-Key: one execution, one answer, for a day, on every writing route but those under /v1/keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.support.api import Account, Api, refused
from tests.support.databases import ENGINES

BOTH = pytest.mark.parametrize("api", ENGINES, indirect=True)


def _send(who: Account, method: str, path: str, body: Any, key: str) -> Any:
    return who.call(method, path, body, headers={"idempotency-key": key})


ROUTES: list[tuple[str, str, Any, Any]] = [
    ("POST", "/v1/memory", {"content": "x"}, {"content": "y"}),
    ("POST", "/v1/memories/batch", {"memories": [{"content": "x"}]}, {"memories": [{"content": "y"}]}),
    (
        "POST",
        "/v1/memory/sealed",
        {"blob_b64": "AgAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAA", "event_hash": "ab" * 32, "plain_len": 1},
        {"blob_b64": "AgAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAA", "event_hash": "cd" * 32, "plain_len": 1},
    ),
    ("POST", "/v1/register", {"name": "a", "model": "b"}, {"name": "a", "model": "c"}),
    ("PUT", "/v1/memories/1/tags", {"tags": ["x"]}, {"tags": ["y"]}),
    ("PUT", "/v1/memories/1/filing", {"category": "ERROR"}, {"category": "LEARNING"}),
    ("POST", "/v1/memories/1/archive", {}, {"x": 1}),
    ("POST", "/v1/memories/1/unarchive", {}, {"x": 1}),
    ("POST", "/v1/projects", {"project_id": "new"}, {"project_id": "newer"}),
    ("POST", "/v1/projects/from-default/work", {}, {"x": 1}),
    (
        "POST",
        "/v1/project/p/state/ops",
        {"ops": [{"op": "set_phase", "phase": "x"}]},
        {"ops": [{"op": "set_phase", "phase": "y"}]},
    ),
]


@BOTH
def test_every_writing_route_replays_its_answer_and_refuses_another_body(api: Api, ada: Account) -> None:
    ada.save()
    for method, path, body, other in ROUTES:
        first = _send(ada, method, path, body, "the-key")
        assert first.status_code in (200, 201), (path, first.text)
        assert "idempotent-replayed" not in first.headers
        before = api.stored()
        again = _send(ada, method, path, body, "the-key")
        assert again.headers["idempotent-replayed"] == "true", path
        assert (again.status_code, again.content) == (first.status_code, first.content)
        refused(_send(ada, method, path, other, "the-key"), 409, "idempotency_conflict")
        assert api.stored() == before, path
    gone = _send(ada, "DELETE", "/v1/projects/new", None, "the-key")
    again = _send(ada, "DELETE", "/v1/projects/new", None, "the-key")
    assert (gone.json(), again.json()) == ({"project_id": "new", "deleted": True, "archived": False},) * 2
    assert again.headers["idempotent-replayed"] == "true"


@BOTH
def test_of_requests_at_once_with_one_key_one_executes(api: Api, ada: Account) -> None:
    def send(_: int) -> Any:
        return _send(ada, "POST", "/v1/memory", {"content": "x"}, "same")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(16)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    assert api.stored()["memories"] == 1


@BOTH
def test_of_state_calls_at_once_with_one_key_one_executes(api: Api, ada: Account) -> None:
    body = {"ops": [{"op": "add_constraint", "statement": "c"}]}

    def send(_: int) -> Any:
        return _send(ada, "POST", "/v1/project/p/state/ops", body, "same")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(16)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert api.stored()["state_versions"] == 1


def test_a_key_belongs_to_an_account_and_a_route(api: Api, ada: Account, bob: Account) -> None:
    _send(ada, "POST", "/v1/memory", {"content": "x"}, "k")
    assert _send(bob, "POST", "/v1/memory", {"content": "y"}, "k").status_code == 201
    assert _send(ada, "POST", "/v1/memories/1/archive", {}, "k").status_code == 200
    assert _send(ada, "POST", "/v1/register", {"name": "a", "model": "b"}, "k").status_code == 200
    assert "idempotent-replayed" not in _send(ada, "POST", "/v1/memory", {"content": "x"}, "K").headers
    # Another key of the same account is the same account.
    member = ada.member("write")
    again = _send(member, "POST", "/v1/memory", {"content": "x"}, "k")
    assert again.headers["idempotent-replayed"] == "true"


def test_a_refused_request_keeps_nothing_and_can_be_put_right(api: Api, ada: Account) -> None:
    before = api.stored()
    refused(_send(ada, "PUT", "/v1/memories/1/tags", {"tags": ["x"]}, "k"), 404, "not_found")
    refused(_send(ada, "POST", "/v1/memory", {"content": ""}, "k"), 422, "invalid_value")
    body = {"ops": [{"op": "set_phase", "phase": "x"}], "expected_version": 5}
    refused(_send(ada, "POST", "/v1/project/p/state/ops", body, "k"), 409, "version_conflict")
    assert api.stored() == before
    ada.save()
    assert _send(ada, "PUT", "/v1/memories/1/tags", {"tags": ["y"]}, "k").status_code == 200


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_of_the_wrong_length_is_refused(api: Api, ada: Account, key: str) -> None:
    before = api.stored()
    refused(_send(ada, "POST", "/v1/memory", {"content": "x"}, key), 422, "invalid_value", "Idempotency-Key")
    assert api.stored() == before
    assert _send(ada, "POST", "/v1/memory", {"content": "x"}, "k" * 200).status_code == 201


def test_after_a_day_a_key_is_new_again(api: Api, ada: Account) -> None:
    _send(ada, "POST", "/v1/memory", {"content": "x"}, "k")
    engine = create_engine(api.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE idempotency SET created_at = '2020-01-01T00:00:00.000000Z'"))
    again = _send(ada, "POST", "/v1/memory", {"content": "y"}, "k")
    assert (again.status_code, again.json()["memory_number"]) == (201, 2)
    with engine.begin() as connection:
        connection.execute(text("UPDATE idempotency SET created_at = '2020-01-01T00:00:00.000000Z'"))
    # Old answers are destroyed now and then.
    api.engine._purged_at = float("-inf")
    _send(ada, "POST", "/v1/memory", {"content": "z"}, "other")
    assert api.stored()["idempotency"] == 1
    engine.dispose()


def test_account_creation_and_members_do_not_take_a_key(api: Api, ada: Account) -> None:
    keys = {
        _send(ada, "POST", "/v1/keys/members", {"label": "x", "scope": "read"}, "k").json()["api_key"]
        for _ in range(2)
    }
    assert len(keys) == 2
    assert api.stored()["idempotency"] == 0
