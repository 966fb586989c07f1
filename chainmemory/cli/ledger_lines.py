"""A file tenant's report as lines for people: one that sums it up, then each problem by its id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chainmemory.cli.output import printable

WORDS = {
    "unparseable": "it can't be read",
    "seq": "its position is wrong",
    "prev": "it doesn't follow the line before",
    "hash": "it was changed",
}
UNSEALED_SHOWN = 20
_PROBLEMS = ("altered", "missing", "disputed")


def lines_of(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a report of `GET /ledger/verify`'s shape."""
    yield summary(report)
    if report["broken_at"] is not None:
        # A torn tail reads like this, and only like this.
        torn = report["reason"] == "unparseable" and report["broken_at"] == report["entries"]
        hint = " (if a crash left it, the next write or `ledger seal` mends it)" if torn else ""
        yield f"  broken    line {report['broken_at']}: {WORDS.get(report['reason'], report['reason'])}{hint}"
    for verdict in _PROBLEMS:
        for record in report[verdict]:
            yield f"  {verdict:<8}  {printable(record)}"
    unsealed = report["unsealed"]
    for record in unsealed[:UNSEALED_SHOWN]:
        yield f"  unsealed  {printable(record)}"
    if len(unsealed) > UNSEALED_SHOWN:
        yield f"  unsealed  … and {len(unsealed) - UNSEALED_SHOWN} more (--json names all)"
    anchored = report["anchored_head"]
    if anchored["seq"] is not None:
        yield f"  on chain  {_anchored(anchored)}"


def summary(report: dict[str, Any]) -> str:
    """Return the one line that sums a report up."""
    chain = report["chain"]
    if report["broken_at"] is not None:
        chain += f" at {report['broken_at']}"
    parts = [
        f"{printable(report['agent_id'])}: chain {chain} ({report['entries']} entries)",
        f"sealed {report['sealed']}",
        f"altered {len(report['altered'])}",
        f"missing {len(report['missing'])}",
        f"unsealed {len(report['unsealed'])}",
    ]
    parts += [f"disputed {len(report['disputed'])}"] if report["disputed"] else []
    parts += [f"forgotten {report['forgotten']}"] if report["forgotten"] else []
    return " · ".join(parts)


def _anchored(anchored: dict[str, Any]) -> str:
    place = f"entry {anchored['seq']} {anchored['hash']}"
    if anchored["matches"]:
        return f"{place}, as here"
    return f"{place}, NOT as here: this ledger was cut or rewritten"


def anchor_line(told: dict[str, Any]) -> str:
    """Return what an answer of `POST /ledger/anchor` says as a line."""
    anchor = told["anchor"]
    where = "" if anchor["block_number"] is None else f" in block {anchor['block_number']}"
    where += f", transaction {anchor['tx_hash']}" if anchor["tx_hash"] else ""
    why = f": {printable(anchor['reason'])}" if anchor["reason"] else ""
    return f"{printable(told['agent_id'])}: entry {told['seq']} {told['hash']} {anchor['status']}{where}{why}"
