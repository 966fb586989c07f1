"""Checking a file tenant, and its report as api.md shapes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainmemory.errors import IntegrityError
from chainmemory.ledger.entries import Entry, ReadLine, read_file_line
from chainmemory.ledger.tenant import Tenant
from chainmemory.ledger.verdicts import Report, verify
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import entry_hash

NO_HEADS: Mapping[int, str] = {}


def check(
    tenant: Tenant, *, heads: Mapping[int, str] | None = NO_HEADS, read: ReadLine = read_file_line
) -> Report:
    """Walk a tenant's ledger and compare every record.

    `heads`: the anchored heads (position → entry hash), empty where none is asked for or none was ever
    anchored, None where they were asked for and the chain can't be reached.
    Raises Conflict and Unavailable where a file can't be read.
    """
    return verify(tenant.lines(), tenant.records(), read=read, heads=heads, unsealed_is_wrong=False)


def read_twice(line: bytes) -> Entry:
    """Read a line, and once more by the strict parser and form C alone, for a deep check.

    Raises Invalid as the quick reading does, IntegrityError where the two don't agree.
    """
    entry = read_file_line(line)
    if entry.computed != entry_hash(parse_json(line)):
        raise IntegrityError(
            "Two ways to read a line of this ledger disagree; this is an error in chainmemory."
        )
    return entry


def as_json(name: str, report: Report, heads: Mapping[int, str] | None = NO_HEADS) -> dict[str, Any]:
    """Return a report in the shape of `GET /ledger/verify`."""
    walk = report.walk
    head = None if walk.head is None else {"seq": walk.head[0], "hash": walk.head[1]}
    anchored = None
    if heads:
        last = max(heads)
        anchored = {"seq": last, "hash": heads[last], "matches": report.head_matches}
    return {
        "agent_id": name,
        "ok": report.ok,
        "chain": walk.chain,
        "entries": walk.entries,
        "broken_at": walk.broken_at,
        "reason": walk.reason,
        "sealed": len(report.sealed),
        "altered": report.altered,
        "missing": report.missing,
        "unsealed": report.unsealed,
        "disputed": report.disputed,
        "forgotten": len(report.forgotten),
        "head": head,
        "anchored_head": anchored,
    }
