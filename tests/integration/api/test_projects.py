"""Projects: made by hand, by default, by being named; deleted or archived."""

from __future__ import annotations

import pytest

from chainmemory.protocol.identity import project_id
from tests.support.api import Account, Api, refused
from tests.support.databases import ENGINES

BOTH = pytest.mark.parametrize("api", ENGINES, indirect=True)


@BOTH
def test_a_project_is_made_and_listed(ada: Account, bob: Account) -> None:
    body = {"project_id": "payments", "name": "Zahlungen ✨", "keywords": ["billing", "eur"]}
    made = ada.post("/v1/projects", body, status=201)
    assert made == {
        "project_id": "payments",
        "id": project_id(ada.account_id, "payments"),
        "public_name": "payments",
        "name": "Zahlungen ✨",
        "keywords": ["billing", "eur"],
        "description": None,
        "archived": False,
        "version": 0,
        "state_hash": None,
        "created_at": made["created_at"],
    }
    ada.save(project="payments")
    ada.save(project="named-by-a-memory")
    ada.ops("named-by-an-op", {"op": "set_phase", "phase": "x"})
    listed = ada.get("/v1/projects")
    assert listed["total"] == 3
    assert [(one["project_id"], one["memories"], one["version"]) for one in listed["projects"]] == [
        ("payments", 1, 0),
        ("named-by-a-memory", 1, 0),
        ("named-by-an-op", 0, 1),
    ]
    assert ada.get("/v1/projects", limit=1, offset=2)["projects"][0]["project_id"] == "named-by-an-op"
    # The public name goes to whoever was first; the other keeps the hashed id.
    second = bob.post("/v1/projects", {"project_id": "payments"}, status=201)
    assert second["public_name"] == second["id"] == project_id(bob.account_id, "payments")


@BOTH
def test_a_project_is_made_once(api: Api, ada: Account) -> None:
    ada.post("/v1/projects", {"project_id": "p"}, status=201)
    before = api.stored()
    refused(ada.call("POST", "/v1/projects", {"project_id": "p"}), 409, "project_exists", "project_id")
    assert api.stored() == before


def test_defaults_can_be_made_by_name(ada: Account) -> None:
    defaults = ada.get("/v1/projects/defaults")["defaults"]
    assert len(defaults) >= 3
    for default in defaults:
        assert list(default) == ["project_id", "name", "keywords", "description"]
    chosen = defaults[0]
    made = ada.post(f"/v1/projects/from-default/{chosen['project_id']}", status=201)
    assert {name: made[name] for name in chosen} == chosen
    again = ada.call("POST", f"/v1/projects/from-default/{chosen['project_id']}")
    refused(again, 409, "project_exists")
    refused(ada.call("POST", "/v1/projects/from-default/none"), 404, "not_found")
    refused(ada.call("POST", "/v1/projects/from-default/NONE"), 422, "invalid_value", "id")


@BOTH
def test_one_without_states_is_deleted_and_its_public_name_stays_taken(
    api: Api, ada: Account, bob: Account
) -> None:
    ada.save(project="p")
    assert ada.call("DELETE", "/v1/projects/p").json() == {
        "project_id": "p",
        "deleted": True,
        "archived": False,
    }
    refused(ada.call("DELETE", "/v1/projects/p"), 404, "not_found")
    assert ada.get("/v1/projects")["total"] == 0
    assert ada.get("/v1/memories", project="p")["total"] == 1
    assert bob.post("/v1/projects", {"project_id": "p"}, status=201)["public_name"].startswith("0x")
    assert ada.post("/v1/projects", {"project_id": "p"}, status=201)["public_name"] == "p"
    assert api.stored()["public_names"] == 1


@BOTH
def test_one_with_states_is_archived_and_can_be_taken_back(ada: Account) -> None:
    made = ada.ops("p", {"op": "set_phase", "phase": "x"})
    gone = ada.call("DELETE", "/v1/projects/p").json()
    assert gone == {"project_id": "p", "deleted": False, "archived": True}
    assert ada.get("/v1/projects")["projects"][0]["archived"] is True
    assert ada.get("/v1/project/p/state")["state_hash"] == made["state_hash"]
    back = ada.post("/v1/projects", {"project_id": "p", "name": "again"}, status=201)
    assert (back["archived"], back["name"], back["version"]) == (False, "again", 1)
    assert ada.ops("p", {"op": "set_phase", "phase": "y"})["version"] == 2


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing_field", "project_id"),
        ({"project_id": None}, "invalid_value", "project_id"),
        ({"project_id": "Not A Slug"}, "invalid_value", "project_id"),
        ({"project_id": 1}, "invalid_value", "project_id"),
        ({"project_id": "p", "name": ""}, "invalid_value", "name"),
        ({"project_id": "p", "name": "x" * 201}, "invalid_value", "name"),
        ({"project_id": "p", "keywords": "x"}, "invalid_value", "keywords"),
        ({"project_id": "p", "keywords": [None]}, "invalid_value", "keywords.0"),
        ({"project_id": "p", "keywords": ["x"] * 51}, "invalid_value", "keywords"),
        ([], "invalid_request", None),
    ],
)
def test_a_bad_project_is_refused_by_name(eve: Account, body: object, code: str, field: str | None) -> None:
    before = eve.api.stored()
    refused(eve.call("POST", "/v1/projects", body), 422, code, field)
    assert eve.api.stored() == before
    refused(eve.call("DELETE", "/v1/projects/Not-A-Slug"), 422, "invalid_value", "slug")
