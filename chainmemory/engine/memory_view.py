"""Memories as the doors show them."""

from __future__ import annotations

from typing import Any, Final

import orjson

from chainmemory.engine import clock
from chainmemory.errors import IntegrityError
from chainmemory.protocol.event import content_hash, event_hash
from chainmemory.store.memories import Memory
from chainmemory.vault.account import AccountVault
from chainmemory.vault.places import content_place

PREVIEW: Final = 80  # code points


def header_of(row: Memory) -> dict[str, Any]:
    """Return the testimony's header as stored."""
    header: dict[str, Any] = orjson.loads(row.header)
    return header


def tags_of(vault: AccountVault, row: Memory) -> list[str]:
    """Return the tags. Raises IntegrityError."""
    if row.tags_blob is None:
        return []
    tags: list[str] = orjson.loads(vault.open_small(row.tags_blob, "tags", number=row.number))
    return tags


def plaintext_of(vault: AccountVault, row: Memory) -> bytes | None:
    """Return the plaintext; None of a client-sealed or forgotten memory. Raises IntegrityError."""
    if row.content_blob is None or row.wrapped_seed is None:
        return None
    return vault.open(row.content_blob, row.wrapped_seed, content_place(row.account_id, row.number))


def summary_of(vault: AccountVault, row: Memory) -> str | None:
    """Return the text of a memory, for lists: None where it can't be read (the audit says why)."""
    try:
        plaintext = plaintext_of(vault, row)
    except IntegrityError:
        return None
    return None if plaintext is None else plaintext.decode("utf-8", "replace")


def is_whole(vault: AccountVault, row: Memory) -> bool:
    """Recompute the event hash, and the content hash where this server can read the content."""
    try:
        header = header_of(row)
        if event_hash(header) != row.event_hash or header["number"] != row.number:
            return False
        plaintext = plaintext_of(vault, row)
    except (IntegrityError, orjson.JSONDecodeError, KeyError, TypeError):
        return False
    return plaintext is None or content_hash(plaintext) == header["content_hash"]


def item(vault: AccountVault, row: Memory, *, whole: bool) -> dict[str, Any]:
    """Return a memory as lists show it; `summary` is null unless `whole`."""
    header = header_of(row)
    summary = summary_of(vault, row)
    return {
        "memory_number": row.number,
        "id": str(row.number),
        "timestamp": clock.unix_seconds(row.occurred_at),
        "category": row.category,
        "importance": row.importance,
        "project": row.project,
        "tags": tags_of(vault, row),
        "archived": row.archived,
        "source": header["source"],
        "event_hash": row.event_hash,
        "content_hash": header.get("content_hash"),
        "chain_sync": row.sync or "pending",
        "summary": summary if whole else None,
        "summary_preview": None if summary is None else summary[:PREVIEW],
        "occurred_at": row.occurred_at,
        "provenance": header["provenance"],
    }
