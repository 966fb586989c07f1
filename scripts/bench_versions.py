"""Is a project's thousandth version as quick as its first? Through the engine, on SQLite, durable."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from chainmemory.engine import accounts, memory_save, state_ops
from chainmemory.engine.callers import Caller
from chainmemory.engine.runtime import Engine
from chainmemory.settings import Settings
from chainmemory.state.builder import check_call

VERSIONS = 1000
WINDOW = 100
OPS = 10


def run() -> dict[str, float | str]:
    """Measure ops per second over the first and the last 100 of 1,000 versions."""
    figures: dict[str, float | str] = {}
    for kind, ops_of in (
        ("a document that stays as large", _steady),
        ("one that grows by an item", _growing),
    ):
        with tempfile.TemporaryDirectory() as folder:
            seconds = _versions(Path(folder), ops_of)
        first = OPS / statistics.median(seconds[1 : WINDOW + 1])
        last = OPS / statistics.median(seconds[-WINDOW:])
        figures[f"ops/s around version {WINDOW // 2}, {kind}"] = first
        figures[f"ops/s around version {VERSIONS - WINDOW // 2}, {kind}"] = last
        figures[f"ratio of the last to the first, {kind}"] = last / first
    return figures


def _versions(home: Path, ops_of: Any) -> list[float]:
    engine = Engine.open(Settings.load(home=home))
    try:
        account = accounts.create_account(engine)
        caller = Caller(account["account_id"], account["key_id"], "owner")
        batch = {"memories": [{"content": f"memory {n}"} for n in range(200)]}
        memory_save.save_batch(engine, caller, None, memory_save.BATCH.check(batch, ""))
        seconds = []
        for version in range(1, VERSIONS + 1):
            call = check_call({"ops": ops_of(version)})
            began = time.perf_counter()
            written = state_ops.apply(engine, caller, None, "bench", call)
            seconds.append(time.perf_counter() - began)
            assert written.answer["version"] == version, written.answer
            assert written.answer["rejected"] == [], written.answer
        return seconds
    finally:
        engine.close()


def _steady(version: int) -> list[dict[str, Any]]:
    """Ops that update the same items each time."""
    cited = [version % 200 + 1]
    return [
        {"op": "set_metric", "name": f"metric {n}", "value": version, "evidence_memory_ids": cited}
        for n in range(OPS)
    ]


def _growing(version: int) -> list[dict[str, Any]]:
    """The same, with one of the ops adding a decision."""
    decision = {"op": "add_decision", "title": f"Decision {version}", "statement": "Because it is so. " * 5}
    return [decision, *_steady(version)[1:]]
