"""Measure the pure builder against the least it must do: canonical bytes and SHA3-256 of the document.

`run()` returns ratios taken in one run; `python scripts/bench_builder.py` prints them.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson

from chainmemory.protocol.evidence import EvidenceTree
from chainmemory.state.builder import ProjectState, Result, apply_call, check_call, cited_numbers, replay

PROJECT_ID = "0x" + "5a" * 32
SECRET = bytes(32)
ITEMS = 2_000
CITATIONS = 5_000
TEXT = "Row-level security removes tenant filtering from every query, so that no handler can forget it — ✓. "


def run() -> dict[str, float]:
    """Run all measurements (about ten seconds); times are medians of processor time."""
    state = _grown(ITEMS)
    bare = _median(
        lambda: hashlib.sha3_256(orjson.dumps(state.document, option=orjson.OPT_SORT_KEYS)).digest()
    )
    call = _mixed_call()
    applied = _apply(state, call)
    busy = _median(lambda: _apply(state, call))
    one = _median(lambda: _apply(state, {"ops": [{"op": "set_phase", "phase": "next"}]}))
    resolved, after = applied.resolved_ops, applied.state
    replayed = _median(
        lambda: replay(
            state,
            resolved,
            consolidated_until_event=after.consolidated_until_event,
            project_secret=SECRET,
            version=after.version,
        )
    )
    return {
        "items in the document": ITEMS,
        "bytes of the document": len(applied.document_bytes or b""),
        "orjson + SHA3-256 alone, ms": bare * 1e3,
        "a call of 10 ops, ms": busy * 1e3,
        "a call of 10 ops / orjson + SHA3-256 (goal: at most 3)": busy / bare,
        "a call of 1 op / orjson + SHA3-256": one / bare,
        "replay of 10 ops / orjson + SHA3-256": replayed / bare,
        **_evidence(),
        **_flatness(),
    }


def _evidence() -> dict[str, float]:
    """One more citation on an item with thousands: beside making its tree from nothing."""
    members = [_hash(number) for number in range(CITATIONS)]
    tree = EvidenceTree.of(members)
    assert tree.root
    new = iter(range(CITATIONS, 10 * CITATIONS))
    grown = _median(lambda: tree.adding([_hash(next(new))]).root)
    scratch = _median(lambda: EvidenceTree.of(members).root, rounds=9)
    return {
        "one citation more on an item with 5,000, ms": grown * 1e3,
        "… / making its tree from nothing": grown / scratch,
    }


def _flatness() -> dict[str, float]:
    """A thousand versions of ten ops each on a project of steady size: the last hundred beside the first."""
    state = _grown(200)
    times = []
    for version in range(1_000):
        ops = [
            {"op": "set_risk_status", "id": f"risk_{n:04}", "status": ("closed", "open")[version % 2]}
            for n in range(1, 10)
        ]
        ops.append(
            {"op": "set_phase", "phase": f"phase {version}", "evidence_memory_ids": [version % 500 + 1]}
        )
        started = time.process_time()
        state = _apply(state, {"ops": ops}).state
        times.append(time.process_time() - started)
    first, last = statistics.median(times[:100]), statistics.median(times[-100:])
    return {
        "ops per second in calls of 10 on 200 items": 10 / statistics.median(times),
        "time of versions 901–1,000 / versions 1–100": last / first,
    }


def _grown(items: int) -> ProjectState:
    state = ProjectState.empty(PROJECT_ID)
    for first in range(0, items, 100):
        state = _apply(state, {"ops": [_added(number) for number in range(first, first + 100)]}).state
    return state


def _added(number: int) -> dict[str, Any]:
    title, text = f"Item {number}: Größe ändern", TEXT * 2
    kinds: list[dict[str, Any]] = [
        {"op": "add_decision", "title": title, "statement": text, "scope": "api"},
        {"op": "add_risk", "title": title, "severity": "med", "description": text},
        {"op": "add_priority", "title": title, "description": text, "completion_criterion": "all tests pass"},
        {"op": "add_milestone", "title": title, "description": text, "target_date": "2028-02-29"},
        {"op": "add_vocabulary", "term": title, "definition": text},
        {"op": "add_open_question", "question": text},
        {"op": "add_env_host", "name": f"host-{number}", "role": "database", "address": "10.0.0.5"},
        {"op": "set_metric", "name": title, "value": number / 7, "unit": "ms"},
    ]
    return {**kinds[number % len(kinds)], "evidence_memory_ids": [number % 500 + 1, number % 77 + 1]}


def _mixed_call() -> dict[str, Any]:
    cite = {"evidence_memory_ids": [501, 502, 503]}
    return {
        "ops": [
            {"op": "add_decision", "title": "New", "statement": TEXT, "ref": "new", **cite},
            {"op": "supersede_decision", "id": "dec_0001", "by_id": "@new", **cite},
            {"op": "set_decision_status", "id": "dec_0100", "status": "confirmed", **cite},
            {"op": "set_risk_status", "id": "risk_0100", "status": "mitigated", **cite},
            {"op": "reorder_priority", "id": "pri_0200", "position": 1},
            {"op": "set_priority_status", "id": "pri_0100", "status": "done", **cite},
            {"op": "add_vocabulary", "term": "Anchor", "definition": TEXT},
            {"op": "set_metric", "name": "uptime", "value": 99.95, "unit": "%"},
            {"op": "add_env_host", "name": "db-2.internal", "role": "replica", "address": "10.0.0.6"},
            {"op": "set_focus", "focus": TEXT, **cite},
        ],
        "consolidated_until_event": 600,
    }


def _apply(state: ProjectState, body: dict[str, Any]) -> Result:
    call = check_call(body)
    hashes = {number: _hash(number) for number in cited_numbers(call)}
    result = apply_call(state, call, event_hashes=hashes, highest_memory=1_000, project_secret=SECRET)
    if result.rejected:
        raise RuntimeError(f"the benchmark's own op was rejected: {result.rejected[0]}")
    return result


def _hash(number: int) -> str:
    return "0x" + hashlib.sha256(b"%d" % number).hexdigest()


def _median(work: Callable[[], Any], rounds: int = 41) -> float:
    work()
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
