"""State documents rebuilt from their applied ops: grammar.md written down a second time, as a table.

Nothing is checked that only decides whether an op is valid: these ops were applied, and the hash of what they
make tells whether they are the ones.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

from chainmemory.errors import IntegrityError, Invalid
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.evidence import EMPTY, EvidenceTree
from chainmemory.protocol.hashing import ZERO, hex32, tagged_hash

Json = dict[str, Any]

_SCALARS: Final = {"set_focus": "current_focus", "set_phase": "phase", "set_vision": "vision"}
_SCALAR_FIELD: Final = {"set_focus": "focus", "set_phase": "phase", "set_vision": "vision"}
_ENVIRONMENT: Final = {"host": "hosts", "svc": "services", "repo": "repositories", "rule": "rules"}
_ARRAYS: Final = {
    "dec": "decisions",
    "mil": "milestones",
    "risk": "risks",
    "asm": "assumptions",
    "que": "open_questions",
    "pri": "priorities",
    "voc": "vocabulary",
    "con": "constraints",
    "met": "metrics",
}
_ENV_KEYS: Final = {"status": "active", "superseded_by": None, "verified_version": None}
# op: (id prefix, own keys with what they are where the op doesn't give them)
_ADDS: Final[dict[str, tuple[str, Json]]] = {
    "add_decision": (
        "dec",
        {"title": None, "statement": None, "scope": None, "status": "proposed", "superseded_by": None},
    ),
    "add_milestone": (
        "mil",
        {"title": None, "description": None, "target_date": None, "status": "planned"},
    ),
    "add_risk": ("risk", {"title": None, "description": None, "severity": None, "status": "open"}),
    "add_assumption": ("asm", {"statement": None, "status": "active", "reason": None}),
    "add_open_question": ("que", {"question": None, "status": "open", "answer": None}),
    "add_priority": (
        "pri",
        {
            "title": None,
            "description": None,
            "completion_criterion": None,
            "mitigates": [],
            "status": "active",
        },
    ),
    "add_vocabulary": ("voc", {"term": None, "definition": None}),
    "add_constraint": ("con", {"statement": None, "status": "active", "reason": None}),
    "set_metric": ("met", {"name": None, "value": None, "unit": None}),
    "add_env_host": (
        "host",
        {
            "name": None,
            "role": None,
            "address": None,
            "access_method": None,
            "access_port": None,
            **_ENV_KEYS,
        },
    ),
    "add_env_service": (
        "svc",
        {"name": None, "host_id": None, "port": None, "manager": None, "code_path": None, **_ENV_KEYS},
    ),
    "add_env_repo": ("repo", {"name": None, "path": None, "remote": None, **_ENV_KEYS}),
    "add_env_rule": ("rule", {"rule": None, "scope": None, **_ENV_KEYS}),
}
# op: (what it sets to a word, own keys that it takes from its fields, null where not given)
_CHANGES: Final[dict[str, tuple[Json, dict[str, str]]]] = {
    "set_decision_status": ({}, {"status": "status"}),
    "set_milestone_status": ({}, {"status": "status"}),
    "set_risk_status": ({}, {"status": "status"}),
    "set_priority_status": ({}, {"status": "status"}),
    "set_env_status": ({}, {"status": "status"}),
    "supersede_decision": ({"status": "superseded"}, {"superseded_by": "by_id"}),
    "supersede_env": ({"status": "superseded"}, {"superseded_by": "by_id"}),
    "invalidate_assumption": ({"status": "invalidated"}, {"reason": "reason"}),
    "answer_open_question": ({"status": "answered"}, {"answer": "answer"}),
    "reorder_priority": ({}, {}),
    "set_priority_risks": ({}, {"mitigates": "mitigates"}),
    "update_vocabulary": ({}, {"definition": "definition"}),
    "remove_constraint": ({"status": "removed"}, {"reason": "reason"}),
    "verify_env": ({}, {}),
}


class Rebuilt:
    """One project's document, version by version."""

    def __init__(self, project_id: str, secret: bytes) -> None:
        """Begin with version 0. `secret` is the project's (protocol §7)."""
        self._secret = secret
        self.state_hash = ZERO
        self.version = 0
        self.cited: dict[str, EvidenceTree] = {}
        """What each item, or scalar, has cited so far."""
        self.document: Json = {
            **dict.fromkeys(("phase", "vision", "current_focus")),
            "provenance": dict.fromkeys(("phase", "vision", "current_focus")),
            **{name: [] for name in _ARRAYS.values()},
            "environment": {name: [] for name in _ENVIRONMENT.values()},
            "state_meta": {
                "schema_version": 2,
                "project_id": project_id,
                "salt": None,
                "version": 0,
                "consolidated_until_event": 0,
                "previous_state_hash": None,
            },
        }

    @property
    def items(self) -> int:
        """How many items the document has."""
        return sum(len(self._array(prefix)) for names in (_ARRAYS, _ENVIRONMENT) for prefix in names)

    def advance(self, ops: Sequence[Json], watermark: int) -> set[tuple[str, int]]:
        """Apply the ops of the next version; return which (item, memory number) it was the first to cite.

        Raises IntegrityError where they can't be applied.
        """
        self.version += 1
        before = dict(self.cited)
        newly: set[tuple[str, int]] = set()
        for op in ops:
            try:
                item = self._apply(op)
                numbers = [
                    cited["memory_number"]
                    for cited in op["evidence"]
                    if cited["event_hash"] not in before.get(item, EMPTY)
                ]
            except (KeyError, TypeError, ValueError, IndexError, AttributeError, Invalid) as error:
                raise IntegrityError(f"an op can't be applied ({type(error).__name__})") from error
            if item != op["item"]:
                raise IntegrityError(f"an op reaches {item}, and says {op['item']}")
            newly.update((item, number) for number in numbers)
        self.document["state_meta"] = {
            **self.document["state_meta"],
            "salt": hex32(
                hmac.new(
                    self._secret, b"CM_STATE_SALT_V1\x00" + str(self.version).encode(), hashlib.sha256
                ).digest()
            ),
            "version": self.version,
            "consolidated_until_event": watermark,
            "previous_state_hash": self.state_hash,
        }
        self.state_hash = hex32(tagged_hash("CM_PROJECT_STATE_V2", canonical(self.document)))
        return newly

    def _apply(self, op: Json) -> str:
        name, given = op["op"], op["fields"]
        hashes = [cited["event_hash"] for cited in op["evidence"]]
        if name in _SCALARS:
            scalar = _SCALARS[name]
            self.document[scalar] = given[_SCALAR_FIELD[name]]
            self.document["provenance"][scalar] = self._cite(scalar, hashes)
            return scalar
        if name == "set_metric":
            return self._set_metric(given, hashes)
        if name in _ADDS:
            return self._add(name, given, hashes)
        item = self._find(given["id"])
        words, taken = _CHANGES[name]
        item.update(words, **{key: given.get(field) for key, field in taken.items()})
        if name == "verify_env":
            item["verified_version"] = self.version
        item.update(self._cite(item["id"], hashes))
        if name == "reorder_priority":
            ranked = self.document["priorities"]
            ranked.remove(item)
            ranked.insert(given["position"] - 1, item)
        return str(item["id"])

    def _set_metric(self, given: Json, hashes: list[str]) -> str:
        for metric in self.document["metrics"]:
            if metric["name"] == given["name"]:
                metric.update(given)
                metric.update(self._cite(metric["id"], hashes))
                return str(metric["id"])
        return self._add("set_metric", given, hashes)

    def _add(self, name: str, given: Json, hashes: list[str]) -> str:
        prefix, keys = _ADDS[name]
        array = self._array(prefix)
        new_id = f"{prefix}_{len(array) + 1:04}"
        own = {key: given.get(key, default) for key, default in keys.items()}
        array.append({"id": new_id, **own, "created_version": self.version, **self._cite(new_id, hashes)})
        return new_id

    def _cite(self, key: str, hashes: list[str]) -> Json:
        self.cited[key] = self.cited.get(key, EMPTY).adding(hashes)
        return {"evidence_root": self.cited[key].root, "updated_version": self.version}

    def _find(self, wanted: str) -> Json:
        for item in self._array(wanted.partition("_")[0]):
            if item["id"] == wanted:
                found: Json = item
                return found
        raise KeyError(wanted)

    def _array(self, prefix: str) -> list[Json]:
        environment = _ENVIRONMENT.get(prefix)
        holder = self.document if environment is None else self.document["environment"]
        array: list[Json] = holder[environment or _ARRAYS[prefix]]
        return array
