"""What a git history says about its project, as operations that cite the commits' memories.

Deterministic: the same history, memory numbers and present state give the same operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chainmemory.cli.git_history import Commit
from chainmemory.client import Json

SHORT = 300
LONG = 4_000
MOST_DECISIONS = 12
MOST_MILESTONES = 20
FOCUS_COMMITS = 5
MOST_CITED = 200


class Story:
    """A history with the memory number of each commit, beside the state document as it is now."""

    def __init__(
        self,
        name: str,
        commits: Sequence[Commit],
        tags: Sequence[tuple[str, str]],
        numbers: Mapping[str, int],
        document: Mapping[str, Any],
    ) -> None:
        self._name = name
        self._commits = [commit for commit in commits if commit.hash in numbers]
        self._tags = tags
        self._numbers = numbers
        self._document = document

    def beginnings(self) -> list[Json]:
        """Return ops for what the project is and what was decided: vision, repository, decisions, risks."""
        if not self._commits:
            return []
        first = self._commits[0]
        ops = []
        if self._document["vision"] is None:
            vision = f"{self._name}, begun with: {_subject(first)}"
            ops.append(self._op("set_vision", [first], vision=vision[:LONG]))
        if not self._has("repositories", "name", self._name[:SHORT]):
            ops.append(self._op("add_env_repo", [first], name=self._name[:SHORT], path="."))
        explained = [commit for commit in self._commits if commit.body] or self._commits
        for commit in explained[-MOST_DECISIONS:]:
            title = _subject(commit)[:SHORT]
            if not self._has("decisions", "title", title):
                statement = (commit.body or _subject(commit))[:LONG]
                ops.append(self._op("add_decision", [commit], title=title, statement=statement))
        reverts = [commit for commit in self._commits if commit.subject.startswith("Revert ")]
        if reverts and not self._has("risks", "title", "Changes had to be reverted"):
            ops.append(self._op("add_risk", reverts, title="Changes had to be reverted", severity="low"))
        return ops

    def present(self) -> list[Json]:
        """Return ops for where the project stands: milestones from tags, phase, focus and metrics."""
        if not self._commits:
            return []
        ops = []
        place = {commit.hash: index for index, commit in enumerate(self._commits)}
        # By what they name, not by when the tag was made: an old release may be tagged late.
        named = sorted((place[at], name[:SHORT]) for name, at in self._tags if at in place)
        reached = [(name, self._commits[index]) for index, name in named]
        for index, (name, commit) in enumerate(reached[-MOST_MILESTONES:]):
            if self._has("milestones", "title", name):
                continue
            date = {"target_date": commit.authored_at[:10]} if commit.authored_at else {}
            ops.append(self._op("add_milestone", [commit], title=name, ref=f"tag{index}", **date))
            ops.append(self._op("set_milestone_status", [commit], id=f"@tag{index}", status="done"))
        last = self._commits[-1]
        phase = f"after {reached[-1][0]}" if reached else "before its first release"
        if self._document["phase"] != phase[:SHORT]:
            ops.append(self._op("set_phase", [last], phase=phase[:SHORT]))
        if self._document["current_focus"] != _subject(last)[:LONG]:
            recent = self._commits[-FOCUS_COMMITS:]
            ops.append(self._op("set_focus", recent, focus=_subject(last)[:LONG]))
        authors = len({commit.author for commit in self._commits})
        for metric, value in (("commits", len(self._commits)), ("authors", authors)):
            if not self._has_metric(metric, value):
                ops.append(self._op("set_metric", [last], name=metric, value=value, unit=metric))
        return ops

    def _op(self, op: str, cited: Sequence[Commit], **fields: Any) -> Json:
        numbers = [self._numbers[commit.hash] for commit in cited[-MOST_CITED:]]
        return {"op": op, **fields, "evidence_memory_ids": numbers}

    def _has(self, array: str, key: str, value: str) -> bool:
        items = self._document.get(array) or self._document["environment"].get(array) or []
        return any(item[key] == value for item in items)

    def _has_metric(self, name: str, value: int) -> bool:
        return any(item["name"] == name and item["value"] == str(value) for item in self._document["metrics"])


def _subject(commit: Commit) -> str:
    """Return the subject, or what stands for an empty one: no text of an op may be blank."""
    return commit.subject or f"commit {commit.hash[:12]}"
