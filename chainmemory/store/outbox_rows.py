"""What an outbox row is, shared by the nouns that enqueue and the one that works the queue off."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, insert

from chainmemory.store.sql import Statement, insert_or_ignore
from chainmemory.store.tables import outbox

MEMORY, STATE, HEAD = "memory", "state", "head"
PENDING, SUBMITTED, ANCHORED, FAILED = "pending", "submitted", "anchored", "failed"
COVERED, CONFLICT = "covered", "conflict"


class OutboxRow(NamedTuple):
    """One thing to be witnessed by the chain.

    `subject` is the account_id (memory, head) or project_id (state), `position` the number, seq or version,
    `hash` the event hash (hex32), entry hash (64 hex) or state hash (hex32). `next_attempt_at` is a time.
    """

    id: int
    kind: str
    subject: str
    position: int
    account_id: str
    hash: str
    status: str
    attempts: int
    next_attempt_at: str
    reason: str | None
    tx_hash: str | None
    block_number: int | None
    block_hash: str | None
    anchor_id: str | None
    anchored_at: str | None
    created_at: str


COLUMNS = [outbox.c[name] for name in OutboxRow._fields]

_GIVEN = (
    "kind",
    "subject",
    "position",
    "account_id",
    "hash",
    "status",
    "attempts",
    "next_attempt_at",
    "created_at",
)

# Both take what `fresh` makes. ENQUEUE meets a row already at that place with Conflict.
ENQUEUE = Statement(insert(outbox).inline().values({name: bindparam(name) for name in _GIVEN}), *_GIVEN)
ENQUEUE_ONCE = insert_or_ignore(outbox, *_GIVEN)


def fresh(
    kind: str, subject: str, position: int, account_id: str, hash: str, now: str
) -> tuple[str, str, int, str, str, str, int, str, str]:
    """Return the parameters of a new row, due at once."""
    return kind, subject, position, account_id, hash, PENDING, 0, now, now
