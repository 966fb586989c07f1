"""What a diff says between two versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.hashing import ZERO
from chainmemory.state.diff import diff
from tests.support.grammar import SEED, build
from tests.support.states import Project, event_hash


def between(project: Project, old: int, new: int) -> dict[str, Any]:
    return json.loads(json.dumps(diff(project.versions[old].document, project.versions[new].document)))


def test_nothing_changed() -> None:
    project = Project()
    project.call(*SEED)
    assert between(project, 1, 1) == {
        "from_version": 1, "to_version": 1, "added": [], "removed": [], "changed": [], "moved": [],
    }  # fmt: skip


def test_added_items_come_whole_and_changed_ones_key_by_key() -> None:
    project = Project()
    project.call(*SEED)
    project.call(build("set_risk_status", evidence_memory_ids=[3]), build("add_risk"), build("set_focus"))
    found = between(project, 1, 2)
    assert found["added"] == [project.item("risk_0004")]
    assert found["changed"] == [
        {
            "id": "current_focus",
            "keys": {"value": [None, "f"], "evidence_root": [None, ZERO], "updated_version": [None, 2]},
        },
        {
            "id": "risk_0001",
            "keys": {
                "status": ["open", "mitigated"],
                "evidence_root": [ZERO, evidence_root([event_hash(3)])],
                "updated_version": [1, 2],
            },
        },
    ]


def test_the_watermark_counts_as_a_change() -> None:
    project = Project()
    project.call(build("set_phase"))
    project.call(build("set_phase"), consolidated_until_event=9)
    assert between(project, 1, 2)["changed"] == [
        {"id": "consolidated_until_event", "keys": {"value": [0, 9]}}
    ]


def test_everything_since_version_0_is_added() -> None:
    project = Project()
    project.call(*SEED)
    ids = [item["id"] for item in between(project, 0, 1)["added"]]
    assert len(ids) == len(set(ids)) == 26
    assert between(project, 0, 1)["changed"] == []


def test_backwards_what_was_added_is_removed() -> None:
    project = Project()
    project.call(*SEED)
    project.call(build("add_risk"))
    found = between(project, 2, 1)
    assert [item["id"] for item in found["removed"]] == ["risk_0004"]
    assert (found["added"], found["from_version"], found["to_version"]) == ([], 2, 1)


@pytest.mark.parametrize(
    ("moves", "moved"),
    [
        ([("pri_0001", 4)], [("pri_0001", 1, 4)]),
        ([("pri_0004", 1)], [("pri_0004", 4, 1)]),
        ([("pri_0001", 2)], [("pri_0001", 1, 2)]),
        ([("pri_0002", 1)], [("pri_0002", 2, 1)]),
        ([("pri_0001", 4), ("pri_0001", 1)], []),
        ([("pri_0004", 1), ("pri_0003", 1)], [("pri_0003", 3, 1), ("pri_0004", 4, 2)]),
    ],
)
def test_moved_priorities(moves: list[tuple[str, int]], moved: list[tuple[str, int, int]]) -> None:
    project = Project()
    project.call(*(build("add_priority", mitigates=None, title=f"p{n}") for n in range(4)))
    project.call(*(build("reorder_priority", id=name, position=position) for name, position in moves))
    found = between(project, 1, 2)
    assert [(one["id"], one["from"], one["to"]) for one in found["moved"]] == moved
    assert {one["id"] for one in found["changed"]} == {name for name, _ in moves}


def test_a_touched_priority_that_stayed_is_not_moved() -> None:
    project = Project()
    project.call(*(build("add_priority", mitigates=None, title=f"p{n}") for n in range(4)))
    project.call(*(build("set_priority_status", id=f"pri_000{n}") for n in (1, 2, 3, 4)))
    assert between(project, 1, 2)["moved"] == []
    project.call(build("reorder_priority", id="pri_0002", position=4), build("add_priority", mitigates=None))
    assert [one["id"] for one in between(project, 1, 3)["moved"]] == ["pri_0002"]
