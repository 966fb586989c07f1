"""What changed between two versions of a state document."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from chainmemory.state.document import ARRAYS, SCALARS, items_of

Document = dict[str, Any]


def diff(old: Document, new: Document) -> dict[str, Any]:
    """Compare two versions of one project, item by item.

    Returns JSON-able `{"from_version", "to_version", "added": [items], "removed": [items], "changed":
    [{"id", "keys": {key: [old, new]}}], "moved": [{"id", "from", "to"}]}`. Scalars stand among the changed
    ones by their name, with the keys `value`, `evidence_root` and `updated_version`; so does
    `consolidated_until_event` with `value` alone. `moved` are the priorities whose own move explains the
    new order (ranks from 1). Nothing is ever removed from a project, so `removed` fills only where `old`
    is the later version.
    """
    result: dict[str, Any] = {
        "from_version": old["state_meta"]["version"],
        "to_version": new["state_meta"]["version"],
        "added": [],
        "removed": [],
        "changed": [],
        "moved": _moved(old["priorities"], new["priorities"]),
    }
    for name in (*SCALARS, "consolidated_until_event"):
        _note_change(result, name, _scalar(old, name), _scalar(new, name))
    for path in ARRAYS:
        before = {item["id"]: item for item in items_of(old, path)}
        after = {item["id"]: item for item in items_of(new, path)}
        result["removed"] += [item for name, item in before.items() if name not in after]
        for name, item in after.items():
            if name in before:
                _note_change(result, name, before[name], item)
            else:
                result["added"].append(item)
    return result


def _note_change(result: dict[str, Any], name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    if old is new:
        return
    keys = {key: [old.get(key), new[key]] for key in new if old.get(key) != new[key]}
    if keys:
        result["changed"].append({"id": name, "keys": keys})


def _scalar(document: Document, name: str) -> dict[str, Any]:
    if name not in SCALARS:
        return {"value": document["state_meta"][name]}
    origin = document["provenance"][name] or {"evidence_root": None, "updated_version": None}
    return {"value": document[name], **origin}


def _moved(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    was = {item["id"]: (rank, item["updated_version"]) for rank, item in enumerate(old, 1)}
    now = [(rank, item) for rank, item in enumerate(new, 1) if item["id"] in was]
    # Moving a priority touches it, so those that weren't touched are in the same order as before. A touched
    # one stayed in place if as many of them stand before it, and if it fits with the others that did.
    fixed = [was[item["id"]][0] for _, item in now if was[item["id"]][1] == item["updated_version"]]
    fixed.sort()
    passed, candidates = 0, []
    for _, item in now:
        rank, updated = was[item["id"]]
        if updated == item["updated_version"]:
            passed += 1
        elif bisect_left(fixed, rank) == passed:
            candidates.append(rank)
    still = {*fixed, *_longest_rising(candidates)}
    return [
        {"id": item["id"], "from": was[item["id"]][0], "to": rank}
        for rank, item in now
        if was[item["id"]][0] not in still
    ]


def _longest_rising(ranks: list[int]) -> set[int]:
    """Return a longest rising subsequence of distinct numbers (patience sorting)."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for rank in ranks:
        at = bisect_left(tails, rank)
        before[rank] = tails[at - 1] if at else None
        tails[at : at + 1] = [rank]
    chain: set[int] = set()
    link = tails[-1] if tails else None
    while link is not None:
        chain.add(link)
        link = before[link]
    return chain
