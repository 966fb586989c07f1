"""Proving a memory: where the chain holds it, and whether everything stored still adds up."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from chainmemory.engine.callers import Caller
from chainmemory.engine.memory_read import load
from chainmemory.engine.memory_view import header_of, plaintext_of
from chainmemory.errors import IntegrityError, NotFound, Unavailable
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import content_hash, event_hash
from chainmemory.protocol.hashing import ZERO
from chainmemory.protocol.identity import account_ref
from chainmemory.protocol.ledger_entry import entry_hash
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import Memory
from chainmemory.store.outbox_rows import ANCHORED, OutboxRow
from chainmemory.store.tx import Tx

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

PAGE: Final = 500
HOW_TO_VERIFY: Final = (
    "1. Take the header from GET /v1/memory/{n} and compute SHA3-256 over "
    '"CM_MEMORY_EVENT_V1", a zero byte and the header\'s canonical JSON (RFC 8785): that is event_hash. '
    "2. On the contract MemoryRegistry at `contract`, find the event of transaction chain_tx whose "
    "accountRef is {account_ref} and whose number is {n}: its eventHash must be the same. "
    "3. batch_root is the evidence root (docs/protocol.md §6) over all event hashes of that batch; "
    "rootOf(accountRef, first number) returns it."
)


def proof(engine: Engine, caller: Caller, number: int) -> dict[str, Any]:
    """Return where the chain holds a memory, and how anybody checks it. Raises NotFound."""
    with engine.db.read() as tx:
        row, anchor = load(tx, caller, number)
    ref = account_ref(caller.account_id)
    anchored = anchor is not None and anchor.status == ANCHORED
    chain_id, contract, root = _on_chain(engine, caller.account_id, anchor if anchored else None)
    return {
        "memory_number": number,
        "anchored": anchored,
        "event_hash": row.event_hash,
        "chain_memory_id": chain_memory_id(ref, anchor),
        "chain_tx": anchor.tx_hash if anchor is not None else None,
        "block_number": anchor.block_number if anchor is not None else None,
        "batch_root": root,
        "chain_id": chain_id,
        "contract": contract,
        "how_to_verify": HOW_TO_VERIFY.replace("{n}", str(number)).replace("{account_ref}", ref),
    }


def audit(engine: Engine, caller: Caller, number: int, *, dry_run: bool) -> dict[str, Any]:
    """Recompute everything about a memory and return what matches. It writes nothing, dry run or not.

    Raises NotFound.
    """
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        row, anchor = load(tx, caller, number)
        entry = _sealing_entry(tx, caller.account_id, number)
    header = _header(row)
    computed = event_hash(header) if header is not None else None
    matches = header is not None and computed == row.event_hash and header.get("number") == number
    if matches and header is not None:
        try:
            plaintext = plaintext_of(vault, row)
            matches = plaintext is None or content_hash(plaintext) == header.get("content_hash")
        except IntegrityError:
            matches = False
    return {
        "memory_number": number,
        "category": row.category,
        "dry_run": dry_run,
        "hash": {
            "status": "match" if matches else "mismatch",
            "stored_hash": row.event_hash,
            "computed_hash": computed,
        },
        "chain": _chain(engine, caller.account_id, row, anchor),
        "ledger": {"verdict": _verdict(row, entry), "seq": entry.seq if entry is not None else None},
        "fee_charged": 0,
    }


def chain_memory_id(ref: str, anchor: OutboxRow | None) -> str | None:
    """Return how the registry names a memory, `account_ref/number`; None before it is on chain."""
    return f"{ref}/{anchor.position}" if anchor is not None and anchor.status == ANCHORED else None


def _on_chain(
    engine: Engine, account_id: str, anchor: OutboxRow | None
) -> tuple[int | None, str | None, str | None]:
    """Return chain id, registry address and batch root; None where the chain can't say."""
    try:
        contracts = engine.chain.contracts()
    except (Unavailable, NotFound):
        return None, None, None
    root = None
    if anchor is not None and anchor.anchor_id is not None:
        try:
            found = engine.chain.batch_root(account_id, int(anchor.anchor_id))
            root = None if found == ZERO else found
        except (Unavailable, NotFound):
            root = None
    return contracts.chain_id, contracts.registry.address, root


def _chain(engine: Engine, account_id: str, row: Memory, anchor: OutboxRow | None) -> dict[str, Any]:
    """Compare with the registry: `anchored` (it logged this very hash), `mismatch`, `missing`, `unknown` (the
    chain can't be reached), or how far the memory is."""
    ref = account_ref(account_id)
    status = anchor.status if anchor is not None else "missing"
    if anchor is not None and anchor.status == ANCHORED:
        try:
            logged = engine.chain.recorded_hash(ref, row.number, from_block=anchor.block_number)
        except (Unavailable, NotFound):
            status = "unknown"
        else:
            status = "missing" if logged is None else "anchored" if logged == row.event_hash else "mismatch"
    return {
        "status": status,
        "chain_memory_id": chain_memory_id(ref, anchor),
        "chain_tx": anchor.tx_hash if anchor is not None else None,
    }


def _header(row: Memory) -> dict[str, Any] | None:
    try:
        header = header_of(row)
    except orjson.JSONDecodeError:
        return None
    return header if isinstance(header, dict) else None


def _verdict(row: Memory, entry: LedgerRow | None) -> str:
    """Return the protocol's verdict on this record by its own entry (the walk over the chain is
    /v1/ledger/verify)."""
    if entry is None:
        return "unsealed"
    sealed = orjson.loads(entry.entry)
    header = _header(row)
    whole = (
        header is not None
        and entry_hash(sealed) == sealed.get("hash") == entry.hash
        and sealed.get("content_sha256") == hashlib.sha256(canonical(header)).hexdigest()
        and isinstance(row.content_blob, bytes)  # a damaged SQLite may hold anything
        and sealed.get("blob_sha256") == hashlib.sha256(row.content_blob).hexdigest()
    )
    return "sealed" if whole else "altered"


def _sealing_entry(tx: Tx, account_id: str, number: int) -> LedgerRow | None:
    """Find the entry that sealed a memory.

    Saves are in the ledger in order of number, each after at least as many entries as there were memories
    before, so the search starts at seq = number and leaps by as many saves as are still to come.
    """
    first = number
    while rows := tx.ledger.entries(account_id, first=first, limit=PAGE):
        last_saved = 0
        for row in rows:
            entry = orjson.loads(row.entry)
            if entry.get("op") not in ("save", "adopt"):
                continue
            if entry.get("memory_id") == str(number):
                return row
            if entry["op"] == "save" and str(entry.get("memory_id")).isdigit():
                last_saved = int(entry["memory_id"])
        first = rows[-1].seq + max(1, number - last_saved if 0 < last_saved < number else 1)
    return None
