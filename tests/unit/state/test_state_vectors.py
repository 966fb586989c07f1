"""Every project of the specification's state vectors, step by step, and again from the resolved ops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chainmemory.protocol.identity import project_id
from chainmemory.state.builder import ProjectState, apply_call, check_call, replay

PROJECTS = json.loads((Path(__file__).parents[2] / "vectors" / "state.json").read_text("utf-8"))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project["project"])
def test_state(project: dict[str, Any]) -> None:
    hashes = {int(number): value for number, value in project["event_hashes"].items()}
    secret = bytes.fromhex(project["project_secret"])
    state = rebuilt = ProjectState.empty(project_id(project["account_id"], project["project"]))
    for step in project["steps"]:
        body = {"ops": step["ops"], "consolidated_until_event": step["consolidated_until_event"]}
        call = check_call(body)
        before = json.dumps(state.document)
        result = apply_call(state, call, event_hashes=hashes, highest_memory=12, project_secret=secret)
        assert {str(one.index): one.id for one in result.applied} == step["applied"]
        assert {str(one.index): one.code for one in result.rejected} == step["rejected"]
        assert result.changed is step["changed"]
        assert result.state.document == step["state"]
        assert (result.state.version, result.state.state_hash) == (step["version"], step["state_hash"])
        assert json.dumps(state.document) == before
        state = result.state
        if result.changed:
            rebuilt = replay(
                rebuilt,
                json.loads(json.dumps(result.resolved_ops)),
                consolidated_until_event=state.consolidated_until_event,
                project_secret=secret,
                version=state.version,
            )
        assert rebuilt == state
        assert ProjectState.from_snapshot(json.loads(json.dumps(state.to_snapshot()))) == state
