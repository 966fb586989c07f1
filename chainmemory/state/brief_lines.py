"""One line for each item of a state, with how much it matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from chainmemory.state.document import ARRAYS, SCALARS, items_of

_ENDED: Final = frozenset(
    ["rejected", "superseded", "done", "closed", "invalidated", "answered", "dropped", "removed", "retired"]
)
# Where an item of a section starts; a task it fits lifts it by up to TASK_WEIGHT (brief.py).
_IMPORTANCE: Final = {
    "phase": 200.0,
    "current_focus": 199.0,
    "vision": 198.0,
    "priorities": 90.0,
    "risks": 80.0,
    "decisions": 70.0,
    "constraints": 68.0,
    "open_questions": 60.0,
    "assumptions": 55.0,
    "milestones": 50.0,
    "environment.rules": 45.0,
    "environment.hosts": 40.0,
    "environment.services": 40.0,
    "environment.repositories": 40.0,
    "metrics": 35.0,
    "vocabulary": 30.0,
}
SECTIONS: Final = tuple(_IMPORTANCE)
"""The sections of a brief in their order."""
_STATUS_WEIGHT: Final = {"confirmed": 5.0, "in_progress": 5.0, "mitigated": -8.0}
_SEVERITY_WEIGHT: Final = {"high": 9.0, "med": 6.0, "low": 3.0}
_TITLE_KEYS: Final = ("title", "term", "name", "question", "statement", "rule")
_DETAIL_KEYS: Final = (
    "statement", "description", "definition", "role", "address", "access_method", "host_id", "manager",
    "code_path", "path", "remote", "scope",
)  # fmt: skip
_SHOWN_STATUS: Final = frozenset(["proposed", "confirmed", "in_progress", "mitigated"]) | _ENDED


@dataclass(frozen=True, slots=True)
class Line:
    """What can be said of one item."""

    section: str
    ended: bool
    importance: float
    title: str
    """The line without its details."""
    text: str
    """The whole line."""
    updated_version: int
    rank: int = 0
    """Its place in its array, from 1."""


def lines_of(document: dict[str, Any], words: dict[str, str]) -> Iterator[Line]:
    """Give a line for each scalar that is set and for each item, in the order of the document."""
    for scalar in SCALARS:
        if document[scalar] is not None:
            text = _flat(document[scalar])
            updated = document["provenance"][scalar]["updated_version"]
            yield Line(scalar, False, _IMPORTANCE[scalar], text, text, updated)
    for path in ARRAYS:
        for rank, item in enumerate(items_of(document, path), 1):
            yield _line(path, rank, item, words)


def _line(path: str, rank: int, item: dict[str, Any], words: dict[str, str]) -> Line:
    status = item.get("status")
    title_key = next(key for key in _TITLE_KEYS if item.get(key) is not None)
    tags = [status] if status in _SHOWN_STATUS else []
    tags += [item["severity"]] if "severity" in item else []
    if item.get("superseded_by"):
        tags.append(f"{words['by']} {item['superseded_by']}")
    if item.get("target_date"):
        tags.append(f"{words['due']} {item['target_date']}")
    if item.get("mitigates"):
        tags.append(f"{words['against']} {', '.join(item['mitigates'])}")
    title = f"[{item['id']}] " + (f"({'; '.join(tags)}) " if tags else "") + _flat(item[title_key])
    details = [_flat(text) for text in _details(item, title_key, words)]
    importance = (
        _IMPORTANCE[path]
        + _STATUS_WEIGHT.get(status or "", 0.0)
        + _SEVERITY_WEIGHT.get(item.get("severity", ""), 0.0)
        - (min(rank, 200) * 0.09 if path == "priorities" else 0.0)
    )
    text = title + (": " + "; ".join(details) if details else "")
    return Line(path, status in _ENDED, importance, title, text, item["updated_version"], rank)


def _details(item: dict[str, Any], title_key: str, words: dict[str, str]) -> Iterator[str]:
    for key in _DETAIL_KEYS:
        if key != title_key and item.get(key) is not None:
            yield item[key]
    if "value" in item:
        yield f"{item['value']} {item['unit']}" if item["unit"] else item["value"]
    for key in ("port", "access_port"):
        if item.get(key) is not None:
            yield f":{item[key]}"
    for key, word in (("completion_criterion", "done_when"), ("answer", "answer"), ("reason", "reason")):
        if item.get(key) is not None:
            yield f"{words[word]}: {item[key]}"


def _flat(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())
