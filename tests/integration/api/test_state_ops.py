"""Applying ops over HTTP: answers, versions, evidence, watermark, dry runs, many callers at once."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import rfc8785

from chainmemory.protocol.evidence import Proof, evidence_root, verify_inclusion
from tests.support.api import Account, Api, refused
from tests.support.databases import ENGINES
from tests.support.grammar import SEED, VALID

BOTH = pytest.mark.parametrize("api", ENGINES, indirect=True)
ZERO = "0x" + "0" * 64
ANSWER_KEYS = [
    "project", "version", "previous_version", "state_hash", "previous_state_hash", "unchanged", "message",
    "applied_count", "applied", "rejected", "refs", "generated_at", "anchor",
]  # fmt: skip


def _phase(text: str) -> dict[str, Any]:
    return {"op": "set_phase", "phase": text}


def _state_hash(document: dict[str, Any]) -> str:
    return "0x" + hashlib.sha3_256(b"CM_PROJECT_STATE_V2\0" + rfc8785.dumps(document)).hexdigest()


@BOTH
def test_a_call_makes_a_version_with_its_ledger_entry_and_outbox_row(api: Api, ada: Account) -> None:
    first, second = ada.save("one"), ada.save("two")
    before = api.stored()
    answer = ada.ops(
        "payments",
        {
            "op": "add_decision",
            "title": "Consensus",
            "statement": "Clique",
            "evidence_memory_ids": [2, 1],
            "ref": "d",
        },
        {"op": "set_decision_status", "id": "@d", "status": "confirmed"},
        {"op": "set_decision_status", "id": "dec_0009", "status": "confirmed"},
        consolidated_until_event=2,
        generated_by="a model",
    )
    assert list(answer) == ANSWER_KEYS
    hashes = [first["event_hash"], second["event_hash"]]
    assert answer["applied"] == [
        {
            "index": 0,
            "op": "add_decision",
            "id": "dec_0001",
            "evidence_root": evidence_root(hashes),
            "evidence": [
                {"memory_number": 2, "event_hash": hashes[1]},
                {"memory_number": 1, "event_hash": hashes[0]},
            ],
        },
        {
            "index": 1,
            "op": "set_decision_status",
            "id": "dec_0001",
            "evidence_root": evidence_root(hashes),
            "evidence": [],
        },
    ]
    (rejected,) = answer["rejected"]
    assert (rejected["index"], rejected["op"], rejected["code"]) == (2, "set_decision_status", "not_found")
    assert "dec_0009" in rejected["error"]
    assert answer["refs"] == {"d": "dec_0001"}
    assert (answer["version"], answer["previous_version"]) == (1, 0)
    assert answer["previous_state_hash"] == ZERO
    assert (answer["unchanged"], answer["applied_count"]) == (False, 2)
    assert answer["anchor"] == {"status": "pending"}
    after = api.stored()
    new = {"state_versions": 1, "ledger_entries": 1, "outbox": 1, "citations": 2, "projects": 1}
    assert {name: after[name] - before[name] for name in new} == new

    state = ada.get("/v1/project/payments/state")
    assert state["state_hash"] == answer["state_hash"] == _state_hash(state["state"])
    assert state["state"]["decisions"][0]["status"] == "confirmed"
    assert state["state"]["state_meta"]["consolidated_until_event"] == 2
    assert state["generated_at"] == answer["generated_at"]
    versions = ada.get("/v1/project/payments/state/versions")["versions"]
    assert [one["generated_by"] for one in versions] == ["a model"]


@BOTH
def test_every_operation_of_the_grammar_works_over_http(ada: Account) -> None:
    ada.ops("p", *SEED)
    seeded = ada.get("/v1/project/p/state")
    for name, fields in VALID.items():
        answer = ada.ops("p", {"op": name, **fields}, dry_run=True)
        assert answer["rejected"] == [], name
        assert [one["op"] for one in answer["applied"]] == [name]
    assert ada.get("/v1/project/p/state") == seeded
    # One after the other they forbid each other a few.
    every = [{"op": name, **fields} for name, fields in VALID.items()]
    assert ada.ops("p", *every)["applied_count"] >= 25
    assert ada.post("/v1/audit/state/p")["hash_verification"]["status"] == "match"
    state = ada.get("/v1/project/p/state")
    assert _state_hash(state["state"]) == state["state_hash"]


def test_a_call_without_effect_makes_no_version(api: Api, ada: Account) -> None:
    ada.save()
    made = ada.ops("p", _phase("alpha"), consolidated_until_event=1)
    before = api.stored()
    answer = ada.ops("p", _phase("alpha"), {"op": "nonsense"}, consolidated_until_event=1)
    assert answer["unchanged"] is True
    assert (answer["version"], answer["previous_version"]) == (1, 1)
    assert answer["state_hash"] == answer["previous_state_hash"] == made["state_hash"]
    assert [one["code"] for one in answer["rejected"]] == ["no_change", "unknown_op"]
    assert answer["generated_at"] == made["generated_at"]
    assert answer["anchor"] == {"status": "pending"}
    assert api.stored() == before


def test_a_call_without_effect_on_a_new_project_creates_it_at_version_0(api: Api, ada: Account) -> None:
    answer = ada.ops("p", {"op": "nonsense"})
    assert (answer["unchanged"], answer["version"], answer["state_hash"]) == (True, 0, ZERO)
    assert (answer["generated_at"], answer["anchor"]) == (None, {"status": None})
    stored = api.stored()
    assert (stored["projects"], stored["state_versions"], stored["ledger_entries"]) == (1, 0, 0)


def test_a_watermark_alone_makes_a_version(ada: Account) -> None:
    ada.save()
    ada.save()
    ada.ops("p", _phase("alpha"), consolidated_until_event=1)
    answer = ada.ops("p", {"op": "nonsense"}, consolidated_until_event=2.0)
    assert (answer["version"], answer["applied_count"], answer["unchanged"]) == (2, 0, False)


@BOTH
def test_a_dry_run_answers_the_same_and_writes_nothing(api: Api, ada: Account) -> None:
    ada.save()
    ada.ops("p", _phase("alpha"))
    ops = [_phase("beta"), {"op": "add_risk", "title": "r", "severity": "low", "evidence_memory_ids": [1]}]
    before = api.stored()
    tried = ada.call(
        "POST",
        "/v1/project/p/state/ops",
        {"ops": ops, "dry_run": True},
        headers={"idempotency-key": "dry"},
    ).json()
    assert api.stored() == before
    done = ada.ops("p", *ops)
    same = [name for name in ANSWER_KEYS if name not in ("message", "generated_at", "anchor")]
    assert {name: tried[name] for name in same} == {name: done[name] for name in same}
    assert (tried["generated_at"], tried["anchor"]) == (None, {"status": None})


def test_a_dry_run_creates_no_project_and_can_not_know_its_hash(api: Api, ada: Account) -> None:
    before = api.stored()
    answer = ada.ops("new", _phase("alpha"), dry_run=True)
    assert (answer["version"], answer["state_hash"], answer["applied_count"]) == (1, None, 1)
    assert api.stored() == before
    refused(ada.call("GET", "/v1/project/new/state"), 404, "not_found")


def test_an_expected_version_is_kept_to(api: Api, ada: Account) -> None:
    assert ada.ops("p", _phase("a"), expected_version=0)["version"] == 1
    before = api.stored()
    envelope = refused(
        ada.call("POST", "/v1/project/p/state/ops", {"ops": [_phase("b")], "expected_version": 0}),
        409,
        "version_conflict",
    )
    assert envelope["details"]["current_version"] == 1
    assert api.stored() == before
    assert ada.ops("p", _phase("b"), expected_version=1)["version"] == 2


@BOTH
def test_callers_at_once_each_get_a_version_of_their_own(api: Api, ada: Account) -> None:
    ada.save()

    def call(number: int) -> dict[str, Any]:
        return ada.ops("p", {"op": "add_constraint", "statement": f"c{number}", "evidence_memory_ids": [1]})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(call, range(40)))
    assert sorted(one["version"] for one in answers) == list(range(1, 41))
    by_version = {one["version"]: one for one in answers}
    for version in range(2, 41):
        assert by_version[version]["previous_state_hash"] == by_version[version - 1]["state_hash"]
    state = ada.get("/v1/project/p/state")["state"]
    assert sorted(item["statement"] for item in state["constraints"]) == sorted(f"c{n}" for n in range(40))
    assert ada.post("/v1/audit/state/p")["hash_verification"]["status"] == "match"


@BOTH
def test_of_callers_at_once_with_one_expected_version_one_succeeds(api: Api, ada: Account) -> None:
    ada.ops("p", _phase("start"))

    def call(number: int) -> int:
        body = {"ops": [_phase(f"phase {number}")], "expected_version": 1}
        return int(ada.call("POST", "/v1/project/p/state/ops", body).status_code)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(call, range(8))) == [200] + [409] * 7
    assert ada.get("/v1/project/p/state/versions")["total"] == 2


@BOTH
def test_two_servers_on_one_store_take_turns(api: Api, ada: Account) -> None:
    """Another process advances the project, so that the first one's cached state is behind."""
    from chainmemory.engine.callers import Caller
    from chainmemory.engine.runtime import Engine
    from chainmemory.engine.state_ops import apply
    from chainmemory.state.builder import check_call

    other = Engine.open(api.app.site.settings)
    try:
        caller = Caller(ada.account_id, "key", "owner")

        def here(number: int) -> int:
            return int(ada.ops("p", {"op": "add_constraint", "statement": f"h{number}"})["version"])

        def there(number: int) -> int:
            call = check_call({"ops": [{"op": "add_constraint", "statement": f"t{number}"}]})
            return int(apply(other, caller, None, "p", call).answer["version"])

        with ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit((here, there)[number % 2], number) for number in range(30)]
            assert sorted(job.result() for job in jobs) == list(range(1, 31))
    finally:
        other.close()
    state = ada.get("/v1/project/p/state")
    assert _state_hash(state["state"]) == state["state_hash"]
    assert len(state["state"]["constraints"]) == 30


def test_evidence_has_a_proof_for_each_memory(ada: Account) -> None:
    saved = [ada.save(f"memory {number}") for number in range(7)]
    ada.ops(
        "p",
        {"op": "set_vision", "vision": "v", "evidence_memory_ids": [1, 3, 5]},
        {"op": "add_constraint", "statement": "c", "evidence_memory_ids": [2]},
    )
    ada.ops("p", {"op": "set_vision", "vision": "w", "evidence_memory_ids": [5, 7]})
    found = ada.get("/v1/project/p/state/evidence/vision")
    assert [one["memory_number"] for one in found["evidence"]] == [1, 3, 5, 7]
    assert found["total"] == 4
    for one in found["evidence"]:
        assert one["event_hash"] == saved[one["memory_number"] - 1]["event_hash"]
        assert one["chain_sync"] == "pending"
        verify_inclusion(one["event_hash"], Proof(**one["proof"]), found["evidence_root"])
    document = ada.get("/v1/project/p/state")["state"]
    assert document["provenance"]["vision"]["evidence_root"] == found["evidence_root"]
    first = ada.get("/v1/project/p/state/evidence/vision", version=1)
    assert [one["memory_number"] for one in first["evidence"]] == [1, 3, 5]
    page = ada.get("/v1/project/p/state/evidence/vision", limit=2, offset=1)
    assert ([one["memory_number"] for one in page["evidence"]], page["total"]) == ([3, 5], 4)
    item = ada.get("/v1/project/p/state/evidence/con_0001")
    assert item["evidence"][0]["proof"] == {"index": 0, "size": 1, "path": []}
    for missing in ("con_0002", "focus", "phase", "x" * 100):
        refused(ada.call("GET", f"/v1/project/p/state/evidence/{missing}"), 404, "not_found")
    refused(ada.call("GET", "/v1/project/p/state/evidence/vision?version=0"), 404, "not_found")


def test_an_item_that_cites_nothing_has_empty_evidence(ada: Account) -> None:
    ada.ops("p", {"op": "add_constraint", "statement": "c"})
    found = ada.get("/v1/project/p/state/evidence/con_0001")
    assert (found["evidence_root"], found["evidence"], found["total"]) == (ZERO, [], 0)


@BOTH
def test_any_version_is_rebuilt_and_checked_across_snapshots(api: Api, ada: Account) -> None:
    ada.save()
    made = {}
    for number in range(1, 121):
        op = {"op": "set_focus", "focus": f"focus {number}", "evidence_memory_ids": [1]}
        made[number] = ada.ops("p", op)["state_hash"]
    assert api.stored()["state_snapshots"] == 2
    for version in (1, 2, 49, 50, 51, 99, 100, 101, 120):
        found = ada.get("/v1/project/p/state", version=version)
        assert found["version"] == version
        assert found["state"]["current_focus"] == f"focus {version}"
        assert found["state_hash"] == made[version] == _state_hash(found["state"])
    empty = ada.get("/v1/project/p/state", version=0)
    assert (empty["state_hash"], empty["generated_at"]) == (ZERO, None)
    assert empty["state"]["decisions"] == []
    refused(ada.call("GET", "/v1/project/p/state?version=121"), 404, "not_found")
    page = ada.get("/v1/project/p/state/versions", limit=3, offset=2)
    assert [one["version"] for one in page["versions"]] == [118, 117, 116]
    assert page["total"] == 120
    assert all(one["state_hash"] == made[one["version"]] for one in page["versions"])


def test_the_ops_of_a_version_are_kept_as_applied_and_as_rejected(ada: Account) -> None:
    saved = ada.save()
    secret = "postgres://admin:hunter2hunter2@db.example.org/x"
    ada.ops(
        "p",
        {"op": "add_risk", "title": "r", "severity": "low", "evidence_memory_ids": [1], "ref": "r"},
        {"op": "set_risk_status", "id": "@nobody", "status": "closed"},
        {"op": "add_env_repo", "name": "r", "path": "x", "remote": secret},
    )
    found = ada.get("/v1/project/p/state/ops")
    assert found["applied"] == [
        {
            "index": 0,
            "op": "add_risk",
            "item": "risk_0001",
            "fields": {"title": "r", "severity": "low"},
            "evidence": [{"memory_number": 1, "event_hash": saved["event_hash"]}],
        }
    ]
    assert [(one["index"], one["code"]) for one in found["rejected"]] == [
        (1, "not_found"),
        (2, "secret_detected"),
    ]
    assert found["rejected"][0]["given"]["id"] == "@nobody"
    assert found["rejected"][1]["given"] is None
    assert "hunter2" not in str(found)
    assert (found["version"], found["consolidated_until_event"]) == (1, 0)
    refused(ada.call("GET", "/v1/project/p/state/ops?version=2"), 404, "not_found")
    refused(ada.call("GET", "/v1/project/p/state/ops?version=0"), 422, "invalid_value", "version")


def test_an_audit_tells_the_state_as_it_is(api: Api, ada: Account) -> None:
    ada.save(project="p")
    made = ada.ops("p", _phase("alpha"))
    before = api.stored()
    audit = ada.post("/v1/audit/state/p", {"dry_run": True})
    assert list(audit) == [
        "project", "current_version", "dry_run", "hash_verification", "anchor", "total_memories",
        "version_history", "fee_charged",
    ]  # fmt: skip
    assert audit["hash_verification"] == {
        "status": "match",
        "stored": made["state_hash"],
        "computed": made["state_hash"],
    }
    assert (audit["current_version"], audit["dry_run"], audit["total_memories"]) == (1, True, 1)
    assert [one["version"] for one in audit["version_history"]] == [1]
    assert api.stored() == before
    ada.post("/v1/projects", {"project_id": "empty"}, status=201)
    assert ada.post("/v1/audit/state/empty")["hash_verification"] == {
        "status": "match",
        "stored": None,
        "computed": None,
    }
    refused(ada.call("POST", "/v1/audit/state/none"), 404, "not_found")
