"""How far things are on their way to the chain, as the doors tell it (api.md, Anchor status)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from chainmemory.errors import NotFound, Unavailable
from chainmemory.store.outbox_rows import FAILED, OutboxRow

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

STATUSES: Final = ("covered", "conflict", "pending", "submitted", "anchored", "failed")


def anchor_of(row: OutboxRow | None) -> dict[str, Any]:
    """Return an owner's view of an anchor: `{"status", "onchain_anchor_id", "tx_hash", "block_number"}`.

    A failed one also says its `reason` and `next_attempt_at`.
    """
    if row is None:
        return {"status": None, "onchain_anchor_id": None, "tx_hash": None, "block_number": None}
    anchor = {
        "status": row.status,
        "onchain_anchor_id": row.anchor_id,
        "tx_hash": row.tx_hash,
        "block_number": row.block_number,
    }
    return {**anchor, **why_not(row)}


def why_not(row: OutboxRow) -> dict[str, Any]:
    """Return why a row isn't anchored yet, where the worker said so."""
    if row.status == FAILED:
        return {"reason": row.reason, "next_attempt_at": row.next_attempt_at}
    return {"reason": row.reason} if row.reason else {}


def confirmations(engine: Engine, row: OutboxRow | None) -> int | None:
    """Return how many blocks, its own included, stand on an anchor; None where nobody can tell."""
    if row is None or row.block_number is None:
        return None
    try:
        head = engine.chain.head()
    except (Unavailable, NotFound):
        return None
    return max(0, head.number - row.block_number + 1)
