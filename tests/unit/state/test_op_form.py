"""Every refusal of an op that grammar.md judges from the op alone, op by op and field by field."""

from __future__ import annotations

from typing import Any

import pytest

from chainmemory.state.operations import OPERATIONS
from tests.support.grammar import (
    COUNT,
    DAY,
    ID,
    IDS,
    LONG,
    PORT,
    SEED,
    SHORT,
    TABLE,
    TAKE_REF,
    VALID,
    VALUE,
    build,
    rejection,
)
from tests.support.states import Project


def test_there_are_the_thirty_operations() -> None:
    assert set(OPERATIONS) == set(TABLE)
    assert len(TABLE) == 30


@pytest.mark.parametrize("name", TABLE)
def test_a_valid_op_of_each_kind_is_applied(seeded: Project, name: str) -> None:
    result = seeded.try_call(build(name))
    assert result.rejected == []
    assert result.applied[0].op == name


@pytest.mark.parametrize("name", TABLE)
def test_optional_fields_may_be_left_out_or_null(seeded: Project, name: str) -> None:
    optional = [field for field in TABLE[name] if not field.endswith("*")]
    without = {"op": name} | {key: value for key, value in VALID[name].items() if key not in optional}
    as_null = build(name, **dict.fromkeys(optional), evidence_memory_ids=None)
    first, second = seeded.try_call(without), seeded.try_call(as_null)
    assert first.rejected == second.rejected == []
    assert first.state.state_hash == second.state.state_hash


@pytest.mark.parametrize("name", ["nope", "", "Add_decision", "add_decision ", "remove_decision", "x" * 5000])
def test_unknown_op(seeded: Project, name: str) -> None:
    assert rejection(seeded, {"op": name, "title": None}) == "unknown_op"


@pytest.mark.parametrize("name", TABLE)
def test_unknown_field(seeded: Project, name: str) -> None:
    for value in ("x", None):
        assert rejection(seeded, build(name, owner=value)) == "unknown_field"
    assert rejection(seeded, {"op": name, "owner": 1}) == "unknown_field", "before missing_field"
    if not name.startswith("add_") and name != "set_metric":
        for ref in ("a", None, 5):
            assert rejection(seeded, build(name, ref=ref)) == "unknown_field"


REQUIRED = [
    (op, field.rstrip("*")) for op, fields in TABLE.items() for field in fields if field.endswith("*")
]


@pytest.mark.parametrize(("name", "field"), REQUIRED)
def test_missing_field_and_required_null(seeded: Project, name: str, field: str) -> None:
    without = {key: value for key, value in build(name, evidence_memory_ids=5).items() if key != field}
    assert rejection(seeded, without) == "missing_field", "before invalid_value"
    assert rejection(seeded, build(name, **{field: None})) == "invalid_value"


BLANK = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
BLANK += "\u2028\u2029\u202f\u205f\u3000"
NO_TEXT = ["", " ", BLANK, *BLANK, "a\x00b", "\x00", 5, True, [], ["x"], {}, 1.5, "\ud800"]
WRONG: dict[str, list[Any]] = {
    SHORT: [*NO_TEXT, "x" * 301, "\U0001f600" * 301],
    LONG: [*NO_TEXT, "x" * 4001],
    DAY: ["", "2027-02-29", "2027-13-01", "2027-1-1", "20270101", "2027-01-01T00:00:00Z", "0000-01-01",
          "２027-01-01", "2027-01-01\n", "2027-01-0٣", 20270101, True, []],
    PORT: [0, 65536, -1, 1.5, "80", True, [80], 2**53, 1e300, float("nan"), float("inf"), 10**400],
    COUNT: [0, -1, 1.5, "1", True, [], 2**53, 1e300],
    ID: [5, True, [], {}, ["dec_0001"]],
    IDS: ["risk_0001", 5, {}, True, [5], ["risk_0001", None], [["risk_0001"]], [True]],
    VALUE: ["", "x" * 101, "a\x00", True, False, [], {}, 2**53, -(2**53), 1e300, 2.0**53, float("nan"),
            float("inf"), "\udc00"],
}  # fmt: skip
FIELDS = [(op, field.rstrip("*"), kind) for op, fields in TABLE.items() for field, kind in fields.items()]


@pytest.mark.parametrize(("name", "field", "kind"), FIELDS)
def test_invalid_value(seeded: Project, name: str, field: str, kind: str) -> None:
    wrong = WRONG.get(kind, ["", "Open", "unknown", "confirmed ", 5, True, [], ["open"]])
    for value in wrong:
        assert rejection(seeded, build(name, **{field: value})) == "invalid_value", value


def test_statuses_that_only_an_op_of_their_own_sets(seeded: Project) -> None:
    for name, status in (
        ("set_decision_status", "proposed"),
        ("set_decision_status", "superseded"),
        ("set_env_status", "superseded"),
    ):
        assert rejection(seeded, build(name, status=status)) == "invalid_value"


EDGES: list[tuple[str, str, Any, Any]] = [
    ("set_phase", "phase", "x" * 300, "x" * 300),
    ("set_phase", "phase", "\U0001f600" * 300, "\U0001f600" * 300),
    ("set_focus", "focus", "é" * 4000, "é" * 4000),
    *(
        ("set_phase", "phase", text, text)
        for text in ("\u200b", "\ufeff", "\u180e", "\x1f", "\x1c", " x ", "\u2060")
    ),
    ("add_env_host", "access_port", 65535, 65535),
    ("add_env_host", "access_port", 8080.0, 8080),
    ("add_milestone", "target_date", "0001-01-01", "0001-01-01"),
    ("add_milestone", "target_date", "2028-02-29", "2028-02-29"),
    ("add_priority", "mitigates", [], []),
    ("add_priority", "mitigates", ["risk_0002", "risk_0001"], ["risk_0002", "risk_0001"]),
    ("set_metric", "value", " ", " "),
    ("set_metric", "value", "x" * 100, "x" * 100),
    ("set_metric", "value", "\U0001f600" * 100, "\U0001f600" * 100),
    ("set_metric", "value", 100.0, "100"),
    ("set_metric", "value", -0.0, "0"),
    ("set_metric", "value", 1e-7, "1e-7"),
    ("set_metric", "value", 99.95, "99.95"),
    ("set_metric", "value", 2**53 - 1, "9007199254740991"),
    ("set_metric", "value", -9007199254740991.0, "-9007199254740991"),
    ("set_metric", "value", "100.0", "100.0"),
]


@pytest.mark.parametrize(("name", "field", "given", "kept"), EDGES)
def test_values_at_the_edge_are_kept(name: str, field: str, given: Any, kept: Any) -> None:
    project = Project()
    project.call(*SEED)
    result = project.call(build(name, **{field: given}))
    assert result.rejected == []
    if name.startswith("set_") and name != "set_metric":
        assert project.state.document["current_focus" if field == "focus" else field] == kept
    else:
        assert project.item(result.applied[0].id)[field] == kept


@pytest.mark.parametrize("name", TABLE)
def test_evidence_of_another_form(seeded: Project, name: str) -> None:
    for evidence in (
        [0],
        [-1],
        [1.5],
        [True],
        ["1"],
        [None],
        [[1]],
        {},
        "1",
        1,
        True,
        [1] * 201,
        [2**53],
        [1e300],
    ):
        assert rejection(seeded, build(name, evidence_memory_ids=evidence)) == "invalid_value", evidence


def test_evidence_at_the_edge(seeded: Project) -> None:
    for evidence, cited in (([], []), ([1] * 200, [1]), ([3.0, 2, 3], [3, 2]), (None, [])):
        applied = seeded.try_call(build("set_phase", evidence_memory_ids=evidence)).applied[0]
        assert [number for number, _ in applied.evidence] == cited


@pytest.mark.parametrize("name", TAKE_REF)
def test_ref_of_another_form(seeded: Project, name: str) -> None:
    for ref in ("", "a b", "@a", "ä", "x" * 65, "a\n", 5, True, [], {}):
        assert rejection(seeded, build(name, ref=ref)) == "invalid_value", ref
    for ref in ("A", "x" * 64, "-_9", None):
        assert seeded.try_call(build(name, ref=ref)).rejected == []
