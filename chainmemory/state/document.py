"""The state document: its arrays, their items' keys and statuses (grammar, "The state document")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

SCHEMA_VERSION: Final = 2
MAX_DOCUMENT_BYTES: Final = 4_194_304
"""Largest document in canonical form (grammar, "Applying a call" 2)."""
MAX_CITED: Final = 10_000
"""Most memories one item can cite over all its versions (grammar, "Applying a call" 4)."""

SCALARS: Final = ("phase", "vision", "current_focus")
RECORD_KEYS: Final = ("id", "evidence_root", "created_version", "updated_version")
"""What every item has beside its own keys."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array of the document."""

    path: str
    """Its place: `decisions`, or `environment.hosts` for one inside the environment."""
    prefix: str
    noun: str
    keys: tuple[str, ...]
    statuses: tuple[str, ...] = ()
    """The first is the status at creation; empty where items have none."""


_ENV_END: Final = ("status", "superseded_by", "verified_version")
_ENV_STATUSES: Final = ("active", "retired", "superseded")

_SPECS: Final = (
    ArraySpec(
        "decisions",
        "dec",
        "decision",
        ("title", "statement", "scope", "status", "superseded_by"),
        ("proposed", "confirmed", "rejected", "superseded"),
    ),
    ArraySpec(
        "milestones",
        "mil",
        "milestone",
        ("title", "description", "target_date", "status"),
        ("planned", "in_progress", "done"),
    ),
    ArraySpec(
        "risks",
        "risk",
        "risk",
        ("title", "description", "severity", "status"),
        ("open", "mitigated", "closed"),
    ),
    ArraySpec(
        "assumptions", "asm", "assumption", ("statement", "status", "reason"), ("active", "invalidated")
    ),
    ArraySpec(
        "open_questions", "que", "open question", ("question", "status", "answer"), ("open", "answered")
    ),
    ArraySpec(
        "priorities",
        "pri",
        "priority",
        ("title", "description", "completion_criterion", "mitigates", "status"),
        ("active", "done", "dropped"),
    ),
    ArraySpec("vocabulary", "voc", "vocabulary term", ("term", "definition")),
    ArraySpec("constraints", "con", "constraint", ("statement", "status", "reason"), ("active", "removed")),
    ArraySpec("metrics", "met", "metric", ("name", "value", "unit")),
    ArraySpec(
        "environment.hosts",
        "host",
        "host",
        ("name", "role", "address", "access_method", "access_port", *_ENV_END),
        _ENV_STATUSES,
    ),
    ArraySpec(
        "environment.services",
        "svc",
        "service",
        ("name", "host_id", "port", "manager", "code_path", *_ENV_END),
        _ENV_STATUSES,
    ),
    ArraySpec(
        "environment.repositories", "repo", "repository", ("name", "path", "remote", *_ENV_END), _ENV_STATUSES
    ),
    ArraySpec("environment.rules", "rule", "rule", ("rule", "scope", *_ENV_END), _ENV_STATUSES),
)
ARRAYS: Final = {spec.path: spec for spec in _SPECS}
ENVIRONMENT: Final = tuple(path for path in ARRAYS if path.startswith("environment."))


def empty_document(project_id: str) -> dict[str, Any]:
    """Make version 0 of a project (hex32): never stored, hashed or anchored."""
    document: dict[str, Any] = dict.fromkeys(SCALARS)
    document["provenance"] = dict.fromkeys(SCALARS)
    document |= {path: [] for path in ARRAYS if "." not in path}
    document["environment"] = {path.partition(".")[2]: [] for path in ENVIRONMENT}
    document["state_meta"] = {
        "schema_version": SCHEMA_VERSION,
        "project_id": project_id,
        "salt": None,
        "version": 0,
        "consolidated_until_event": 0,
        "previous_state_hash": None,
    }
    return document


def items_of(document: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """Return the array at `path` of a document, the list itself."""
    outer, _, inner = path.partition(".")
    items: list[dict[str, Any]] = document[outer][inner] if inner else document[outer]
    return items


def item_id(path: str, count: int) -> str:
    """Name the item that is the `count`-th (from 1) of its array."""
    return f"{ARRAYS[path].prefix}_{count:04}"
