"""Differences between versions, and the brief, over HTTP."""

from __future__ import annotations

import pytest

from tests.support.api import Account, refused


def test_a_difference_names_what_was_added_and_which_keys_changed(ada: Account) -> None:
    ada.ops("p", {"op": "add_decision", "title": "t", "statement": "s"})
    ada.ops("p", {"op": "add_risk", "title": "r", "severity": "low"})
    ada.ops(
        "p",
        {"op": "set_decision_status", "id": "dec_0001", "status": "confirmed"},
        {"op": "add_priority", "title": "one"},
        {"op": "add_priority", "title": "two"},
    )
    found = ada.get("/v1/project/p/state/diff")
    assert list(found) == ["project", "from", "to", "added", "changed", "moved"]
    assert (found["from"], found["to"]) == (2, 3)
    assert [item["id"] for item in found["added"]] == ["pri_0001", "pri_0002"]
    assert found["changed"] == [
        {"id": "dec_0001", "keys": {"status": ["proposed", "confirmed"], "updated_version": [1, 3]}}
    ]
    ada.ops("p", {"op": "reorder_priority", "id": "pri_0002", "position": 1})
    assert ada.get("/v1/project/p/state/diff")["moved"] == [{"id": "pri_0002", "from": 2, "to": 1}]
    whole = ada.get("/v1/project/p/state/diff", **{"from": 0, "to": 2})
    assert [item["id"] for item in whole["added"]] == ["dec_0001", "risk_0001"]
    same = ada.get("/v1/project/p/state/diff", **{"from": 2, "to": 2})
    assert (same["added"], same["changed"], same["moved"]) == ([], [], [])


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("from=2&to=1", 422, "invalid_value"),
        ("from=3", 422, "invalid_value"),
        ("to=3", 404, "not_found"),
        ("from=-1", 422, "invalid_value"),
        ("to=x", 422, "invalid_value"),
    ],
)
def test_a_difference_of_versions_that_are_not_there(
    ada: Account, query: str, status: int, code: str
) -> None:
    for phase in ("one", "two"):
        ada.ops("p", {"op": "set_phase", "phase": phase})
    field = query.partition("=")[0]
    refused(ada.call("GET", f"/v1/project/p/state/diff?{query}"), status, code, field)
    refused(ada.call("GET", "/v1/project/none/state/diff"), 404, "not_found")


def test_the_brief_keeps_to_its_budget_and_says_what_it_was_asked(ada: Account) -> None:
    ada.ops(
        "p",
        {"op": "set_focus", "focus": "ship the verifier"},
        *({"op": "add_constraint", "statement": f"constraint {n} " + "x" * 300} for n in range(60)),
    )
    made = ada.ops("p", {"op": "set_phase", "phase": "beta"})
    brief = ada.get("/v1/project/p/inject")
    assert list(brief) == ["project", "version", "state_hash", "since", "budget", "lang", "level", "text"]
    assert (brief["version"], brief["state_hash"]) == (2, made["state_hash"])
    assert (brief["since"], brief["budget"], brief["lang"], brief["level"]) == (None, 7000, "en", "standard")
    assert "ship the verifier" in brief["text"]
    assert len(brief["text"]) <= 7000
    small = ada.get("/v1/project/p/inject", budget=1000, lang="de", level="brief", task="constraint 59")
    assert len(small["text"]) <= 1000
    assert "constraint 59" in small["text"]
    later = ada.get("/v1/project/p/inject", since=1)["text"]
    assert "beta" in later
    assert "constraint" not in later
    empty = ada.post("/v1/projects", {"project_id": "empty"}, status=201)
    assert ada.get(f"/v1/project/{empty['project_id']}/inject")["version"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("budget=999", "budget"),
        ("budget=50001", "budget"),
        ("budget=x", "budget"),
        ("lang=xx", "lang"),
        ("level=all", "level"),
        ("since=-1", "since"),
        ("since=2", "since"),
        ("task=" + "x" * 4001, "task"),
    ],
)
def test_a_brief_asked_for_wrongly(ada: Account, query: str, field: str) -> None:
    ada.ops("p", {"op": "set_phase", "phase": "x"})
    refused(ada.call("GET", f"/v1/project/p/inject?{query}"), 422, "invalid_value", field)
    refused(ada.call("GET", "/v1/project/none/inject"), 404, "not_found")
