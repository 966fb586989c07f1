"""Whole calls: shape, refusals in their order, versions, evidence, labels (grammar, "Applying a call")."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from chainmemory.errors import ChainMemoryError, Conflict, IntegrityError, Invalid
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.hashing import ZERO
from chainmemory.state.builder import ProjectState, check_call, cited_numbers, replay, state_hash, state_salt
from chainmemory.state.document import MAX_DOCUMENT_BYTES, empty_document
from tests.support.grammar import SEED, build
from tests.support.states import PROJECT_ID, SECRET, Project, event_hash

PHASE = {"op": "set_phase", "phase": "beta"}
BAD = {"op": "nope"}


class TestShape:
    @pytest.mark.parametrize(
        ("code", "field", "body"),
        [
            ("invalid_request", None, None),
            ("invalid_request", None, []),
            ("invalid_request", None, "x"),
            ("invalid_request", "ops", {}),
            ("invalid_request", "ops", {"ops": None}),
            ("invalid_request", "ops", {"ops": {}}),
            ("invalid_request", "ops", {"ops": []}),
            ("invalid_request", "ops", {"ops": [PHASE] * 101}),
            ("invalid_request", "ops.1", {"ops": [PHASE, "set_phase"]}),
            ("invalid_request", "ops.0", {"ops": [None]}),
            ("invalid_request", "ops.0.op", {"ops": [{}]}),
            ("invalid_request", "ops.1.op", {"ops": [PHASE, {"op": 5}]}),
            ("invalid_request", "ops.0.op", {"ops": [{"op": None}]}),
            ("unknown_field", "operations", {"operations": []}),
            ("unknown_field", "extra", {"ops": [], "extra": None}),
            ("unknown_field", "project", {"ops": "no list", "project": "p"}),
            *(
                ("invalid_request", key, {"ops": [PHASE], key: value})
                for key in ("consolidated_until_event", "expected_version")
                for value in ("1", 1.5, True, [], 2**53, 1e300, float("nan"))
            ),
            *(
                ("invalid_request", key, {"ops": [PHASE], key: value})
                for key in ("atomic", "dry_run")
                for value in ("true", 1, 0, [], 1.0)
            ),
            *(
                ("invalid_request", "generated_by", {"ops": [PHASE], "generated_by": value})
                for value in (5, [], True)
            ),
        ],
    )
    def test_refused(self, code: str, field: str | None, body: Any) -> None:
        with pytest.raises(Invalid) as caught:
            check_call(body)
        assert (caught.value.code, caught.value.field) == (code, field)

    def test_accepted(self) -> None:
        body = {
            "ops": [PHASE] * 100, "consolidated_until_event": 5.0, "expected_version": 0, "atomic": True,
            "dry_run": False, "generated_by": "claude",
        }  # fmt: skip
        call = check_call(body)
        assert len(call.ops) == 100
        assert (call.consolidated_until_event, call.expected_version) == (5, 0)
        assert type(call.consolidated_until_event) is int
        assert (call.atomic, call.dry_run, call.generated_by) == (True, False, "claude")

    def test_an_option_given_as_null_is_as_if_not_given(self) -> None:
        null = dict.fromkeys(
            ("consolidated_until_event", "expected_version", "atomic", "dry_run", "generated_by")
        )
        assert check_call({"ops": [PHASE], **null}) == check_call({"ops": [PHASE]})

    def test_a_long_unknown_name_is_shortened(self) -> None:
        with pytest.raises(Invalid) as caught:
            check_call({"x" * 10_000: 1})
        assert len(caught.value.message) < 300


class TestCitedNumbers:
    def test_looks_at_every_integer_from_1_of_every_op(self) -> None:
        call = check_call(
            {
                "ops": [
                    {
                        "op": "nope",
                        "evidence_memory_ids": [3, 3.0, 1, 0, -1, 1.5, True, "4", None, [5], 2**53],
                    },
                    {"op": "set_phase", "phase": None, "evidence_memory_ids": [3]},
                    {"op": "set_phase", "evidence_memory_ids": 7},
                    {"op": "set_phase", "evidence_memory_ids": list(range(300, 600))},
                ]
            }
        )
        cited = cited_numbers(call)
        assert {number: ops for number, ops in cited.items() if number < 300} == {1: [0], 3: [0, 1]}
        assert set(cited) == {1, 3, *range(300, 600)}


def refusal(project: Project, *ops: dict[str, Any], **options: Any) -> ChainMemoryError:
    before = json.dumps(project.state.document)
    with pytest.raises(ChainMemoryError) as caught:
        project.try_call(*ops, **options)
    assert json.dumps(project.state.document) == before
    return caught.value


class TestWholeCallRefusals:
    def test_version_conflict(self) -> None:
        project = Project()
        project.call(PHASE)
        error = refusal(project, PHASE, expected_version=0)
        assert isinstance(error, Conflict)
        assert (error.code, error.details["current_version"]) == ("version_conflict", 1)
        assert refusal(project, PHASE, expected_version=2).code == "version_conflict"
        assert project.try_call(PHASE, expected_version=1).rejected[0].code == "no_change"

    def test_evidence_not_found_even_of_an_op_that_will_be_rejected(self) -> None:
        project = Project(memories=3)
        error = refusal(
            project, PHASE, {**BAD, "evidence_memory_ids": [2, 9, 4]}, {**PHASE, "evidence_memory_ids": [9]}
        )
        assert error.code == "evidence_not_found"
        assert error.details["missing"] == [
            {"memory_number": 4, "ops": [1]},
            {"memory_number": 9, "ops": [1, 2]},
        ]
        assert error.field == "ops.1.evidence_memory_ids"

    @pytest.mark.parametrize("watermark", [-1, 4, 11])
    def test_invalid_watermark(self, watermark: int) -> None:
        project = Project(memories=10)
        project.call(PHASE, consolidated_until_event=5)
        error = refusal(project, PHASE, consolidated_until_event=watermark)
        assert (error.code, error.field) == ("invalid_watermark", "consolidated_until_event")

    def test_ops_rejected_only_if_atomic_and_lists_all(self) -> None:
        project = Project()
        error = refusal(project, PHASE, BAD, {"op": "set_phase"}, atomic=True)
        assert error.code == "ops_rejected"
        assert [(one["index"], one["op"], one["code"]) for one in error.details["rejected"]] == [
            (1, "nope", "unknown_op"),
            (2, "set_phase", "missing_field"),
        ]
        assert len(project.try_call(PHASE, BAD).applied) == 1
        assert project.try_call(PHASE, atomic=True).changed

    def test_the_order_of_refusals(self) -> None:
        project = Project(memories=3)
        wrong: dict[str, Any] = {
            "expected_version": 7, "consolidated_until_event": 99, "atomic": True,
        }  # fmt: skip
        ops = [{**BAD, "evidence_memory_ids": [9]}]
        assert refusal(project, *ops, **wrong).code == "version_conflict"
        del wrong["expected_version"]
        assert refusal(project, *ops, **wrong).code == "evidence_not_found"
        assert refusal(project, BAD, **wrong).code == "invalid_watermark"
        del wrong["consolidated_until_event"]
        assert refusal(project, BAD, **wrong).code == "ops_rejected"

    def test_state_too_large_at_exactly_the_limit(self) -> None:
        project = Project()
        filler = build("add_constraint", statement="x" * 4000)

        def room() -> int:
            one_more = project.try_call(build("add_constraint", statement="x"))
            return MAX_DOCUMENT_BYTES - len(one_more.document_bytes or b"")

        for batch in (100, 10):
            while room() > batch * 4_300:
                project.call(*[filler] * batch)
        while room() > 3_900:
            project.call({**filler, "statement": "x" * 2000})
        fitting = build("add_constraint", statement="x" * (room() + 1))
        too_long = build("add_constraint", statement="x" * (room() + 2))
        assert len(project.try_call(fitting).document_bytes or b"") == MAX_DOCUMENT_BYTES
        error = refusal(project, too_long)
        assert (error.code, error.details["bytes"]) == ("state_too_large", MAX_DOCUMENT_BYTES + 1)
        assert refusal(project, too_long, BAD, atomic=True).code == "ops_rejected"


class TestVersions:
    def test_version_0_is_the_empty_document(self) -> None:
        empty = ProjectState.empty(PROJECT_ID)
        assert (empty.version, empty.state_hash, empty.consolidated_until_event) == (0, ZERO, 0)
        assert empty.document == empty_document(PROJECT_ID)
        assert empty.previous_state_hash is None

    def test_each_version_names_the_hash_before_and_has_its_own_salt(self) -> None:
        project = Project()
        project.call(PHASE, consolidated_until_event=7)
        project.call({"op": "set_vision", "vision": "v"})
        first, second = project.versions[1:]
        assert (first.version, second.version) == (1, 2)
        assert first.previous_state_hash == ZERO
        assert second.previous_state_hash == first.state_hash == state_hash(first.document)
        assert second.consolidated_until_event == 7
        assert first.document["state_meta"]["salt"] == state_salt(SECRET, 1)
        assert second.document["state_meta"]["salt"] == state_salt(SECRET, 2) != state_salt(SECRET, 1)

    def test_no_applied_op_and_no_moved_watermark_is_no_new_version(self) -> None:
        project = Project()
        unchanged = project.call(BAD, consolidated_until_event=0)
        assert (unchanged.changed, unchanged.state, unchanged.document_bytes) == (False, project.state, None)
        moved = project.call(BAD, consolidated_until_event=3)
        assert (moved.changed, moved.state.version, moved.state.consolidated_until_event) == (True, 1, 3)
        assert not project.call(BAD, consolidated_until_event=3).changed

    def test_a_rejected_op_leaves_the_others_applied_and_each_sees_the_ones_before(self) -> None:
        result = Project().call(
            build("set_risk_status"),
            build("add_risk"),
            BAD,
            build("set_risk_status"),
            build("set_risk_status"),
        )
        assert [(one.index, one.id) for one in result.applied] == [(1, "risk_0001"), (3, "risk_0001")]
        assert [(one.index, one.code) for one in result.rejected] == [
            (0, "not_found"),
            (2, "unknown_op"),
            (4, "no_change"),
        ]

    def test_the_document_bytes_are_the_canonical_form(self) -> None:
        project = Project()
        result = project.call(*SEED)
        assert result.document_bytes == canonical(result.state.document)

    def test_a_state_is_immutable_and_older_versions_stay_as_they_were(self) -> None:
        project = Project()
        project.call(*SEED)
        before = json.dumps(project.state.document)
        hashes = dict(project.state.cited)
        project.call(
            *(build(op["op"], evidence_memory_ids=[1]) for op in SEED[:20]), build("reorder_priority")
        )
        assert json.dumps(project.versions[1].document) == before
        assert dict(project.versions[1].cited) == hashes
        with pytest.raises(FrozenInstanceError):
            project.state.state_hash = ZERO  # type: ignore[misc]

    def test_what_is_not_touched_is_shared(self) -> None:
        project = Project()
        project.call(*SEED)
        project.call(build("set_risk_status"))
        old, new = project.versions[1].document, project.state.document
        assert new["decisions"] is old["decisions"]
        assert new["environment"]["hosts"] is old["environment"]["hosts"]
        assert new["risks"] is not old["risks"]
        assert new["risks"][1] is old["risks"][1]


class TestItems:
    def test_items_have_all_keys_and_count_up_per_array(self) -> None:
        project = Project()
        project.call(*SEED)
        assert project.item("dec_0001") == {
            "id": "dec_0001", "title": "t0", "statement": "s", "scope": None, "status": "proposed",
            "superseded_by": None, "evidence_root": ZERO, "created_version": 1, "updated_version": 1,
        }  # fmt: skip
        assert project.item("pri_0001")["mitigates"] == []
        assert project.item("met_0001")["value"] == "99.95"
        assert [item["id"] for item in project.state.document["risks"]] == [
            "risk_0001",
            "risk_0002",
            "risk_0003",
        ]
        host = project.item("host_0003")
        assert (host["status"], host["superseded_by"], host["verified_version"]) == (
            "superseded",
            "host_0001",
            None,
        )

    def test_ids_go_on_past_four_digits(self) -> None:
        project = Project()
        project.call(build("add_assumption"))
        snapshot = project.state.to_snapshot()
        first = snapshot["document"]["assumptions"][0]
        many = [{**first, "id": f"asm_{n:04}"} for n in range(1, 10_000)]
        snapshot["document"] = {**snapshot["document"], "assumptions": many}
        project.state = ProjectState.from_snapshot(snapshot)
        added = project.call(build("add_assumption"), build("add_assumption"))
        assert [one.id for one in added.applied] == ["asm_10000", "asm_10001"]
        project.call(build("invalidate_assumption", id="asm_10001"))
        assert project.item("asm_10001")["status"] == "invalidated"
        assert project.item("asm_1000")["status"] == "active"

    def test_a_changed_item_gets_the_new_version_and_keeps_its_created_one(self) -> None:
        project = Project()
        project.call(build("add_risk"))
        project.call(PHASE)
        project.call(build("set_risk_status"))
        risk = project.item("risk_0001")
        assert (risk["created_version"], risk["updated_version"], risk["status"]) == (1, 3, "mitigated")

    def test_verify_env_writes_the_new_version(self) -> None:
        project = Project()
        project.call(*SEED)
        project.call(build("verify_env"))
        assert project.item("svc_0001")["verified_version"] == 2

    @pytest.mark.parametrize(
        ("position", "order"),
        [(1, [3, 1, 2, 4]), (2, [1, 3, 2, 4]), (3, None), (4, [1, 2, 4, 3]), (3.0, None)],
    )
    def test_reorder_moves_one_priority_and_changes_that_one_alone(
        self, position: Any, order: list[int] | None
    ) -> None:
        project = Project()
        project.call(*(build("add_priority", mitigates=None, title=f"p{n}") for n in range(4)))
        result = project.call(build("reorder_priority", id="pri_0003", position=position))
        ids = [int(item["id"][-1]) for item in project.state.document["priorities"]]
        if order is None:
            assert [one.code for one in result.rejected] == ["no_change"]
            assert ids == [1, 2, 3, 4]
            return
        assert ids == order
        updated = {item["id"]: item["updated_version"] for item in project.state.document["priorities"]}
        assert updated == {"pri_0001": 1, "pri_0002": 1, "pri_0003": 2, "pri_0004": 1}

    def test_a_reorder_that_moves_nothing_but_cites_is_applied(self) -> None:
        project = Project()
        project.call(build("add_priority", mitigates=None))
        result = project.call(build("reorder_priority", position=1, evidence_memory_ids=[4]))
        assert (result.rejected, project.item("pri_0001")["evidence_root"]) == (
            [],
            evidence_root([event_hash(4)]),
        )

    def test_set_metric_leaves_an_omitted_unit_as_it_is(self) -> None:
        project = Project()
        project.call(build("set_metric", unit="ms", name="latency"))
        project.call({"op": "set_metric", "name": "latency", "value": 2})
        assert (project.item("met_0001")["value"], project.item("met_0001")["unit"]) == ("2", "ms")
        project.call(build("set_metric", name="Latency"))
        assert len(project.state.document["metrics"]) == 2

    def test_answers_and_reasons_are_kept(self) -> None:
        project = Project()
        project.call(*SEED)
        project.call(
            build("answer_open_question"), build("invalidate_assumption"), build("remove_constraint")
        )
        assert project.item("que_0001")["answer"] == "a"
        assert project.item("asm_0001")["reason"] == project.item("con_0001")["reason"] == "r"


class TestEvidence:
    def test_the_root_covers_all_ever_cited_for_that_item(self) -> None:
        project = Project()
        first = project.call(build("add_risk", evidence_memory_ids=[5, 2, 5]))
        assert first.applied[0].evidence == [(5, event_hash(5)), (2, event_hash(2))]
        second = project.call(build("set_risk_status", evidence_memory_ids=[2, 9]), build("add_risk"))
        root = evidence_root([event_hash(number) for number in (2, 5, 9)])
        assert second.applied[0].evidence_root == project.item("risk_0001")["evidence_root"] == root
        assert second.applied[1].evidence_root == project.item("risk_0002")["evidence_root"] == ZERO
        assert list(project.state.cited["risk_0001"]) == sorted(event_hash(number) for number in (2, 5, 9))

    def test_scalars_have_theirs_in_provenance(self) -> None:
        project = Project()
        result = project.call(build("set_focus", evidence_memory_ids=[3]), PHASE)
        assert [one.id for one in result.applied] == ["current_focus", "phase"]
        assert project.state.document["provenance"] == {
            "phase": {"evidence_root": ZERO, "updated_version": 1},
            "vision": None,
            "current_focus": {"evidence_root": evidence_root([event_hash(3)]), "updated_version": 1},
        }
        project.call({**PHASE, "evidence_memory_ids": [8]})
        provenance = project.state.document["provenance"]["phase"]
        assert provenance == {"evidence_root": evidence_root([event_hash(8)]), "updated_version": 2}


class TestLabels:
    def test_labels_stand_for_ids_wherever_one_is_expected(self) -> None:
        project = Project()
        result = project.call(
            build("add_risk", ref="r1"),
            build("add_risk", ref="r-2"),
            build("add_priority", mitigates=["@r-2", "@r1"], ref="p"),
            build("set_priority_risks", id="@p", mitigates=["@r1"]),
            build("add_env_host", ref="h"),
            build("add_env_service", host_id="@h", ref="s"),
            build("set_metric", name="m", ref="m"),
            build("add_decision", ref="old"),
            build("add_decision", ref="new"),
            build("supersede_decision", id="@old", by_id="@new"),
            build("verify_env", id="@s"),
        )
        assert result.rejected == []
        assert result.refs == {
            "r1": "risk_0001", "r-2": "risk_0002", "p": "pri_0001", "h": "host_0001", "s": "svc_0001",
            "m": "met_0001", "old": "dec_0001", "new": "dec_0002",
        }  # fmt: skip
        assert project.item("pri_0001")["mitigates"] == ["risk_0001"]
        assert project.item("svc_0001")["host_id"] == "host_0001"
        assert project.item("dec_0001")["superseded_by"] == "dec_0002"

    def test_set_metric_on_update_names_the_metric_too(self) -> None:
        project = Project()
        project.call(build("set_metric"))
        result = project.call(build("set_metric", value=2, ref="m"))
        assert result.refs == {"m": "met_0001"}

    def test_labels_do_not_outlive_the_call(self) -> None:
        project = Project()
        project.call(build("add_risk", ref="r"))
        assert project.call(build("set_risk_status", id="@r")).rejected[0].code == "not_found"

    def test_a_label_of_the_op_itself_is_not_found(self) -> None:
        result = Project().call(build("add_priority", mitigates=["@me"], ref="me"))
        assert result.rejected[0].code == "not_found"


class TestReplay:
    def test_resolved_ops_are_json_and_name_ids_and_hashes_only(self) -> None:
        result = Project().call(
            build("add_env_host", ref="h"),
            build("add_env_service", host_id="@h", port=80.0, evidence_memory_ids=[4]),
        )
        assert json.loads(json.dumps(result.resolved_ops))[1] == {
            "index": 1,
            "op": "add_env_service",
            "item": "svc_0001",
            "fields": {
                "name": "s", "host_id": "host_0001", "port": 80, "manager": "systemd", "code_path": "/srv",
            },
            "evidence": [{"memory_number": 4, "event_hash": event_hash(4)}],
        }  # fmt: skip

    def test_it_repeats_no_check(self) -> None:
        project = Project()
        project.call(*SEED)
        fields = {"rule": "password=hunter2"}
        secret = {"op": "add_env_rule", "item": "rule_0002", "fields": fields, "evidence": []}
        rebuilt = replay(
            project.state, [secret], consolidated_until_event=0, project_secret=SECRET, version=2
        )
        assert rebuilt.document["environment"]["rules"][1]["rule"] == "password=hunter2"

    @pytest.mark.parametrize(
        "op",
        [
            {},
            {"op": "nope", "fields": {}, "evidence": [], "item": "x"},
            {"op": "set_phase", "fields": {}, "evidence": [], "item": "phase"},
            {
                "op": "set_risk_status",
                "fields": {"id": "risk_0099", "status": "open"},
                "evidence": [],
                "item": "x",
            },
            {"op": "set_phase", "fields": {"phase": "x"}, "evidence": [], "item": "vision"},
            {
                "op": "set_phase",
                "fields": {"phase": "x"},
                "evidence": [{"event_hash": "0x"}],
                "item": "phase",
            },
            {"op": "set_phase", "fields": {"phase": "x"}, "evidence": 5, "item": "phase"},
            {"op": "set_phase", "fields": None, "evidence": [], "item": "phase"},
        ],
    )
    def test_ops_that_do_not_fit_are_an_integrity_error(self, op: dict[str, Any]) -> None:
        with pytest.raises(IntegrityError):
            replay(
                ProjectState.empty(PROJECT_ID),
                [op],
                consolidated_until_event=0,
                project_secret=SECRET,
                version=1,
            )

    def test_versions_follow_each_other(self) -> None:
        with pytest.raises(IntegrityError):
            replay(
                ProjectState.empty(PROJECT_ID),
                [],
                consolidated_until_event=1,
                project_secret=SECRET,
                version=2,
            )

    @pytest.mark.parametrize(
        "snapshot", [None, {}, [], {"document": {}, "cited": {}}, {"document": 5, "cited": {}}]
    )
    def test_no_snapshot_is_an_integrity_error(self, snapshot: Any) -> None:
        with pytest.raises(IntegrityError):
            ProjectState.from_snapshot(snapshot)

    def test_a_snapshot_carries_everything(self) -> None:
        project = Project()
        project.call(*SEED, build("set_focus", evidence_memory_ids=[3, 4]))
        restored = ProjectState.from_snapshot(json.loads(json.dumps(project.state.to_snapshot())))
        assert restored == project.state
        assert ProjectState.from_snapshot(ProjectState.empty(PROJECT_ID).to_snapshot()).state_hash == ZERO
