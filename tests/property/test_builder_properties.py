"""Any sequence of calls keeps every invariant of the state, and replays to the same bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.errors import ChainMemoryError
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.hashing import ZERO
from chainmemory.state.builder import ProjectState, Result, replay, state_hash, state_salt
from chainmemory.state.document import ARRAYS, RECORD_KEYS, SCALARS, items_of
from chainmemory.verify.document import Rebuilt
from tests.support.grammar import SEED, TABLE, TAKE_REF, VALID
from tests.support.states import PROJECT_ID, SECRET, Project, event_hash

MEMORIES = 8
CODES = {
    "unknown_op", "unknown_field", "missing_field", "invalid_value", "secret_detected", "duplicate",
    "not_found",
    "invalid_transition", "no_change",
}  # fmt: skip
CALL_CODES = {
    "version_conflict",
    "evidence_not_found",
    "invalid_watermark",
    "ops_rejected",
    "state_too_large",
}

texts = st.sampled_from(
    [
        *"abcdef",
        "Straße",
        "STRASSE",
        " x ",
        "決定",
        "a\tb",
        "no deploys on Friday",
        "password=hunter2",
        "",
        "x" * 301,
    ]
)
labels = st.sampled_from([*"abc", "bad label"])
numbers = st.sampled_from([*range(1, MEMORIES + 1)] * 6 + [1.0, 2.0, 0, 1.5, True])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def ids(name: str, field: str) -> Any:
    """Ids for a field: mostly of the right array and often there, sometimes of any array or a label."""
    example = VALID[name][field]
    prefix = (example[0] if isinstance(example, list) else example).rpartition("_")[0]
    right = st.integers(1, 5).map(lambda number: f"{prefix}_{number:04}")
    other = st.sampled_from(["dec_0001", "risk_0002", "host_0001", "svc_0001", "dec_1", "", "phase"])
    return st.one_of(right, right, right, labels.map("@{}".format), other)


def field_values(name: str, field: str, kind: str) -> Any:
    by_kind = {
        "short": texts,
        "long": texts,
        "day": st.sampled_from(["2028-02-29", "2027-01-31", "2027-02-29"]),
        "port": st.sampled_from([1, 65535, 80.0, 0]),
        "count": st.integers(1, 4),
        "value": st.sampled_from([1, 1.0, "1", 0.5, "x"]),
    }
    if kind == "id":
        return ids(name, field)
    if kind == "ids":
        return st.lists(ids(name, field), max_size=2)
    return by_kind[kind] if kind in by_kind else st.sampled_from(kind.split())


@st.composite
def ops(draw: Any) -> dict[str, Any]:
    """Mostly well-formed ops on ids that often exist, sometimes damaged."""
    name = draw(st.sampled_from(list(TABLE)))
    op: dict[str, Any] = {"op": name}
    for field, kind in TABLE[name].items():
        if field.endswith("*") or draw(st.integers(0, 2)) == 0:
            op[field.rstrip("*")] = draw(field_values(name, field.rstrip("*"), kind))
    if draw(st.booleans()):
        op["evidence_memory_ids"] = draw(st.lists(numbers, max_size=4))
    if name in TAKE_REF and draw(st.booleans()):
        op["ref"] = draw(labels)
    if draw(st.integers(0, 15)) == 15:
        op[draw(st.sampled_from([*op, "extra"]))] = draw(anything)
    return op if isinstance(op["op"], str) else {"op": "nope"}


calls = st.fixed_dictionaries(
    {"ops": st.lists(ops(), min_size=1, max_size=10)},
    optional={
        "consolidated_until_event": st.sampled_from([None, 0, 1, 3, MEMORIES, MEMORIES + 1]),
        "expected_version": st.sampled_from([None] * 8 + [0, 1]),
    },
)


@settings(max_examples=80, deadline=None)
@given(st.lists(calls, min_size=1, max_size=6))
def test_any_sequence_of_calls(sequence: list[dict[str, Any]]) -> None:
    project = Project(memories=MEMORIES)
    cited: dict[str, set[str]] = {}
    rebuilt = ProjectState.empty(PROJECT_ID)
    independent = Rebuilt(PROJECT_ID, SECRET)
    for body in [{"ops": SEED}, *sequence]:
        before = project.state
        frozen = json.dumps(before.document)
        options = {key: value for key, value in body.items() if key != "ops"}
        try:
            result = project.call(*body["ops"], **options)
        except ChainMemoryError as error:
            assert error.code in CALL_CODES  # noqa: PT017 — a refused call is one of two good outcomes
            assert project.state is before
            continue
        assert json.dumps(before.document) == frozen, "a version was written to after it was made"
        check_result(body, before, result)
        check_dry_and_atomic(project, before, body, result)
        for applied in result.applied:
            cited.setdefault(applied.id, set()).update(event for _, event in applied.evidence)
        if not result.changed:
            continue
        check_document(before, result.state, cited)
        rebuilt = replay(
            rebuilt,
            json.loads(json.dumps(result.resolved_ops)),
            consolidated_until_event=result.state.consolidated_until_event,
            project_secret=SECRET,
            version=result.state.version,
        )
        assert canonical(rebuilt.document) == result.document_bytes
        assert rebuilt == result.state
        # And by the grammar as `verify --all` has it, which shares nothing with the builder.
        independent.advance(
            json.loads(json.dumps(result.resolved_ops)), result.state.consolidated_until_event
        )
        assert independent.state_hash == result.state.state_hash
        assert independent.cited == dict(result.state.cited)
        rebuilt = ProjectState.from_snapshot(json.loads(json.dumps(rebuilt.to_snapshot())))
        assert rebuilt == result.state


def check_result(body: dict[str, Any], before: ProjectState, result: Result) -> None:
    indexes = sorted([one.index for one in result.applied] + [one.index for one in result.rejected])
    assert indexes == list(range(len(body["ops"])))
    assert {one.code for one in result.rejected} <= CODES
    assert all(one.error and len(one.error) < 1500 for one in result.rejected)
    watermark = body.get("consolidated_until_event")
    moves = watermark is not None and watermark > before.consolidated_until_event
    assert result.changed == bool(result.applied or moves)
    assert result.state.version == before.version + result.changed
    if not result.changed:
        assert result.state is before


def check_dry_and_atomic(
    project: Project, before: ProjectState, body: dict[str, Any], result: Result
) -> None:
    """The same call again on the same version gives the same bytes; atomic, it is all or nothing."""
    now, project.state = project.state, before
    options = {key: value for key, value in body.items() if key != "ops"}
    again = project.try_call(*body["ops"], **options)
    assert (again.state, again.applied, again.rejected) == (result.state, result.applied, result.rejected)
    if result.rejected:
        try:
            project.try_call(*body["ops"], atomic=True, **options)
        except ChainMemoryError as error:
            assert error.code == "ops_rejected"  # noqa: PT017
            assert len(error.details["rejected"]) == len(result.rejected)  # noqa: PT017
        else:
            raise AssertionError("an atomic call with a rejected op was applied")
    else:
        assert project.try_call(*body["ops"], atomic=True, **options).state == result.state
    if not any("ref" in op for op in body["ops"]) and result.applied:
        kept = [body["ops"][one.index] for one in result.applied]
        assert project.try_call(*kept, **options).state == result.state, "a rejected op left a trace"
    project.state = now


def check_document(before: ProjectState, after: ProjectState, cited: dict[str, set[str]]) -> None:
    document, old = after.document, before.document
    meta = document["state_meta"]
    assert meta == {
        "schema_version": 2,
        "project_id": PROJECT_ID,
        "salt": state_salt(SECRET, after.version),
        "version": before.version + 1,
        "consolidated_until_event": after.consolidated_until_event,
        "previous_state_hash": before.state_hash if before.version else ZERO,
    }
    assert after.consolidated_until_event >= before.consolidated_until_event
    assert after.state_hash == state_hash(document)
    assert set(document) == set(old)
    terms, metrics = set(), set()
    for path, spec in ARRAYS.items():
        items, older = items_of(document, path), items_of(old, path)
        names = [item["id"] for item in items]
        assert sorted(names) == [f"{spec.prefix}_{n:04}" for n in range(1, len(items) + 1)]
        if path != "priorities":
            assert names == sorted(names)
        assert {item["id"] for item in older} <= set(names), "an item was removed"
        was = {item["id"]: item for item in older}
        for item in items:
            assert set(item) == {*RECORD_KEYS, *spec.keys}
            assert "status" not in item or item["status"] in spec.statuses
            assert item["evidence_root"] == evidence_root(cited.get(item["id"], set()))
            assert set(after.cited[item["id"]]) == cited.get(item["id"], set())
            check_versions(was.get(item["id"]), item, after.version)
        terms |= {
            item["term"].lower() if item["term"].isascii() else item["term"]
            for item in items
            if "term" in item
        }
        metrics |= {item["name"] for item in items if "value" in item}
    assert len(terms) == len(document["vocabulary"])
    assert len(metrics) == len(document["metrics"])
    for scalar in SCALARS:
        origin = document["provenance"][scalar]
        assert (origin is None) == (document[scalar] is None)
        if origin:
            assert origin["evidence_root"] == evidence_root(cited.get(scalar, set()))
            assert origin["updated_version"] <= after.version


def check_versions(was: dict[str, Any] | None, item: dict[str, Any], version: int) -> None:
    if was is None:
        assert item["created_version"] == item["updated_version"] == version
    elif item["updated_version"] == version:
        assert item["created_version"] == was["created_version"]
    else:
        assert item == was


@settings(max_examples=30, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=6), anything, max_size=4), min_size=1, max_size=5), anything)
def test_garbage_is_refused_and_raises_nothing_else(garbage: list[dict[str, Any]], junk: Any) -> None:
    project = Project(memories=MEMORIES)
    project.call(*({"op": name, **dict.fromkeys(["title", "statement", "name"], "x")} for name in TABLE))
    before = project.state
    for name in TABLE:
        fields = [field.rstrip("*") for field in TABLE[name]]
        op = {"op": name, **dict.fromkeys(fields, junk), "evidence_memory_ids": junk}
        result = attempt(project, op)
        assert result is None or {one.code for one in result.rejected} <= CODES
    for op in garbage:
        result = attempt(project, {**op, "op": "nope"})
        assert result is None or [one.code for one in result.rejected] == ["unknown_op"]
        result = attempt(project, op, **op)
        assert result is None or result.rejected
    assert project.state is before


def attempt(project: Project, op: dict[str, Any], **options: Any) -> Result | None:
    try:
        return project.try_call(op, **{key: value for key, value in options.items() if key != "ops"})
    except ChainMemoryError as error:
        assert error.code in {*CALL_CODES, "unknown_field", "invalid_request"}  # noqa: PT017
        return None


def test_the_hash_of_each_memory_is_distinct() -> None:
    assert len({event_hash(number) for number in range(1, 100)}) == 99
