"""Every refusal of grammar.md over HTTP: its code and status; and nothing is written."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.support.api import Account, refused
from tests.support.grammar import SEED, VALID

OPS = "/v1/project/seeded/state/ops"
PHASE = {"op": "set_phase", "phase": "next"}


@pytest.fixture(scope="module")
def seeded(eve: Account) -> Account:
    """An account with a memory, and a project that holds an item of every kind."""
    eve.save()
    eve.ops("seeded", *SEED, {"op": "set_focus", "focus": "f", "evidence_memory_ids": [1]})
    eve.ops("seeded", {"op": "set_vision", "vision": "v"}, consolidated_until_event=1)
    eve.save("a second memory, so that the watermark could move")
    return eve


WHOLE: list[tuple[Any, int, str, str | None]] = [
    # Shape.
    ([], 422, "invalid_request", None),
    ("ops", 422, "invalid_request", None),
    ({}, 422, "invalid_request", "ops"),
    ({"ops": None}, 422, "invalid_request", "ops"),
    ({"ops": {}}, 422, "invalid_request", "ops"),
    ({"ops": []}, 422, "invalid_request", "ops"),
    ({"ops": [PHASE] * 101}, 422, "invalid_request", "ops"),
    ({"ops": [PHASE, "set_phase"]}, 422, "invalid_request", "ops.1"),
    ({"ops": [{}]}, 422, "invalid_request", "ops.0.op"),
    ({"ops": [{"op": 1}]}, 422, "invalid_request", "ops.0.op"),
    ({"ops": [{"op": None}]}, 422, "invalid_request", "ops.0.op"),
    ({"ops": [PHASE], "atomic": 1}, 422, "invalid_request", "atomic"),
    ({"ops": [PHASE], "dry_run": "yes"}, 422, "invalid_request", "dry_run"),
    ({"ops": [PHASE], "expected_version": "1"}, 422, "invalid_request", "expected_version"),
    ({"ops": [PHASE], "expected_version": 1.5}, 422, "invalid_request", "expected_version"),
    ({"ops": [PHASE], "expected_version": True}, 422, "invalid_request", "expected_version"),
    ({"ops": [PHASE], "consolidated_until_event": []}, 422, "invalid_request", "consolidated_until_event"),
    ({"ops": [PHASE], "generated_by": 7}, 422, "invalid_request", "generated_by"),
    # An unknown key comes first of all.
    ({"ops": [], "project": "x"}, 422, "unknown_field", "project"),
    ({"surprise": None}, 422, "unknown_field", "surprise"),
    # The state.
    ({"ops": [PHASE], "expected_version": 1}, 409, "version_conflict", "expected_version"),
    ({"ops": [PHASE], "expected_version": 3}, 409, "version_conflict", "expected_version"),
    ({"ops": [PHASE], "expected_version": -1}, 409, "version_conflict", "expected_version"),
    ({"ops": [{**PHASE, "evidence_memory_ids": [3]}]}, 422, "evidence_not_found", None),
    ({"ops": [{**PHASE, "evidence_memory_ids": [1, 2**53 - 1]}]}, 422, "evidence_not_found", None),
    ({"ops": [{"op": "nonsense", "evidence_memory_ids": [3]}]}, 422, "evidence_not_found", None),
    ({"ops": [{"op": "nonsense", "evidence_memory_ids": ["x", 3.0]}]}, 422, "evidence_not_found", None),
    ({"ops": [PHASE], "consolidated_until_event": 0}, 422, "invalid_watermark", None),
    ({"ops": [PHASE], "consolidated_until_event": 3}, 422, "invalid_watermark", None),
    ({"ops": [PHASE], "consolidated_until_event": -1}, 422, "invalid_watermark", None),
    ({"ops": [PHASE, {"op": "nonsense"}], "atomic": True}, 422, "ops_rejected", "ops.1"),
]


@pytest.mark.parametrize(("body", "status", "code", "field"), WHOLE)
def test_a_refused_call_is_refused_whole(
    seeded: Account, body: Any, status: int, code: str, field: str | None
) -> None:
    before = seeded.api.stored()
    refused(seeded.call("POST", OPS, body), status, code, field)
    if isinstance(body, dict) and body.get("ops"):
        # The same of a dry run, and of a project that isn't there yet (where the version is 0).
        if "dry_run" not in body:
            refused(seeded.call("POST", OPS, {**body, "dry_run": True}), status, code, field)
        fresh = "fresh-" + hashlib.sha256(json.dumps(body).encode()).hexdigest()[:16]
        answer = seeded.call("POST", f"/v1/project/{fresh}/state/ops", body)
        if body.get("consolidated_until_event") == 0:
            assert answer.status_code == 200  # there the watermark is 0 already
            return
        refused(answer, status, code, field)
    assert seeded.api.stored() == before


@pytest.mark.parametrize("name", ["Not-A-Slug", "-x", "x" * 65, "a b", "ü", "0x" + "0" * 64, "a%0A", ".x"])
def test_a_name_that_is_no_slug_is_an_invalid_value(seeded: Account, name: str) -> None:
    before = seeded.api.stored()
    refused(
        seeded.call("POST", f"/v1/project/{name}/state/ops", {"ops": [PHASE]}), 422, "invalid_value", "name"
    )
    refused(seeded.call("GET", f"/v1/project/{name}/state"), 422, "invalid_value", "name")
    assert seeded.api.stored() == before


def test_evidence_not_found_names_ops_and_numbers(seeded: Account) -> None:
    ops = [
        {**PHASE, "evidence_memory_ids": [1, 77]},
        {"op": "nonsense", "evidence_memory_ids": [99, 77, 0, -5, "x", None, 1.5]},
    ]
    envelope = refused(seeded.call("POST", OPS, {"ops": ops}), 422, "evidence_not_found")
    assert envelope["details"]["missing"] == [
        {"memory_number": 77, "ops": [0, 1]},
        {"memory_number": 99, "ops": [1]},
    ]


def test_another_accounts_memories_can_not_be_cited(seeded: Account) -> None:
    mallory = seeded.api.account()
    before = seeded.api.stored()
    body = {"ops": [{**PHASE, "evidence_memory_ids": [1]}]}
    refused(mallory.call("POST", "/v1/project/p/state/ops", body), 422, "evidence_not_found")
    assert seeded.api.stored() == before


def test_ops_rejected_lists_all(seeded: Account) -> None:
    ops = [{"op": "nonsense"}, PHASE, {"op": "set_phase"}]
    envelope = refused(seeded.call("POST", OPS, {"ops": ops, "atomic": True}), 422, "ops_rejected")
    assert [(one["index"], one["op"], one["code"]) for one in envelope["details"]["rejected"]] == [
        (0, "nonsense", "unknown_op"),
        (2, "set_phase", "missing_field"),
    ]


ADD = "add_decision"
REJECTED: list[tuple[str, dict[str, Any]]] = [
    ("unknown_op", {"op": "drop_everything", "zzz": 1}),
    ("unknown_field", {"op": ADD, "title": "t", "zzz": None}),
    ("unknown_field", {"op": "set_phase", "phase": "x", "ref": "r"}),
    ("missing_field", {"op": ADD, "title": "t"}),
    ("invalid_value", {"op": ADD, "title": "t", "statement": None}),
    ("invalid_value", {"op": ADD, "title": " \u3000", "statement": "s"}),
    ("invalid_value", {"op": ADD, "title": "x" * 301, "statement": "s"}),
    ("invalid_value", {"op": ADD, "title": "t", "statement": "x" * 4001}),
    ("invalid_value", {"op": ADD, "title": "a\0b", "statement": "s"}),
    ("invalid_value", {"op": ADD, "title": 7, "statement": "s"}),
    ("invalid_value", {"op": "add_milestone", "title": "t", "target_date": "2027-02-29"}),
    ("invalid_value", {"op": "add_risk", "title": "t", "severity": "high!"}),
    ("invalid_value", {"op": "add_env_host", "name": "n", "role": "r", "access_port": 70_000}),
    ("invalid_value", {"op": "set_metric", "name": "n", "value": ""}),
    ("invalid_value", {"op": "set_metric", "name": "n", "value": True}),
    ("invalid_value", {**PHASE, "evidence_memory_ids": [0]}),
    ("invalid_value", {**PHASE, "evidence_memory_ids": ["1"]}),
    ("invalid_value", {**PHASE, "evidence_memory_ids": [1] * 201}),
    ("invalid_value", {"op": ADD, "title": "t", "statement": "s", "ref": "not ok"}),
    ("invalid_value", {"op": "supersede_decision", "id": "dec_0001", "by_id": "dec_0001"}),
    ("invalid_value", {"op": "reorder_priority", "id": "pri_0001", "position": 4}),
    ("invalid_value", {"op": "reorder_priority", "id": "pri_0001", "position": 0}),
    ("invalid_value", {"op": "set_priority_risks", "id": "pri_0001", "mitigates": ["risk_0001"] * 2}),
    (
        "secret_detected",
        {"op": "add_env_repo", "name": "r", "path": "p", "remote": "https://u:hunter2hunter2@example.org/r"},
    ),
    ("not_found", {"op": "set_decision_status", "id": "dec_0099", "status": "confirmed"}),
    ("not_found", {"op": "set_decision_status", "id": "risk_0001", "status": "confirmed"}),
    ("not_found", {"op": "set_decision_status", "id": "@nobody", "status": "confirmed"}),
    ("not_found", {"op": "add_env_service", "name": "s", "host_id": "host_0099"}),
    ("not_found", {"op": "supersede_env", "id": "host_0001", "by_id": "repo_0001"}),
    ("invalid_transition", {"op": "set_decision_status", "id": "dec_0003", "status": "confirmed"}),
    ("invalid_transition", {"op": "supersede_decision", "id": "dec_0001", "by_id": "dec_0004"}),
    ("invalid_transition", {"op": "invalidate_assumption", "id": "asm_0002"}),
    ("invalid_transition", {"op": "answer_open_question", "id": "que_0002", "answer": "a"}),
    ("invalid_transition", {"op": "add_priority", "title": "p", "mitigates": ["risk_0003"]}),
    ("invalid_transition", {"op": "set_priority_risks", "id": "pri_0003", "mitigates": []}),
    ("invalid_transition", {"op": "remove_constraint", "id": "con_0002"}),
    ("invalid_transition", {"op": "set_env_status", "id": "host_0003", "status": "active"}),
    ("invalid_transition", {"op": "verify_env", "id": "host_0004"}),
    ("invalid_transition", {"op": "supersede_env", "id": "host_0001", "by_id": "host_0004"}),
    ("duplicate", {"op": "add_vocabulary", "term": "ANCHOR", "definition": "d"}),
    ("no_change", {"op": "set_focus", "focus": "f", "evidence_memory_ids": [1]}),
]


@pytest.mark.parametrize(("code", "op"), REJECTED)
def test_an_invalid_op_is_rejected_alone_and_alone_changes_nothing(
    seeded: Account, code: str, op: dict[str, Any]
) -> None:
    before = seeded.api.stored()
    answer = seeded.ops("seeded", op)
    assert answer["unchanged"] is True
    (rejected,) = answer["rejected"]
    assert list(rejected) == ["index", "op", "code", "error"]
    assert (rejected["index"], rejected["op"], rejected["code"]) == (0, op["op"], code)
    assert len(rejected["error"]) > 10
    assert "hunter2" not in rejected["error"]
    refused(seeded.call("POST", OPS, {"ops": [op], "atomic": True}), 422, "ops_rejected", "ops.0")
    assert seeded.api.stored() == before


def test_a_used_label_is_a_duplicate(seeded: Account) -> None:
    op = {"op": "add_constraint", **VALID["add_constraint"], "ref": "once"}
    answer = seeded.ops("seeded", op, op, dry_run=True)
    assert [one["code"] for one in answer["rejected"]] == ["duplicate"]


def test_a_state_can_not_grow_beyond_its_limit(eve: Account) -> None:
    """4 MiB of canonical JSON: about 1,040 texts of 4,000 characters."""
    ops = [{"op": "add_constraint", "statement": f"{number:04}" + "x" * 3_996} for number in range(100)]
    for _ in range(10):
        assert eve.ops("big", *ops)["applied_count"] == 100
    before = eve.api.stored()
    envelope = refused(eve.call("POST", "/v1/project/big/state/ops", {"ops": ops}), 422, "state_too_large")
    assert envelope["details"]["limit"] == 4_194_304
    assert eve.api.stored() == before


def test_an_archived_project_takes_no_ops(eve: Account) -> None:
    eve.ops("old", PHASE)
    assert eve.call("DELETE", "/v1/projects/old").json() == {
        "project_id": "old",
        "deleted": False,
        "archived": True,
    }
    before = eve.api.stored()
    for more in ({}, {"dry_run": True}, {"expected_version": 9}):
        body = {"ops": [PHASE], **more}
        refused(eve.call("POST", "/v1/project/old/state/ops", body), 409, "project_archived")
    assert eve.api.stored() == before


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/project/nobody/state", 404, "not_found"),
        ("/v1/project/nobody/state/versions", 404, "not_found"),
        ("/v1/project/nobody/state/ops", 404, "not_found"),
        ("/v1/project/nobody/state/evidence/phase", 404, "not_found"),
        ("/v1/project/seeded/state?version=-1", 422, "invalid_value"),
        ("/v1/project/seeded/state?version=x", 422, "invalid_value"),
        ("/v1/project/seeded/state?version=9007199254740992", 422, "invalid_value"),
        ("/v1/project/seeded/state?version=99", 404, "not_found"),
        ("/v1/project/seeded/state/versions?limit=201", 422, "invalid_value"),
        ("/v1/project/seeded/state/evidence/" + "x" * 101, 422, "invalid_value"),
        ("/v1/project/seeded/state/evidence/phase?limit=0", 422, "invalid_value"),
    ],
)
def test_reading_what_is_not_there(seeded: Account, path: str, status: int, code: str) -> None:
    refused(seeded.call("GET", path), status, code)
