"""Saving memories: text or JSON sealed here, or a blob the client sealed (protocol §3–§5)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chainmemory.engine import clock
from chainmemory.engine.callers import Caller
from chainmemory.engine.memory_input import (
    BATCH,
    CLIENT_BLOB_OVERHEAD,
    DEFAULT_CATEGORY,
    DEFAULT_IMPORTANCE,
    DEFAULT_SOURCE,
    MAX_CONTENT_BYTES,
    SAVE,
    SEALED,
    Content,
    too_large,
)
from chainmemory.engine.once import Once, Written, write
from chainmemory.engine.projects import ensure_open
from chainmemory.errors import ChainMemoryError, Invalid, Unavailable
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import DEFAULT_KIND, build_header
from chainmemory.protocol.hashing import hex32, tagged_hash
from chainmemory.protocol.ledger_entry import make_entry
from chainmemory.store.accounts import Head
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import MemoryRow
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault
from chainmemory.vault.places import content_place

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

# What `save`, `save_batch` and `save_sealed` take, beside them.
__all__ = [
    "BATCH",
    "SAVE",
    "SEALED",
    "Save",
    "save",
    "save_batch",
    "save_each",
    "save_now",
    "save_sealed",
    "seal_tags",
]

EVENT_TAG: Final = "CM_MEMORY_EVENT_V1"


@dataclass(frozen=True, slots=True)
class NewMemory:
    """One memory about to be saved, everything but its place decided."""

    content_hash: str
    content_length: int
    content_type: str
    content: Content | None
    client_blob: bytes | None
    tags: list[str]
    project: str | None
    category: str
    importance: int
    source: str
    kind: str
    subject: dict[str, str] | None
    provenance: dict[str, str] | None
    occurred_at: str | None


def save(engine: Engine, caller: Caller, once: Once | None, fields: dict[str, Any]) -> Written:
    """Save one memory (`fields` as SAVE returns them) and return its answer.

    Raises Conflict (`project_archived`, `idempotency_conflict`).
    """
    new, vault = [_from_fields(fields)], engine.vault(caller.account_id)
    return write(engine, caller, once, lambda tx: _append(vault, tx, new)[0], numbers=_own_number)


@dataclass(frozen=True, slots=True)
class Save:
    """One save of `save_each`: who saves, and what (as SAVE returns it)."""

    caller: Caller
    fields: dict[str, Any]


def save_each(engine: Engine, saves: Sequence[Save]) -> list[Written | Exception]:
    """Save several memories, of whatever accounts, that have nothing to do with each other.

    They share one transaction where none of them is refused; otherwise each gets one of its own. Returns an
    answer or an exception for each, in order.
    """
    try:
        return list(engine.db.transact(_together(engine, saves)))
    except Unavailable as error:
        return [error] * len(saves)
    except ChainMemoryError as error:
        if len(saves) == 1:
            return [error]
    return [_save_alone(engine, one) for one in saves]


def save_now(engine: Engine, one: Save, *, wait_s: float) -> Written:
    """Save one memory if the turn to write comes within `wait_s`, for a caller that must not be kept waiting.

    Raises Unavailable, with nothing saved, where it doesn't; else as `save`.
    """
    (written,) = engine.db.transact_now(_together(engine, [one]), wait_s=wait_s)
    return written


def _together(engine: Engine, saves: Sequence[Save]) -> Callable[[Tx], list[Written]]:
    """Prepare saves for one transaction."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(saves):
        places.setdefault(one.caller.account_id, []).append(place)
    # Accounts are locked in one order, whoever else saves for the same ones.
    works = [
        (engine.vault(account_id), mine, [_from_fields(saves[place].fields) for place in mine])
        for account_id, mine in sorted(places.items())
    ]

    def work(tx: Tx) -> list[Written]:
        answers: dict[int, Written] = {}
        for vault, mine, new in works:
            for place, answer in zip(mine, _append(vault, tx, new), strict=True):
                answers[place] = Written(answer)
        return [answers[place] for place in range(len(saves))]

    return work


def _save_alone(engine: Engine, one: Save) -> Written | Exception:
    try:
        return save(engine, one.caller, None, one.fields)
    except ChainMemoryError as error:
        return error


def save_batch(engine: Engine, caller: Caller, once: Once | None, fields: dict[str, Any]) -> Written:
    """Save all of up to 500 memories in one transaction, or none."""
    new, vault = [_from_fields(one) for one in fields["memories"]], engine.vault(caller.account_id)
    return write(
        engine,
        caller,
        once,
        lambda tx: {"memories": _append(vault, tx, new)},
        numbers=lambda answer: (
            answer["memories"][0]["memory_number"],
            answer["memories"][-1]["memory_number"],
        ),
    )


def save_sealed(engine: Engine, caller: Caller, once: Once | None, fields: dict[str, Any]) -> Written:
    """Save a blob that the client encrypted; the server vouches only that it doesn't change."""
    blob, length = fields["blob_b64"], fields["plain_len"]
    if length > MAX_CONTENT_BYTES:
        raise too_large("plain_len", length)
    if blob[:1] != b"\x02" or len(blob) != length + CLIENT_BLOB_OVERHEAD:
        raise Invalid(
            f"blob_b64 must hold the byte 0x02, then plain_len + {CLIENT_BLOB_OVERHEAD - 1} = "
            f"{length + CLIENT_BLOB_OVERHEAD - 1} bytes; it has {len(blob)} bytes in all.",
            field="blob_b64",
        )
    new = [
        NewMemory(
            content_hash=fields["event_hash"],
            content_length=length,
            content_type="text/plain",
            content=None,
            client_blob=blob,
            kind=DEFAULT_KIND,
            subject=None,
            provenance=None,
            occurred_at=None,
            **_filing(fields),
        )
    ]
    vault = engine.vault(caller.account_id)
    return write(engine, caller, once, lambda tx: _append(vault, tx, new)[0], numbers=_own_number)


def _from_fields(fields: dict[str, Any]) -> NewMemory:
    content: Content = fields["content"] or fields["summary"]
    return NewMemory(
        content_hash=hex32(hashlib.sha256(content.body).digest()),
        content_length=len(content.body),
        content_type=content.media,
        content=content,
        client_blob=None,
        kind=fields["kind"] or DEFAULT_KIND,
        subject=fields["subject"],
        provenance=fields["provenance"],
        occurred_at=fields["occurred_at"],
        **_filing(fields),
    )


def _filing(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "tags": list(dict.fromkeys(fields["tags"] or ())),
        "project": fields["project"],
        "category": fields["category"] or DEFAULT_CATEGORY,
        "importance": fields["importance"] or DEFAULT_IMPORTANCE,
        "source": fields["platform"] or DEFAULT_SOURCE,
    }


def _append(vault: AccountVault, tx: Tx, new: Sequence[NewMemory]) -> list[dict[str, Any]]:
    """Append the memories with their ledger entries and outbox rows; return each one's answer."""
    for slug in sorted({memory.project for memory in new if memory.project is not None}):
        ensure_open(tx, vault, slug)
    recorded_at = clock.now()

    def build(head: Head) -> list[tuple[MemoryRow, LedgerRow]]:
        pairs = []
        previous = head.ledger_hash
        for offset, memory in enumerate(new, start=1):
            row, header = _sealed_row(vault, memory, head.memory_count + offset, recorded_at)
            entry = _entry(previous, head.ledger_seq + offset, row, header)
            previous = entry.hash
            pairs.append((row, entry))
        return pairs

    pairs = tx.memories.append_batch(vault.account_id, len(new), build)
    return [_saved(memory, row, entry) for memory, (row, entry) in zip(new, pairs, strict=True)]


def _sealed_row(
    vault: AccountVault, memory: NewMemory, number: int, recorded_at: str
) -> tuple[MemoryRow, bytes]:
    """Return the row to store, and its header in canonical form."""
    header = canonical(
        build_header(
            account_id=vault.account_id,
            number=number,
            project=memory.project,
            kind=memory.kind,
            category=memory.category,
            importance=memory.importance,
            source=memory.source,
            subject=memory.subject,
            provenance=memory.provenance,
            occurred_at=memory.occurred_at or recorded_at,
            recorded_at=recorded_at,
            content_type=memory.content_type,
            content_length=memory.content_length,
            content_hash=memory.content_hash,
            sealed_by="client" if memory.client_blob is not None else "server",
            salt=hex32(secrets.token_bytes(32)),
        )
    )
    blob, wrapped_seed, search_tokens = memory.client_blob, None, None
    if memory.content is not None:
        sealed = vault.seal(memory.content.body, content_place(vault.account_id, number))
        blob, wrapped_seed = sealed.blob, sealed.wrapped_seed
        search_tokens = vault.search_tokens(memory.content.text)
    row = MemoryRow(
        account_id=vault.account_id,
        number=number,
        event_hash=hex32(tagged_hash(EVENT_TAG, header)),
        project=memory.project,
        category=memory.category,
        importance=memory.importance,
        source=memory.source,
        kind=memory.kind,
        occurred_at=memory.occurred_at or recorded_at,
        recorded_at=recorded_at,
        header=header.decode(),
        content_blob=blob,
        wrapped_seed=wrapped_seed,
        tags_blob=seal_tags(vault, number, memory.tags),
        tag_tokens=vault.tag_tokens(memory.tags) if memory.tags else None,
        search_tokens=search_tokens,
    )
    return row, header


def _entry(previous: str, seq: int, row: MemoryRow, header: bytes) -> LedgerRow:
    """Return the ledger entry that seals a row (protocol §5)."""
    assert row.content_blob is not None
    entry = make_entry(
        previous,
        seq,
        row.recorded_at,
        "save",
        memory_id=str(row.number),
        content_sha256=hashlib.sha256(header).hexdigest(),
        blob_sha256=hashlib.sha256(row.content_blob).hexdigest(),
    )
    return LedgerRow(row.account_id, seq, entry["hash"], canonical(entry).decode())


def _saved(memory: NewMemory, row: MemoryRow, entry: LedgerRow) -> dict[str, Any]:
    return {
        "memory_number": row.number,
        "memory_id": str(row.number),
        "event_hash": row.event_hash,
        "content_hash": memory.content_hash,
        "tags": memory.tags,
        "project": row.project,
        "tier": "episodic",
        "chain_sync": "pending",
        "chain_memory_id": None,
        "trust": "server_sealed" if memory.client_blob is None else "client_sealed",
        "ledger_seq": entry.seq,
        "ledger_hash": entry.hash,
    }


def _own_number(answer: dict[str, Any]) -> tuple[int, int]:
    return answer["memory_number"], answer["memory_number"]


def seal_tags(vault: AccountVault, number: int, tags: Sequence[str]) -> bytes | None:
    """Return the encrypted tags of a memory; None for none."""
    return vault.seal_small(canonical(list(tags)), "tags", number=number) if tags else None
