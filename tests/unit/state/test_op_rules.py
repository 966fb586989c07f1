"""Every refusal of an op that depends on the state or on the ops before it, and the order of the checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.grammar import ID, IDS, TABLE, TAKE_REF, build, rejection
from tests.support.states import Project


@pytest.mark.parametrize("name", TAKE_REF)
def test_a_used_ref_is_a_duplicate(seeded: Project, name: str) -> None:
    for first in (
        build("add_decision", ref="a"),
        build("add_decision", ref="a", title=None),
        build("set_phase", ref="a"),
        {"op": "nope", "ref": "a"},
    ):
        result = seeded.try_call(first, build(name, ref="a"))
        assert [(one.index, one.code) for one in result.rejected][-1] == (1, "duplicate")
    malformed = seeded.try_call({"op": "nope", "ref": "a b"}, build(name, ref="a"))
    assert [one.index for one in malformed.applied] == [1]


ID_FIELDS = [
    (op, field.rstrip("*"), kind)
    for op, fields in TABLE.items()
    for field, kind in fields.items()
    if kind in (ID, IDS)
]


@pytest.mark.parametrize(("name", "field", "kind"), ID_FIELDS)
def test_not_found(seeded: Project, name: str, field: str, kind: str) -> None:
    unknown = ["", "x", "dec_9999", "dec_1", "dec_00001", "DEC_0001", "dec_0001 ", "dec_٠٠٠١", "@", "@a b",
               "@none", "_", "dec_-1", "dec_" + "9" * 5000, "phase", "\ud800"]  # fmt: skip
    unknown += ["que_0001"] if name != "answer_open_question" else ["mil_0001"]
    for given in unknown:
        op = build(name, **{field: [given] if kind == IDS else given})
        assert rejection(seeded, op) == "not_found", given


@pytest.mark.parametrize(("name", "field", "kind"), ID_FIELDS)
def test_a_label_of_another_array_or_of_a_later_or_rejected_op_is_not_found(
    seeded: Project, name: str, field: str, kind: str
) -> None:
    op = build(name, **{field: ["@a"] if kind == IDS else "@a"})
    other = build("add_milestone" if "milestone" not in name else "add_risk", ref="a")
    assert rejection(seeded, op, other) == "not_found"
    later = seeded.try_call(op, other)
    assert [(one.index, one.code) for one in later.rejected] == [(0, "not_found")]
    rejected = seeded.try_call(build("add_decision", ref="a", title=None), op)
    assert [one.code for one in rejected.rejected] == ["invalid_value", "not_found"]


INVALID_AFTER_NOT_FOUND: list[dict[str, Any]] = [
    build("supersede_decision", by_id="dec_0001"),
    build("supersede_decision", id="dec_0003", by_id="dec_0003"),
    build("supersede_env", by_id="host_0001"),
    build("supersede_env", id="host_0003", by_id="host_0003"),
    build("add_priority", mitigates=["risk_0001", "risk_0001"]),
    build("add_priority", mitigates=["risk_0003", "risk_0003"]),
    build("set_priority_risks", mitigates=["risk_0001", "risk_0002", "risk_0001"]),
    build("set_priority_risks", id="pri_0003", mitigates=["risk_0001", "risk_0001"]),
    build("reorder_priority", position=4),
    build("reorder_priority", position=2**53 - 1),
]


@pytest.mark.parametrize("op", INVALID_AFTER_NOT_FOUND, ids=lambda op: json.dumps(op)[7:60])
def test_invalid_value_against_the_state(seeded: Project, op: dict[str, Any]) -> None:
    assert rejection(seeded, op) == "invalid_value"


def test_a_label_counts_as_the_id_it_stands_for(seeded: Project) -> None:
    op = build("add_priority", mitigates=["@r", "risk_0004"])
    assert rejection(seeded, op, build("add_risk", ref="r")) == "invalid_value"
    same = build("supersede_decision", id="@d", by_id="dec_0005")
    assert rejection(seeded, same, build("add_decision", ref="d")) == "invalid_value"


INVALID_TRANSITION: list[dict[str, Any]] = [
    build("set_decision_status", id="dec_0003"),
    build("supersede_decision", id="dec_0003"),
    build("supersede_decision", by_id="dec_0003"),
    build("supersede_decision", by_id="dec_0004"),
    build("invalidate_assumption", id="asm_0002"),
    build("answer_open_question", id="que_0002"),
    build("add_priority", mitigates=["risk_0001", "risk_0003"]),
    build("set_priority_risks", id="pri_0003"),
    build("set_priority_risks", id="pri_0003", mitigates=[]),
    build("set_priority_risks", mitigates=["risk_0003"]),
    build("remove_constraint", id="con_0002"),
    build("set_env_status", id="host_0003"),
    build("set_env_status", id="host_0003", status="active"),
    build("verify_env", id="host_0003"),
    build("verify_env", id="host_0004"),
    build("supersede_env", id="host_0003"),
    build("supersede_env", by_id="host_0003"),
    build("supersede_env", by_id="host_0004"),
]


@pytest.mark.parametrize("op", INVALID_TRANSITION, ids=lambda op: json.dumps(op)[7:60])
def test_invalid_transition(seeded: Project, op: dict[str, Any]) -> None:
    assert rejection(seeded, op) == "invalid_transition"


@pytest.mark.parametrize(
    "op",
    [
        build("set_decision_status", id="dec_0004"),
        build("supersede_decision", id="dec_0004"),
        build("supersede_env", id="host_0004"),
        build("set_env_status", id="host_0004", status="active"),
        build("set_priority_status", id="pri_0003", status="active"),
        build("set_risk_status", id="risk_0003", status="open"),
        build("reorder_priority", id="pri_0003", position=1),
        build("set_priority_status", id="pri_0001", status="dropped"),
    ],
    ids=lambda op: json.dumps(op)[7:60],
)
def test_transitions_that_are_allowed(seeded: Project, op: dict[str, Any]) -> None:
    assert seeded.try_call(op).rejected == []


@pytest.mark.parametrize("by_id", ["svc_0001", "repo_0001", "rule_0001"])
def test_supersede_env_by_an_item_of_another_array_is_not_found(seeded: Project, by_id: str) -> None:
    assert rejection(seeded, build("supersede_env", by_id=by_id)) == "not_found"


@pytest.mark.parametrize(
    ("term", "code"),
    [
        ("Anchor", "duplicate"),
        ("aNCHOR", "duplicate"),
        ("Anchor ", None),
        ("Änchor", None),
        ("\uff21nchor", None),
    ],
)
def test_duplicate_term(seeded: Project, term: str, code: str | None) -> None:
    op = build("add_vocabulary", term=term)
    if code is None:
        assert seeded.try_call(op).rejected == []
    else:
        assert rejection(seeded, op) == code


@pytest.mark.parametrize(
    ("first", "second", "duplicate"),
    [
        ("É", "é", False),
        ("Straße", "STRASSE", False),
        ("K", "\u212a", False),
        ("I", "ı", False),
        ("aZ", "Az", True),
    ],
)
def test_terms_compare_with_only_a_to_z_lowered(first: str, second: str, duplicate: bool) -> None:
    adds = [build("add_vocabulary", term=term) for term in (first, second)]
    assert [one.code for one in Project().try_call(*adds).rejected] == (["duplicate"] if duplicate else [])


NO_CHANGE: list[dict[str, Any]] = [
    build("set_decision_status", id="dec_0004", status="rejected"),
    build("set_milestone_status", status="planned"),
    build("set_risk_status", status="open"),
    build("set_priority_status", status="active"),
    build("reorder_priority", position=1),
    build("set_priority_risks", mitigates=[]),
    build("update_vocabulary", definition="d"),
    build("set_metric", name="uptime", value=99.95),
    build("set_metric", name="uptime", value="99.95", unit=None),
    {"op": "set_metric", "name": "uptime", "value": 99.95},
    build("set_env_status", status="active"),
]


@pytest.mark.parametrize("op", NO_CHANGE, ids=lambda op: json.dumps(op)[7:60])
def test_no_change(seeded: Project, op: dict[str, Any]) -> None:
    assert rejection(seeded, op) == "no_change"
    cited = {**op, "evidence_memory_ids": [7]}
    assert seeded.try_call(cited).rejected == []
    assert rejection(seeded, {**cited, "evidence_memory_ids": [7, 7]}, cited) == "no_change"


@pytest.mark.parametrize("name", ["set_focus", "set_phase", "set_vision", "verify_env", "set_metric"])
def test_the_same_op_again_is_no_change(seeded: Project, name: str) -> None:
    assert rejection(seeded, build(name), build(name)) == "no_change"


def test_set_metric_with_a_label_may_be_rejected_and_still_owns_it(seeded: Project) -> None:
    same = {"op": "set_metric", "name": "uptime", "value": 99.95, "ref": "m"}
    result = seeded.try_call(same, build("add_risk", ref="m"))
    assert [one.code for one in result.rejected] == ["no_change", "duplicate"]


class TestCitedCap:
    """`invalid_value` where an item would have more than 10,000 cited memories."""

    def cite(self, project: Project, first: int, last: int) -> Any:
        numbers = list(range(first, last + 1))
        batches = [numbers[at : at + 200] for at in range(0, len(numbers), 200)]
        return project.call(*(build("set_phase", phase="p", evidence_memory_ids=batch) for batch in batches))

    def test_exactly_ten_thousand_are_allowed_and_one_more_is_not(self) -> None:
        project = Project(memories=10_001)
        for first in (1, 5001):
            assert self.cite(project, first, first + 4999).rejected == []
        assert len(project.state.cited["phase"]) == 10_000
        again = build("set_phase", phase="p", evidence_memory_ids=[10_000])
        assert rejection(project, again) == "no_change"
        assert rejection(project, {**again, "evidence_memory_ids": [10_001]}) == "invalid_value"
        assert rejection(project, {**again, "phase": "q", "evidence_memory_ids": [10_001]}) == "invalid_value"
        assert project.try_call({**again, "phase": "q"}).rejected == []


ORDER: list[tuple[str, dict[str, Any]]] = [
    # Each op fails two or more checks; the first in the grammar's order gives the code.
    ("unknown_op", {"op": "nope", "owner": 1, "ref": 5}),
    ("unknown_field", {"op": "add_decision", "owner": 1, "title": 5}),
    ("missing_field", {"op": "add_decision", "title": 5, "ref": "bad ref"}),
    ("invalid_value", {"op": "add_env_host", "name": "password=hunter2", "role": ""}),
    ("invalid_value", {"op": "add_env_host", "name": "password=hunter2", "role": "r", "ref": "bad ref"}),
    ("invalid_value", {"op": "set_decision_status", "id": "dec_9999", "status": "x"}),
    ("invalid_value", {"op": "set_decision_status", "id": "dec_9999", "status": "confirmed",
                       "evidence_memory_ids": [0]}),
    ("secret_detected", {"op": "add_env_service", "name": "pwd=hunter2", "host_id": "host_9", "ref": "used"}),
    ("duplicate", {"op": "add_env_service", "name": "s", "host_id": "host_9999", "ref": "used"}),
    ("duplicate", {"op": "add_vocabulary", "term": "Anchor", "definition": "d", "ref": "used"}),
    ("not_found", {"op": "add_priority", "title": "p", "mitigates": ["risk_0001", "risk_0001", "risk_0009"]}),
    ("not_found", {"op": "set_priority_risks", "id": "pri_0009", "mitigates": ["risk_0003"]}),
    ("not_found", {"op": "supersede_decision", "id": "dec_0003", "by_id": "dec_0009"}),
    ("not_found", {"op": "supersede_env", "id": "host_0009", "by_id": "host_0009"}),
    ("invalid_value", {"op": "supersede_decision", "id": "dec_0003", "by_id": "dec_0003"}),
    ("invalid_value", {"op": "set_priority_risks", "id": "pri_0003", "mitigates": ["risk_0003"] * 2}),
    ("invalid_transition", {"op": "set_priority_risks", "id": "pri_0003", "mitigates": []}),
    ("invalid_transition", {"op": "verify_env", "id": "host_0003", "evidence_memory_ids": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "op"), ORDER)
def test_the_first_failing_check_gives_the_code(seeded: Project, code: str, op: dict[str, Any]) -> None:
    result = seeded.try_call(build("set_phase", ref="used"), op)
    assert [one.code for one in result.rejected] == ["unknown_field", code]


def test_fields_are_judged_in_the_tables_order(seeded: Project) -> None:
    for given in (
        {"title": "", "severity": "x", "description": ""},
        {"description": "", "severity": "x", "title": ""},
    ):
        result = seeded.try_call({"op": "add_risk", **given})
        assert result.rejected[0].error.startswith("title")
    result = seeded.try_call({"op": "add_risk", "title": "t", "severity": "x", "description": ""})
    assert "low, med, high" in result.rejected[0].error
    assert "'x'" in result.rejected[0].error
