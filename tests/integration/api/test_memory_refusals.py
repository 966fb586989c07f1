"""Every refusal on the memory routes: its code, its status, its field; and nothing is written."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.api import Account, Api, refused

BLOB = base64.b64encode(b"\x02" + b"n" * 12 + b"cipher" + b"t" * 16).decode()
SEALED = {"blob_b64": BLOB, "event_hash": "ab" * 32, "plain_len": 6}

SAVES: list[tuple[Any, str, str | None]] = [
    ({}, "missing_field", "content"),
    ({"content": None, "summary": None}, "missing_field", "content"),
    ({"tags": ["x"]}, "missing_field", "content"),
    ({"content": ""}, "invalid_value", "content"),
    ({"summary": ""}, "invalid_value", "summary"),
    ({"content": 7}, "invalid_value", "content"),
    ({"content": True}, "invalid_value", "content"),
    ({"content": "x", "project": "Not A Slug"}, "invalid_value", "project"),
    ({"content": "x", "project": ""}, "invalid_value", "project"),
    ({"content": "x", "project": "x" * 65}, "invalid_value", "project"),
    ({"content": "x", "project": 1}, "invalid_value", "project"),
    ({"content": "x", "project": "a\n"}, "invalid_value", "project"),
    ({"content": "x", "tags": "red"}, "invalid_value", "tags"),
    ({"content": "x", "tags": [1]}, "invalid_value", "tags.0"),
    ({"content": "x", "tags": ["ok", ""]}, "invalid_value", "tags.1"),
    ({"content": "x", "tags": ["y" * 101]}, "invalid_value", "tags.0"),
    ({"content": "x", "tags": [str(n) for n in range(51)]}, "invalid_value", "tags"),
    ({"content": "x", "category": "decision"}, "invalid_value", "category"),
    ({"content": "x", "category": "OTHER"}, "invalid_value", "category"),
    ({"content": "x", "category": 1}, "invalid_value", "category"),
    ({"content": "x", "importance": 0}, "invalid_value", "importance"),
    ({"content": "x", "importance": 11}, "invalid_value", "importance"),
    ({"content": "x", "importance": 5.5}, "invalid_value", "importance"),
    ({"content": "x", "importance": "5"}, "invalid_value", "importance"),
    ({"content": "x", "importance": True}, "invalid_value", "importance"),
    ({"content": "x", "platform": ""}, "invalid_value", "platform"),
    ({"content": "x", "platform": "a\0b"}, "invalid_value", "platform"),
    ({"content": "x", "platform": "y" * 1001}, "invalid_value", "platform"),
    ({"content": "x", "kind": ["a"]}, "invalid_value", "kind"),
    ({"content": "x", "kind": "\0"}, "invalid_value", "kind"),
    ({"content": "x", "subject": "user"}, "invalid_request", "subject"),
    ({"content": "x", "subject": {"type": "user"}}, "missing_field", "subject.id"),
    ({"content": "x", "subject": {"type": "user", "id": 7}}, "invalid_value", "subject.id"),
    ({"content": "x", "subject": {"type": None, "id": "a"}}, "invalid_value", "subject.type"),
    ({"content": "x", "occurred_at": "yesterday"}, "invalid_value", "occurred_at"),
    ({"content": "x", "occurred_at": "2026-01-01T00:00:00"}, "invalid_value", "occurred_at"),
    ({"content": "x", "occurred_at": "2026-02-30T00:00:00Z"}, "invalid_value", "occurred_at"),
    ({"content": "x", "occurred_at": "0001-01-01T00:00:00+01:00"}, "invalid_value", "occurred_at"),
    ({"content": "x", "occurred_at": 1767225600}, "invalid_value", "occurred_at"),
    ({"content": "x", "provenance": []}, "invalid_value", "provenance"),
    ({"content": "x", "provenance": {"Agent": "cc"}}, "invalid_value", "provenance"),
    ({"content": "x", "provenance": {"agent_id": 1}}, "invalid_value", "provenance.agent_id"),
    ({"content": "x", "provenance": {"agent_id": "a\0"}}, "invalid_value", "provenance.agent_id"),
    ({"content": "x", "provenance": {"agent_id": "y" * 1001}}, "invalid_value", "provenance.agent_id"),
    ({"content": "x", "provenance": {f"k{n}": "" for n in range(65)}}, "invalid_value", "provenance"),
    ([], "invalid_request", None),
    ("text", "invalid_request", None),
    (7, "invalid_request", None),
]


@pytest.mark.parametrize(("body", "code", "field"), SAVES)
def test_a_bad_save_is_refused_by_name(eve: Account, body: Any, code: str, field: str | None) -> None:
    before = eve.api.stored()
    refused(eve.call("POST", "/v1/memory", body), 422, code, field)
    if isinstance(body, dict):
        batch = {"memories": [{"content": "good", "project": "new"}, body]}
        named = f"memories.1.{field}" if field else "memories.1"
        refused(eve.call("POST", "/v1/memories/batch", batch), 422, code, named)
    assert eve.api.stored() == before


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing_field", "memories"),
        ({"memories": None}, "invalid_value", "memories"),
        ({"memories": {}}, "invalid_value", "memories"),
        ({"memories": []}, "invalid_value", "memories"),
        ({"memories": [{"content": "x"}] * 501}, "invalid_value", "memories"),
        ({"memories": [{"content": "x"}, 7]}, "invalid_request", "memories.1"),
    ],
)
def test_a_bad_batch_is_refused_whole(eve: Account, body: Any, code: str, field: str) -> None:
    before = eve.api.stored()
    refused(eve.call("POST", "/v1/memories/batch", body), 422, code, field)
    assert eve.api.stored() == before


@pytest.mark.parametrize(
    ("change", "status", "code", "field"),
    [
        ({"blob_b64": None}, 422, "invalid_value", "blob_b64"),
        ({"blob_b64": "not base64!"}, 422, "invalid_value", "blob_b64"),
        ({"blob_b64": ""}, 422, "invalid_value", "blob_b64"),
        ({"blob_b64": base64.b64encode(b"\x01" + b"x" * 34).decode()}, 422, "invalid_value", "blob_b64"),
        ({"plain_len": 7}, 422, "invalid_value", "blob_b64"),
        ({"plain_len": 0}, 422, "invalid_value", "plain_len"),
        ({"plain_len": "6"}, 422, "invalid_value", "plain_len"),
        ({"plain_len": 2**20 + 1}, 413, "too_large", "plain_len"),
        ({"event_hash": "ab" * 31}, 422, "invalid_value", "event_hash"),
        ({"event_hash": 1}, 422, "invalid_value", "event_hash"),
        ({"category": "x"}, 422, "invalid_value", "category"),
        ({"tags": "x"}, 422, "invalid_value", "tags"),
    ],
)
def test_a_bad_sealed_save_is_refused_by_name(
    eve: Account, change: dict[str, Any], status: int, code: str, field: str
) -> None:
    before = eve.api.stored()
    refused(eve.call("POST", "/v1/memory/sealed", {**SEALED, **change}), status, code, field)
    for name in SEALED:
        rest = {key: value for key, value in SEALED.items() if key != name}
        refused(eve.call("POST", "/v1/memory/sealed", rest), 422, "missing_field", name)
    assert eve.api.stored() == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "field"),
    [
        ("PUT", "/v1/memories/1/tags", {}, 422, "missing_field", "tags"),
        ("PUT", "/v1/memories/1/tags", {"tags": None}, 422, "invalid_value", "tags"),
        ("PUT", "/v1/memories/1/tags", {"tags": ["x", 1]}, 422, "invalid_value", "tags.1"),
        ("PUT", "/v1/memories/9/tags", {"tags": []}, 404, "not_found", None),
        ("PUT", "/v1/memories/x/tags", {"tags": []}, 422, "invalid_value", "n"),
        ("POST", "/v1/memories/9/archive", None, 404, "not_found", None),
        ("POST", "/v1/memories/9/unarchive", {}, 404, "not_found", None),
        ("POST", "/v1/memories/1/archive", [], 422, "invalid_request", None),
        ("PUT", "/v1/memories/1/filing", {}, 422, "missing_field", "category"),
        ("PUT", "/v1/memories/1/filing", {"category": None}, 422, "missing_field", "category"),
        ("PUT", "/v1/memories/1/filing", {"category": "x"}, 422, "invalid_value", "category"),
        ("PUT", "/v1/memories/1/filing", {"superseded_by": 1}, 422, "invalid_value", "superseded_by"),
        ("PUT", "/v1/memories/1/filing", {"superseded_by": 9}, 422, "invalid_value", "superseded_by"),
        ("PUT", "/v1/memories/1/filing", {"superseded_by": 0}, 422, "invalid_value", "superseded_by"),
        ("PUT", "/v1/memories/9/filing", {"superseded_by": 1}, 404, "not_found", None),
        ("PUT", "/v1/memories/9/filing", {"category": "ERROR"}, 404, "not_found", None),
        ("POST", "/v1/audit/memory/1", {"dry_run": 1}, 422, "invalid_value", "dry_run"),
        ("POST", "/v1/audit/memory/9", {}, 404, "not_found", None),
    ],
)
def test_bad_filing_is_refused_by_name(
    eve: Account,
    method: str,
    path: str,
    body: Any,
    status: int,
    code: str,
    field: str | None,
) -> None:
    if not eve.get("/v1/memories")["total"]:
        eve.save()
    before, one = eve.api.stored(), eve.get("/v1/memory/1")
    refused(eve.call(method, path, body), status, code, field)
    assert (eve.api.stored(), eve.get("/v1/memory/1")) == (before, one)


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("limit=0", "invalid_value", "limit"),
        ("limit=201", "invalid_value", "limit"),
        ("limit=1e1", "invalid_value", "limit"),
        ("offset=-1", "invalid_value", "offset"),
        (f"offset={2**63}", "invalid_value", "offset"),
        ("project=Not+A+Slug", "invalid_value", "project"),
        ("category=x", "invalid_value", "category"),
        ("archived=maybe", "invalid_value", "archived"),
        ("include_plaintext=yes", "invalid_value", "include_plaintext"),
        ("since=yesterday", "invalid_value", "since"),
        ("until=2026-13-01T00:00:00Z", "invalid_value", "until"),
        ("tag=" + "x" * 101, "invalid_value", "tag"),
        ("tag=%FF", "invalid_request", None),
        ("&".join("a=1" for _ in range(101)), "invalid_request", None),
    ],
)
def test_a_bad_query_is_refused_by_name(eve: Account, query: str, code: str, field: str | None) -> None:
    refused(eve.call("GET", f"/v1/memories/list?{query}"), 422, code, field)


def test_a_search_needs_words(eve: Account) -> None:
    refused(eve.call("GET", "/v1/memories/search"), 422, "missing_field", "q")
    refused(eve.call("GET", "/v1/memories/search?q=" + "x" * 1001), 422, "invalid_value", "q")


def test_an_archived_project_takes_no_memory(api: Api, ada: Account) -> None:
    ada.ops("p", {"op": "set_phase", "phase": "x"})
    assert ada.call("DELETE", "/v1/projects/p").json()["archived"] is True
    before = api.stored()
    refused(ada.call("POST", "/v1/memory", {"content": "x", "project": "p"}), 409, "project_archived")
    batch = {"memories": [{"content": "x"}, {"content": "x", "project": "p"}]}
    refused(ada.call("POST", "/v1/memories/batch", batch), 409, "project_archived")
    assert api.stored() == before
