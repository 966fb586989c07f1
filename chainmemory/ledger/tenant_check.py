"""Checking a file tenant, and its report as api.md shapes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chainmemory.errors import IntegrityError
from chainmemory.ledger.ahead import lines_of, reading_ahead
from chainmemory.ledger.entries import Entry, ReadLine, read_file_line
from chainmemory.ledger.tenant import LEDGER, Tenant, unreadable
from chainmemory.ledger.verdicts import Report, verify
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import GENESIS_PREV
from chainmemory.protocol.ledger_entry import entry_hash as hash_of

NO_HEADS: Mapping[int, str] = {}


def check(
    tenant: Tenant, *, heads: Mapping[int, str] | None = NO_HEADS, read: ReadLine = read_file_line
) -> Report:
    """Walk a tenant's ledger and compare every record.

    `heads`: the anchored heads (position → entry hash), empty where none is asked for or none was ever
    anchored, None where they were asked for and the chain can't be reached.
    Raises Conflict and Unavailable where a file can't be read.
    """
    fd = tenant.open(LEDGER, os.O_RDONLY) if read is read_file_line else None
    if fd is None:
        return verify(tenant.lines(), tenant.records(), read=read, heads=heads, unsealed_is_wrong=False)
    try:
        with reading_ahead(fd, frozenset(heads or ())) as ahead:
            lines = ahead.first_lines() if ahead is not None else lines_of(fd, 0, None)
            return verify(
                lines, tenant.records(), read=read, heads=heads, unsealed_is_wrong=False, ahead=ahead
            )
    except OSError as error:
        raise unreadable(tenant.path / LEDGER, error) from None
    finally:
        os.close(fd)


def read_twice(line: bytes) -> Entry:
    """Read a line, and once more by the strict parser and form C alone, for a deep check.

    Raises Invalid as the quick reading does, IntegrityError where the two don't agree.
    """
    entry = read_file_line(line)
    if entry.computed != hash_of(parse_json(line)):
        raise IntegrityError(
            "Two ways to read a line of this ledger disagree; this is an error in chainmemory."
        )
    return entry


def as_json(
    name: str, report: Report, heads: Mapping[int, str] | None = NO_HEADS, tx_hash: str | None = None
) -> dict[str, Any]:
    """Return a report in the shape of `GET /ledger/verify`; `tx_hash` anchored the last of `heads`."""
    walk = report.walk
    seq, entry_hash = walk.head or (0, GENESIS_PREV)
    last = max(heads) if heads else None
    anchored = {
        "seq": last,
        "hash": heads[last] if heads and last else None,
        "matches": report.head_matches,
        "tx_hash": tx_hash,
    }
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
        "head": {"seq": seq, "hash": entry_hash},
        "anchored_head": anchored,
    }
