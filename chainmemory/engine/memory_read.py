"""Reading memories: lists, search, one memory, the context for a model (api.md, Memories)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from chainmemory.engine import clock
from chainmemory.engine.anchors import why_not
from chainmemory.engine.callers import Caller
from chainmemory.engine.memory_view import header_of, is_whole, item, plaintext_of, summary_of, tags_of
from chainmemory.errors import IntegrityError, NotFound
from chainmemory.store.memories import Memory, MemoryFilter
from chainmemory.store.outbox_rows import ANCHORED, MEMORY, OutboxRow
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault
from chainmemory.vault.search import rank

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

SERVER_SCHEME: Final = "aes-256-gcm:server"
CLIENT_SCHEME: Final = "aes-256-gcm:client"
CONTEXT_LINE: Final = 280  # code points of a memory in the context's summary


def list_memories(
    engine: Engine,
    caller: Caller,
    *,
    limit: int,
    offset: int,
    whole: bool,
    project: str | None = None,
    tag: str | None = None,
    category: str | None = None,
    archived: bool | None = False,
    since: str | None = None,
    until: str | None = None,
) -> dict[str, Any]:
    """Return a page of memories, newest first, and how many match.

    `archived` None means both; `since` (inclusive) and `until` (exclusive) are times compared with
    `occurred_at`.
    """
    vault = engine.vault(caller.account_id)
    where = MemoryFilter(
        project=project,
        tag_token=vault.tag_token(tag) if tag is not None else None,
        category=category,
        archived=archived,
        since=since,
        until=until,
    )
    with engine.db.read() as tx:
        rows, total = tx.memories.list(caller.account_id, where, limit=limit, offset=offset)
    return {"memories": [item(vault, row, whole=whole) for row in rows], "total": total}


def search(
    engine: Engine, caller: Caller, *, query: str, limit: int, project: str | None = None
) -> dict[str, Any]:
    """Return the memories that fit the words of `query` best, best first, each with its `score`."""
    vault = engine.vault(caller.account_id)
    tokens = vault.query_tokens(query)
    with engine.db.read() as tx:
        where = MemoryFilter(project=project)
        candidates = list(tx.memories.candidates(caller.account_id, tokens, where))
        hits = rank(
            tokens, candidates, total=tx.memories.highest_number(caller.account_id), limit=len(candidates)
        )
        rows = tx.memories.by_numbers(caller.account_id, [hit.number for hit in hits[:limit]])
    found = [
        {**item(vault, rows[hit.number], whole=True), "score": round(hit.score, 6)}
        for hit in hits[:limit]
        if hit.number in rows
    ]
    return {"query": query, "memories": found, "total": len(hits)}


def one(engine: Engine, caller: Caller, number: int, *, decrypted: bool = False) -> dict[str, Any]:
    """Return a memory's header, filing and sync status; `decrypted` adds its text and whether all still adds
    up.

    Raises NotFound.
    """
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        row, anchor = load(tx, caller, number)
    shown = _one(vault, row, anchor)
    if decrypted:
        shown["summary"] = summary_of(vault, row)
        shown["integrity_verified"] = is_whole(vault, row)
    return shown


def blob(engine: Engine, caller: Caller, number: int) -> dict[str, Any]:
    """Return the stored ciphertext as it is. Raises NotFound, also for a forgotten memory."""
    with engine.db.read() as tx:
        row, _ = load(tx, caller, number)
    if row.content_blob is None:
        raise NotFound(f"The content of memory {number} was forgotten.", code="forgotten")
    scheme = SERVER_SCHEME if row.wrapped_seed is not None else CLIENT_SCHEME
    return {"blob_b64": base64.b64encode(row.content_blob).decode(), "scheme": scheme}


def context(engine: Engine, caller: Caller, *, limit: int, verified_only: bool) -> dict[str, Any]:
    """Return the newest memories as a context for a model, and a text that lists them.

    A memory is verified if all its hashes add up now and the chain holds it.
    """
    vault = engine.vault(caller.account_id)
    found: list[dict[str, Any]] = []
    with engine.db.read() as tx:
        offset = 0
        while len(found) < limit:
            rows, _ = tx.memories.list(
                caller.account_id, MemoryFilter(archived=False), limit=limit, offset=offset
            )
            if not rows:
                break
            offset += len(rows)
            found += [memory for row in rows if (memory := _context(vault, row, verified_only)) is not None]
    found = found[:limit]
    return {"summary": _digest(found), "memories": found}


def load(tx: Tx, caller: Caller, number: int) -> tuple[Memory, OutboxRow | None]:
    """Return a memory and its way to the chain. Raises NotFound."""
    return tx.memories.get(caller.account_id, number), tx.outbox.get(MEMORY, caller.account_id, number)


def _one(vault: AccountVault, row: Memory, anchor: OutboxRow | None) -> dict[str, Any]:
    header = header_of(row)
    sync: dict[str, Any] = {
        "status": row.sync or "pending",
        "tx_hash": None,
        "block_number": None,
        "anchored_at": None,
    }
    if anchor is not None:
        sync |= {
            "tx_hash": anchor.tx_hash,
            "block_number": anchor.block_number,
            "anchored_at": anchor.anchored_at,
            **why_not(anchor),
        }
    return {
        "memory_number": row.number,
        "memory_id": str(row.number),
        "timestamp": clock.unix_seconds(row.occurred_at),
        "event_hash": row.event_hash,
        "content_hash": header.get("content_hash"),
        "header": header,
        "filing": {
            "category": row.category,
            "tags": tags_of(vault, row),
            "archived": row.archived,
            "superseded_by": row.superseded_by,
        },
        "forgotten": row.forgotten,
        "chain_sync": row.sync or "pending",
        "sync": sync,
    }


def _context(vault: AccountVault, row: Memory, verified_only: bool) -> dict[str, Any] | None:
    try:
        plaintext = plaintext_of(vault, row)
    except IntegrityError:
        return None
    if plaintext is None:
        return None
    verified = row.sync == ANCHORED and is_whole(vault, row)
    if verified_only and not verified:
        return None
    return {
        "timestamp": clock.unix_seconds(row.occurred_at),
        "platform": header_of(row)["source"],
        "summary": plaintext.decode("utf-8", "replace"),
        "verified": verified,
    }


def _digest(memories: list[dict[str, Any]]) -> str:
    if not memories:
        return "There are no memories to show."
    lines = [f"The {len(memories)} newest memories, newest first:"]
    for memory in memories:
        text = " ".join(memory["summary"].split())
        lines.append(f"- {text if len(text) <= CONTEXT_LINE else text[: CONTEXT_LINE - 1] + '…'}")
    return "\n".join(lines)
