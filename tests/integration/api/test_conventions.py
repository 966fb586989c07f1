"""The conventions of every route: one error shape, the order of checks, sizes, unknown fields, bad JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Account, Api, refused, running_api

BAD_JSON = {
    "empty": b"",
    "blank": b"  \n",
    "cut": b'{"content": "x"',
    "trailing": b'{"content": "x"} {}',
    "not a number": b'{"content": [NaN]}',
    "infinity": b'{"content": [Infinity]}',
    "minus infinity": b'{"content": [-Infinity]}',
    "overflow": b'{"content": [1e400]}',
    "negative overflow": b'{"content": [-1e999]}',
    "lone surrogate": b'{"content": "\\ud800"}',
    "lone low surrogate": b'{"content": "a\\udfffb"}',
    "lone surrogate in a key": b'{"content": "x", "\\ud800": 1}',
    "duplicate key": b'{"content": "x", "content": "y"}',
    "duplicate key deep down": b'{"content": {"a": [{"b": 1, "b": 2}]}}',
    "depth 65": b'{"content": ' + b"[" * 64 + b"]" * 64 + b"}",
    "depth 100000": b'{"content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "unclosed depth": b"[" * 200_000,
    "bom": b'\xef\xbb\xbf{"content": "x"}',
    "utf-16": '{"content": "x"}'.encode("utf-16"),
    "bad utf-8": b'{"content": "\xff"}',
    "overlong utf-8": b'{"content": "\xc0\x80"}',
    "surrogate in utf-8": b'{"content": "\xed\xa0\x80"}',
    "raw control": b'{"content": "a\x00b"}',
    "single quotes": b"{'content': 'x'}",
    "comment": b'{"content": "x"} // hm',
    "python": b'{"content": None}',
    "leading zero": b'{"content": "x", "importance": 05}',
    "form": b"content=x",
    "html": b"<html></html>",
}
JSON_ROUTES = [
    ("POST", "/v1/memory"),
    ("POST", "/v1/memories/batch"),
    ("POST", "/v1/memory/sealed"),
    ("PUT", "/v1/memories/1/tags"),
    ("PUT", "/v1/memories/1/filing"),
    ("POST", "/v1/projects"),
    ("POST", "/v1/project/p/state/ops"),
    ("POST", "/v1/keys/members"),
    ("POST", "/v1/register"),
]


@pytest.mark.parametrize("name", BAD_JSON)
def test_what_is_no_json_is_refused_everywhere_and_writes_nothing(eve: Account, name: str) -> None:
    before = eve.api.stored()
    for method, path in JSON_ROUTES:
        refused(eve.call(method, path, BAD_JSON[name]), 422, "invalid_json")
    assert eve.api.stored() == before


@pytest.mark.parametrize("number", ["9007199254740992", "-9007199254740992", "1" + "0" * 400, "9" * 50_000])
def test_an_integer_beyond_two_to_the_53_is_an_invalid_value(eve: Account, number: str) -> None:
    before = eve.api.stored()
    for method, path in JSON_ROUTES:
        body = b'{"content": ["' + number[:1].encode() + b'", ' + number.encode() + b"]}"
        refused(eve.call(method, path, body), 422, "invalid_value")
    assert eve.api.stored() == before


@pytest.mark.parametrize(
    "media",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "application/xml",
    ],
)
def test_a_body_is_json_whatever_its_content_type_says(eve: Account, media: str) -> None:
    good = eve.call("POST", "/v1/memory", b'{"content": "x"}', headers={"content-type": media})
    assert good.status_code == 201
    refused(
        eve.call("POST", "/v1/memory", b"content=x", headers={"content-type": media}), 422, "invalid_json"
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nowhere"),
        ("POST", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/v1/memories/"),
        ("DELETE", "/v1/memory/1/2/3"),
        ("GET", "//v1/memories"),
        ("GET", "/v1/memory/../keys%2F"),
        ("GET", "/%00"),
        ("GET", "/%ff"),
        ("GET", "/v1/project//state"),
        ("GET", "/docs"),
        ("GET", "/redoc"),
    ],
)
def test_an_unknown_route_is_404_in_the_one_shape(eve: Account, method: str, path: str) -> None:
    refused(eve.call(method, path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/memory", "POST"),
        ("PATCH", "/v1/memory", "POST"),
        ("OPTIONS", "/v1/memory", "POST"),
        ("TRACE", "/v1/memory", "POST"),
        ("NONSENSE", "/v1/memory", "POST"),
        ("PUT", "/v1/keys", "GET, POST"),
        ("POST", "/v1/memory/7", "GET"),
        ("DELETE", "/v1/project/p/state/ops", "GET, POST"),
        ("POST", "/healthz", "GET"),
    ],
)
def test_another_method_is_405_and_says_which_there_are(
    eve: Account, method: str, path: str, allowed: str
) -> None:
    answer = eve.call(method, path)
    refused(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


def test_head_answers_as_get_does(eve: Account) -> None:
    assert eve.call("HEAD", "/healthz").status_code == 200
    assert eve.call("HEAD", "/v1/memories").status_code == 200
    assert eve.call("HEAD", "/v1/memory/999999").status_code == 404


def test_answers_are_private_json(eve: Account) -> None:
    for answer in (eve.call("GET", "/v1/memories"), eve.call("GET", "/nowhere")):
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Api]:
    with running_api(tmp_path, max_body_bytes=2048) as api:
        yield api


def test_a_body_over_the_limit_is_413_however_it_is_sent(small: Api) -> None:
    ada = small.account()
    before = small.stored()
    envelope = refused(ada.call("POST", "/v1/memory", b"x" * 2049), 413, "too_large")
    assert envelope["details"] == {"limit_bytes": 2048}

    def chunks() -> Iterator[bytes]:
        for _ in range(5):
            yield b"x" * 500

    refused(small.http.post("/v1/memory", content=chunks(), headers={"x-api-key": ada.key}), 413, "too_large")
    assert small.stored() == before
    body = json.dumps({"content": "x" * 2000}).encode()
    assert len(body) <= 2048
    assert ada.call("POST", "/v1/memory", body).status_code == 201


def test_the_default_limit_is_two_mebibytes(eve: Account) -> None:
    filler = b" " * (2 * 1024 * 1024 - 16)
    assert eve.call("POST", "/v1/memory", b'{"content": "x"}' + filler).status_code == 201
    refused(eve.call("POST", "/v1/memory", b'{"content": "x"}' + filler + b" "), 413, "too_large")


def test_checks_come_in_the_promised_order(small: Api) -> None:
    """Each request is wrong in every later way too, and is refused for the first one."""
    ada = small.account()
    reader = ada.member("read")
    ada.save(project="p")
    ada.ops("p", {"op": "set_phase", "phase": "x"})
    assert ada.call("DELETE", "/v1/projects/p").json()["archived"]
    ops = "/v1/project/p/state/ops"
    huge, broken, shapeless = b"{" * 3000, b"{", b'{"ops": []}'
    wrong = b'{"ops": [{"op": "set_phase", "evidence_memory_ids": [99]}], "expected_version": 7}'
    before = small.stored()
    refused(small.http.post(ops, content=huge), 401, "unauthorized")
    refused(reader.call("POST", ops, huge), 413, "too_large")
    refused(reader.call("POST", ops, broken), 422, "invalid_json")
    refused(reader.call("POST", ops, shapeless), 422, "invalid_request")
    refused(reader.call("POST", ops, wrong), 403, "forbidden")
    refused(ada.call("POST", ops, wrong), 409, "project_archived")
    assert small.stored() == before
    ada.post("/v1/projects", {"project_id": "p"}, status=201)
    before = small.stored()
    refused(ada.call("POST", ops, wrong), 409, "version_conflict")
    refused(ada.call("POST", ops, wrong.replace(b": 7", b": 1")), 422, "evidence_not_found")
    refused(ada.call("PUT", "/v1/memories/77/tags", b'{"tags": 1}'), 422, "invalid_value")
    refused(ada.call("PUT", "/v1/memories/77/tags", b'{"tags": []}'), 404, "not_found")
    assert small.stored() == before


STRICT: list[tuple[str, dict[str, Any]]] = [
    ("/v1/project/p/state/ops", {"ops": [{"op": "set_phase", "phase": "x"}]}),
    ("/v1/keys/members", {"label": "x", "scope": "read"}),
]
LENIENT: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/memory", {"content": "x"}),
    ("POST", "/v1/memories/batch", {"memories": [{"content": "x", "more": 1}]}),
    ("POST", "/v1/register", {"name": "a", "model": "b"}),
    ("PUT", "/v1/memories/1/tags", {"tags": []}),
    ("PUT", "/v1/memories/1/filing", {"category": "ERROR"}),
    ("POST", "/v1/memories/1/archive", {}),
    ("POST", "/v1/audit/memory/1", {}),
    ("POST", "/v1/audit/state/p", {}),
    ("POST", "/v1/projects", {"project_id": "brand-new"}),
]


def test_unknown_fields_are_refused_where_the_api_says_so_and_ignored_elsewhere(
    api: Api, ada: Account
) -> None:
    ada.save(project="p")
    before = api.stored()
    for path, body in STRICT:
        refused(ada.call("POST", path, {**body, "surprise": None}), 422, "unknown_field", "surprise")
    assert api.stored() == before
    for method, path, body in LENIENT:
        answer = ada.call(method, path, {**body, "surprise": {"a": [1]}})
        assert answer.status_code in (200, 201), (path, answer.text)


def test_public_routes_are_limited_per_address(tmp_path: Path) -> None:
    with running_api(tmp_path, public_rate_burst=3, public_rate_per_minute=1) as api:
        ada = api.account()
        for path in ("/v1/stats", "/v1/chain", "/v1/verify/none"):
            assert api.http.get(path).status_code in (200, 404)
        for path in (
            "/v1/stats",
            "/v1/verify/none",
            "/v1/project/none/state/anchor",
            "/verify/none",
            "/metrics",
        ):
            answer = api.http.get(path)
            refused(answer, 429, "rate_limited")
            assert int(answer.headers["retry-after"]) >= 1
        assert api.http.post("/rpc", json={}).status_code == 429
        assert ada.call("GET", "/v1/memories").status_code == 200
        assert api.http.get("/healthz").status_code == 200


def test_an_unexpected_failure_is_an_envelope_without_a_traceback(api: Api, ada: Account) -> None:
    api.engine.states = None  # type: ignore[assignment]
    answer = ada.call("POST", "/v1/project/p/state/ops", {"ops": [{"op": "set_phase", "phase": "x"}]})
    refused(answer, 500, "internal_error")
    assert "Traceback" not in answer.text
    assert "NoneType" not in answer.text


def test_before_start_up_the_api_says_that_it_is_not_there_yet(tmp_path: Path) -> None:
    with running_api(tmp_path) as api:
        ada = api.account()
        api.app.site.close()
        refused(ada.call("GET", "/v1/memories"), 503, "unavailable")
