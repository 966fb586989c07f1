"""Accounts, keys, scopes, the agent's profile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.api import Account, Api, refused, running_api
from tests.support.databases import ENGINES

BOTH = pytest.mark.parametrize("api", ENGINES, indirect=True)


@BOTH
def test_an_account_comes_with_an_owner_key_that_is_kept_as_a_hash_alone(api: Api, tmp_path: Path) -> None:
    answer = api.http.post("/v1/keys")
    assert answer.status_code == 201
    made = answer.json()
    assert list(made) == ["api_key", "account_id", "key_id", "wallet"]
    assert re.fullmatch(r"aic_[A-Za-z0-9_-]{43}", made["api_key"])
    assert re.fullmatch(r"[0-9a-f]{32}", made["account_id"])
    assert made["wallet"] is None
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert made["api_key"].encode() not in file.read_bytes()


def test_another_account_knows_nothing_of_it(ada: Account, bob: Account) -> None:
    ada.save(project="shared-name")
    ada.ops("shared-name", {"op": "set_phase", "phase": "alpha"})
    key_id = ada.get("/v1/keys")["keys"][0]["key_id"]
    for method, path, body in [
        ("GET", "/v1/memory/1", None),
        ("GET", "/v1/memory/1/decrypted", None),
        ("GET", "/v1/memory/1/blob", None),
        ("PUT", "/v1/memories/1/tags", {"tags": []}),
        ("POST", "/v1/memories/1/archive", None),
        ("PUT", "/v1/memories/1/filing", {"category": "ERROR"}),
        ("GET", "/v1/my/memory/1/proof", None),
        ("POST", "/v1/audit/memory/1", None),
        ("DELETE", "/v1/projects/shared-name", None),
        ("GET", "/v1/project/shared-name/state", None),
        ("GET", "/v1/project/shared-name/state/versions", None),
        ("GET", "/v1/project/shared-name/state/ops", None),
        ("GET", "/v1/project/shared-name/state/evidence/phase", None),
        ("POST", "/v1/audit/state/shared-name", None),
        ("DELETE", f"/v1/keys/{key_id}", None),
    ]:
        refused(bob.call(method, path, body), 404, "not_found")
    assert bob.get("/v1/memories") == {"memories": [], "total": 0}
    assert bob.get("/v1/memories/search", q="consensus")["memories"] == []
    assert bob.get("/v1/memory/context")["memories"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "aic_"},
        {"x-api-key": "aic_" + "x" * 43},
        {"x-api-key": "aic_" + "x" * 10_000},
        {"x-api-key": "other"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer aic_nonsense"},
        {"authorization": "Basic YWljXw=="},
    ],
)
def test_without_a_valid_key_there_is_401(api: Api, headers: dict[str, str]) -> None:
    for method, path in [("GET", "/v1/memories"), ("POST", "/v1/memory"), ("GET", "/v1/keys")]:
        answer = api.http.request(method, path, headers=headers)
        refused(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_key_works_as_bearer_too(api: Api, ada: Account) -> None:
    answer = api.http.get("/v1/profile", headers={"authorization": f"Bearer {ada.key}"})
    assert answer.status_code == 200


@BOTH
def test_members_have_labels_and_scopes_and_can_be_revoked(api: Api, ada: Account) -> None:
    made = ada.post("/v1/keys/members", {"label": "ナイト bot", "scope": "read"}, status=201)
    assert list(made) == ["api_key", "key_id", "label", "scope", "created_at"]
    reader = Account(api, made["api_key"], ada.account_id)
    assert reader.get("/v1/memories")["total"] == 0
    listed = ada.get("/v1/keys")
    assert listed["total"] == 2
    assert [(one["label"], one["scope"], one["revoked_at"]) for one in listed["keys"]] == [
        (None, "owner", None),
        ("ナイト bot", "read", None),
    ]
    gone = ada.call("DELETE", f"/v1/keys/{made['key_id']}").json()
    assert gone == {"key_id": made["key_id"], "revoked": True, "revoked_at": gone["revoked_at"]}
    refused(reader.call("GET", "/v1/memories"), 401, "unauthorized")
    refused(ada.call("DELETE", f"/v1/keys/{made['key_id']}"), 404, "not_found")
    assert ada.get("/v1/keys", limit=1, offset=1)["keys"][0]["revoked_at"] == gone["revoked_at"]


def test_the_last_owner_key_stays(api: Api, ada: Account) -> None:
    (own,) = ada.get("/v1/keys")["keys"]
    ada.member("write")
    before = api.stored()
    refused(ada.call("DELETE", f"/v1/keys/{own['key_id']}"), 409, "last_owner_key")
    assert api.stored() == before
    other = ada.member("owner")
    assert other.call("DELETE", f"/v1/keys/{own['key_id']}").status_code == 200
    refused(ada.call("GET", "/v1/profile"), 401, "unauthorized")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"label": "x"}, "missing_field", "scope"),
        ({"scope": "read"}, "missing_field", "label"),
        ({"label": "x", "scope": "admin"}, "invalid_value", "scope"),
        ({"label": "", "scope": "read"}, "invalid_value", "label"),
        ({"label": "x" * 201, "scope": "read"}, "invalid_value", "label"),
        ({"label": 1, "scope": "read"}, "invalid_value", "label"),
        ({"label": "x", "scope": "read", "more": 1}, "unknown_field", "more"),
        ([], "invalid_request", None),
    ],
)
def test_a_bad_member_makes_no_key(
    api: Api, ada: Account, body: object, code: str, field: str | None
) -> None:
    before = api.stored()
    refused(ada.call("POST", "/v1/keys/members", body), 422, code, field)
    assert api.stored() == before


def test_an_account_takes_no_fields(api: Api) -> None:
    before = api.stored()
    refused(api.http.post("/v1/keys", json={"name": "x"}), 422, "unknown_field", "name")
    refused(api.http.post("/v1/keys", content=b"{"), 422, "invalid_json")
    assert api.stored() == before
    assert api.http.post("/v1/keys", json={}).status_code == 201


def test_each_scope_reaches_as_far_as_it_says(ada: Account) -> None:
    ada.save(project="p")
    ada.ops("p", {"op": "set_phase", "phase": "alpha"})
    owner_only = [
        ("GET", "/v1/keys", None),
        ("POST", "/v1/keys/members", {"label": "x", "scope": "read"}),
        ("DELETE", "/v1/keys/none", None),
        ("POST", "/v1/register", {"name": "a", "model": "b"}),
        ("POST", "/v1/projects", {"project_id": "q"}),
        ("POST", "/v1/projects/from-default/work", None),
        ("DELETE", "/v1/projects/p", None),
        ("POST", "/v1/project/p/state/ops", {"ops": [{"op": "set_phase", "phase": "beta"}]}),
        ("GET", "/v1/project/p/state", None),
        ("GET", "/v1/project/p/state/versions", None),
        ("GET", "/v1/project/p/state/ops", None),
        ("GET", "/v1/project/p/state/evidence/phase", None),
    ]
    writing = [
        ("POST", "/v1/memory", {"content": "x"}),
        ("POST", "/v1/memories/batch", {"memories": [{"content": "x"}]}),
        ("PUT", "/v1/memories/1/tags", {"tags": ["x"]}),
        ("POST", "/v1/memories/1/archive", None),
        ("POST", "/v1/memories/1/unarchive", None),
        ("PUT", "/v1/memories/1/filing", {"category": "ERROR"}),
    ]
    reading = [
        ("GET", "/v1/profile", None),
        ("GET", "/v1/memories", None),
        ("GET", "/v1/memories/search?q=x", None),
        ("GET", "/v1/memory/1/decrypted", None),
        ("GET", "/v1/my/memory/1/proof", None),
        ("POST", "/v1/audit/memory/1", {}),
        ("POST", "/v1/audit/state/p", {}),
        ("GET", "/v1/projects", None),
        ("GET", "/v1/memory/context", None),
    ]
    writer, reader = ada.member("write"), ada.member("read")
    before = ada.api.stored()
    for method, path, body in owner_only:
        for key in (writer, reader):
            refused(key.call(method, path, body), 403, "forbidden")
    for method, path, body in writing:
        refused(reader.call(method, path, body), 403, "forbidden")
    assert ada.api.stored() == before
    for method, path, body in writing:
        assert writer.call(method, path, body).status_code in (200, 201), path
    for method, path, body in reading:
        for key in (reader, writer, ada):
            assert key.call(method, path, body).status_code == 200, path


def test_registering_names_the_agent(ada: Account) -> None:
    assert ada.get("/v1/profile") == {
        "registered": False,
        "ai_id": None,
        "name": None,
        "model": None,
        "owner": ada.account_id,
        "active": True,
        "reputation": 0,
        "local_memories": 0,
        "synced_memories": 0,
        "chain_memories": 0,
        "pending_sync": 0,
    }
    made = ada.post("/v1/register", {"name": "Ada ✨", "model": "m-1"})
    assert made == {
        "ai_id": ada.account_id,
        "name": "Ada ✨",
        "model": "m-1",
        "wallet": None,
        "tx_hash": None,
    }
    ada.post("/v1/register", {"name": "Grace", "model": "m-2"})
    ada.save()
    profile = ada.get("/v1/profile")
    assert (profile["registered"], profile["name"], profile["model"]) == (True, "Grace", "m-2")
    assert (profile["local_memories"], profile["pending_sync"]) == (1, 1)


def test_stats_count_everything_and_need_no_key(api: Api, ada: Account, bob: Account) -> None:
    ada.save()
    bob.save()
    ada.ops("p", {"op": "set_phase", "phase": "alpha"})
    stats = api.http.get("/v1/stats").json()
    assert stats == {
        "network": "chainmemory-embedded",
        "chain_id": None,
        "block": None,
        "total_memories": 2,
        "episodic_memories": 2,
        "total_ais": 2,
        "total_identities": 2,
        "total_states": 1,
        "total_anchors": 0,
        "contracts": {},
        "tiers": {"episodic": 2},
    }


def test_elsewhere_an_account_needs_the_admin_token(tmp_path: Path) -> None:
    with running_api(tmp_path, peer="192.0.2.7", admin_token="correct horse") as api:
        before = api.stored()
        refused(api.http.post("/v1/keys"), 401, "unauthorized")
        refused(api.http.post("/v1/keys", content=b"{"), 401, "unauthorized")
        refused(api.http.post("/v1/keys", headers={"x-admin-token": "wrong"}), 401, "unauthorized")
        assert api.stored() == before
        bearer = {"authorization": "Bearer correct horse"}
        assert api.http.post("/v1/keys", headers=bearer).status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "rebound.example.org:8420"},
        {"origin": "https://example.org"},
        {"x-forwarded-for": "127.0.0.1"},
        {"forwarded": "for=127.0.0.1"},
        {"via": "1.1 p"},
        {"x-real-ip": "127.0.0.1"},
    ],
)
def test_what_a_browser_or_a_proxy_passes_on_makes_no_account(api: Api, headers: dict[str, str]) -> None:
    before = api.stored()
    refused(api.http.post("/v1/keys", headers=headers), 401, "unauthorized")
    assert api.stored() == before
