"""Verifying, listing and exporting an account's own ledger (api.md, Ledger)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from chainmemory.engine import ledger_heads
from chainmemory.engine.callers import Caller
from chainmemory.engine.ledger_check import Checked, check
from chainmemory.engine.ledger_heads import AnchoredHeads, anchored_heads
from chainmemory.errors import Invalid, RateLimited
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import GENESIS_PREV

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

AT_ONCE: Final = 2
"""Checks that run at once in one process: each keeps a core busy, and others want to be answered too."""
WAIT_S: Final = 3.0
EXPORT_PAGE: Final = 1_000

_turns = threading.BoundedSemaphore(AT_ONCE)


def verify(engine: Engine, caller: Caller, *, deep: bool) -> dict[str, Any]:
    """Check the caller's whole ledger and all that it seals, and return the report.

    Needs no key but the caller's API key; `deep` decrypts and recomputes everything too. Raises RateLimited
    where too many checks run already.
    """
    checked, heads = run(engine, caller.account_id, deep=deep)
    return report(checked, heads)


def run(engine: Engine, account_id: str, *, deep: bool = False) -> tuple[Checked, AnchoredHeads | None]:
    """Check an account's ledger; the heads first, so that every anchored entry must be in the store then."""
    if not _turns.acquire(timeout=WAIT_S):
        raise RateLimited("Other ledgers are being checked; try again soon.", details={"retry_after": 5})
    try:
        heads = anchored_heads(engine, account_id)
        vault = engine.vault(account_id) if deep else None
        with engine.db.read() as tx:
            return check(tx, account_id, heads.by_position if heads is not None else None, vault), heads
    finally:
        _turns.release()


def report(checked: Checked, heads: AnchoredHeads | None) -> dict[str, Any]:
    """Return a check in the shape of `GET /v1/ledger/verify`."""
    head = checked.head
    return {
        "ok": checked.ok,
        "chain": checked.chain,
        "entries": checked.entries,
        "broken_at": checked.broken_at,
        "reason": checked.reason,
        "sealed": checked.sealed,
        "altered": checked.altered,
        "missing": checked.missing,
        "unsealed": checked.unsealed,
        "disputed": checked.disputed,
        "forgotten": checked.forgotten,
        "head": {"seq": head[0], "hash": head[1]} if head else {"seq": 0, "hash": GENESIS_PREV},
        "anchored_head": ledger_heads.as_json(heads, matches=checked.head_matches),
    }


def entries(engine: Engine, caller: Caller, *, first: int, limit: int) -> dict[str, Any]:
    """Return up to `limit` entries from seq `first` on, how many there are, and where the next page begins.

    An entry that somebody made unreadable is shown as `{"seq", "unparseable"}`.
    """
    found = []
    with engine.db.read() as tx:
        total = tx.accounts.get(caller.account_id).ledger_seq
        for seq, line in tx.ledger.records.lines(caller.account_id, after=first - 1, chunk=limit + 1):
            found.append((seq, line))
            if len(found) > limit:
                break
    more = found[limit][0] if len(found) > limit and isinstance(found[limit][0], int) else None
    return {
        "entries": [_entry(seq, line) for seq, line in found[:limit]],
        "total": total,
        "next_from": more,
    }


def export(engine: Engine, caller: Caller) -> Iterator[bytes]:
    """Yield the whole chain as `ledger.jsonl`, a thousand lines at a time, as it was at the beginning.

    Each page is read by itself: entries never change, and a slow reader must hold no transaction open.
    """
    after: Any = None
    with engine.db.read() as tx:
        last = tx.accounts.get(caller.account_id).ledger_seq
    while True:
        page = []
        with engine.db.read() as tx:
            given = {} if after is None else {"after": after}
            for seq, line in tx.ledger.records.lines(caller.account_id, chunk=EXPORT_PAGE, **given):
                if isinstance(seq, int) and seq > last:
                    break
                page.append(line + b"\n")
                after = seq
                if len(page) == EXPORT_PAGE:
                    break
        if not page:
            return
        yield b"".join(page)


def _entry(seq: Any, line: bytes) -> dict[str, Any]:
    try:
        entry = parse_json(line)
    except Invalid:
        entry = None
    if isinstance(entry, dict):
        return entry
    return {"seq": seq, "unparseable": line.decode("utf-8", "replace")}
