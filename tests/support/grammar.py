"""grammar.md's table of operations once more, written from the page and not from the code."""

from __future__ import annotations

import json
from typing import Any

from tests.support.states import Project

SHORT, LONG, DAY, PORT, COUNT = "short", "long", "day", "port", "count"
ID, IDS, VALUE = "id", "ids", "value"
OF_MILESTONE, OF_RISK, OF_PRIORITY = (
    "planned in_progress done",
    "open mitigated closed",
    "active done dropped",
)

TABLE: dict[str, dict[str, str]] = {
    "add_decision": {"title*": SHORT, "statement*": LONG, "scope": SHORT},
    "set_decision_status": {"id*": ID, "status*": "confirmed rejected"},
    "supersede_decision": {"id*": ID, "by_id*": ID},
    "add_milestone": {"title*": SHORT, "description": LONG, "target_date": DAY},
    "set_milestone_status": {"id*": ID, "status*": OF_MILESTONE},
    "add_risk": {"title*": SHORT, "severity*": "low med high", "description": LONG},
    "set_risk_status": {"id*": ID, "status*": OF_RISK},
    "add_assumption": {"statement*": LONG},
    "invalidate_assumption": {"id*": ID, "reason": LONG},
    "add_open_question": {"question*": LONG},
    "answer_open_question": {"id*": ID, "answer*": LONG},
    "add_priority": {"title*": SHORT, "description": LONG, "completion_criterion": LONG, "mitigates": IDS},
    "set_priority_status": {"id*": ID, "status*": OF_PRIORITY},
    "reorder_priority": {"id*": ID, "position*": COUNT},
    "set_priority_risks": {"id*": ID, "mitigates*": IDS},
    "set_focus": {"focus*": LONG},
    "set_phase": {"phase*": SHORT},
    "set_vision": {"vision*": LONG},
    "add_vocabulary": {"term*": SHORT, "definition*": LONG},
    "update_vocabulary": {"id*": ID, "definition*": LONG},
    "add_constraint": {"statement*": LONG},
    "remove_constraint": {"id*": ID, "reason": LONG},
    "set_metric": {"name*": SHORT, "value*": VALUE, "unit": SHORT},
    "add_env_host": {
        "name*": SHORT,
        "role*": SHORT,
        "address": SHORT,
        "access_method": SHORT,
        "access_port": PORT,
    },
    "add_env_service": {"name*": SHORT, "host_id": ID, "port": PORT, "manager": SHORT, "code_path": SHORT},
    "add_env_repo": {"name*": SHORT, "path*": SHORT, "remote": SHORT},
    "add_env_rule": {"rule*": LONG, "scope": SHORT},
    "set_env_status": {"id*": ID, "status*": "active retired"},
    "verify_env": {"id*": ID},
    "supersede_env": {"id*": ID, "by_id*": ID},
}

# A valid op of each kind on the project that `seeded` makes.
VALID: dict[str, dict[str, Any]] = {
    "add_decision": {"title": "t", "statement": "s", "scope": "api"},
    "set_decision_status": {"id": "dec_0001", "status": "confirmed"},
    "supersede_decision": {"id": "dec_0001", "by_id": "dec_0002"},
    "add_milestone": {"title": "m", "description": "d", "target_date": "2028-02-29"},
    "set_milestone_status": {"id": "mil_0001", "status": "done"},
    "add_risk": {"title": "r", "severity": "med", "description": "d"},
    "set_risk_status": {"id": "risk_0001", "status": "mitigated"},
    "add_assumption": {"statement": "a"},
    "invalidate_assumption": {"id": "asm_0001", "reason": "r"},
    "add_open_question": {"question": "q"},
    "answer_open_question": {"id": "que_0001", "answer": "a"},
    "add_priority": {
        "title": "p",
        "description": "d",
        "completion_criterion": "c",
        "mitigates": ["risk_0001"],
    },
    "set_priority_status": {"id": "pri_0001", "status": "done"},
    "reorder_priority": {"id": "pri_0001", "position": 2},
    "set_priority_risks": {"id": "pri_0001", "mitigates": ["risk_0002", "risk_0001"]},
    "set_focus": {"focus": "f"},
    "set_phase": {"phase": "p"},
    "set_vision": {"vision": "v"},
    "add_vocabulary": {"term": "new", "definition": "d"},
    "update_vocabulary": {"id": "voc_0001", "definition": "other"},
    "add_constraint": {"statement": "c"},
    "remove_constraint": {"id": "con_0001", "reason": "r"},
    "set_metric": {"name": "n", "value": 1, "unit": "%"},
    "add_env_host": {
        "name": "h",
        "role": "db",
        "address": "10.0.0.5",
        "access_method": "ssh",
        "access_port": 22,
    },
    "add_env_service": {
        "name": "s",
        "host_id": "host_0001",
        "port": 80,
        "manager": "systemd",
        "code_path": "/srv",
    },
    "add_env_repo": {"name": "r", "path": "app", "remote": "git@example.com:org/app.git"},
    "add_env_rule": {"rule": "no deploys on Friday", "scope": "ops"},
    "set_env_status": {"id": "repo_0001", "status": "retired"},
    "verify_env": {"id": "svc_0001"},
    "supersede_env": {"id": "host_0001", "by_id": "host_0002"},
}

SEED = [
    *({"op": "add_decision", "title": f"t{n}", "statement": "s"} for n in range(4)),
    {"op": "add_milestone", "title": "m"},
    *({"op": "add_risk", "title": f"r{n}", "severity": "low"} for n in range(3)),
    *({"op": "add_assumption", "statement": f"a{n}"} for n in range(2)),
    *({"op": "add_open_question", "question": f"q{n}"} for n in range(2)),
    *({"op": "add_priority", "title": f"p{n}"} for n in range(3)),
    {"op": "add_vocabulary", "term": "Anchor", "definition": "d"},
    *({"op": "add_constraint", "statement": f"c{n}"} for n in range(2)),
    {"op": "set_metric", "name": "uptime", "value": 99.95, "unit": "%"},
    *({"op": "add_env_host", "name": f"h{n}", "role": "db"} for n in range(4)),
    {"op": "add_env_service", "name": "s"},
    {"op": "add_env_repo", "name": "r", "path": "app"},
    {"op": "add_env_rule", "rule": "r"},
    {"op": "supersede_decision", "id": "dec_0003", "by_id": "dec_0002"},
    {"op": "set_decision_status", "id": "dec_0004", "status": "rejected"},
    {"op": "set_risk_status", "id": "risk_0003", "status": "closed"},
    {"op": "invalidate_assumption", "id": "asm_0002"},
    {"op": "answer_open_question", "id": "que_0002", "answer": "a"},
    {"op": "set_priority_status", "id": "pri_0003", "status": "dropped"},
    {"op": "remove_constraint", "id": "con_0002"},
    {"op": "supersede_env", "id": "host_0003", "by_id": "host_0001"},
    {"op": "set_env_status", "id": "host_0004", "status": "retired"},
]

TAKE_REF = [name for name in TABLE if name.startswith("add_") or name == "set_metric"]


def rejection(project: Project, op: dict[str, Any], *before: dict[str, Any]) -> str:
    """The code with which `op` is rejected; checks that it had no effect and that its error is a sentence."""
    tested = project.try_call(*before, op)
    assert [one.index for one in tested.rejected] == [len(before)], tested.applied
    rejected = tested.rejected[0]
    assert rejected.op == op["op"]
    assert 10 < len(rejected.error) < 1000
    json.dumps(rejected.error).encode()
    alone = project.try_call(*before) if before else None
    assert tested.state.document == (alone.state if alone else project.state).document
    return rejected.code


def build(name: str, /, **changes: Any) -> dict[str, Any]:
    return {"op": name, **VALID[name], **changes}
