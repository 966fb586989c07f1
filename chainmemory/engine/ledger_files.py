"""The use cases of agents kept as files: verify, seal, anchor (api.md, Ledger)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chainmemory.engine.clock import now, unix_now
from chainmemory.engine.ledger_heads import anchored_heads
from chainmemory.engine.runtime import Engine
from chainmemory.engine.shapes import Boolean, Record, Text, need
from chainmemory.errors import Conflict, NotFound, Unavailable
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.tenant import Tenant, held
from chainmemory.ledger.tenant_check import as_json, check, read_twice
from chainmemory.ledger.tenant_write import adopt
from chainmemory.ledger.verdicts import Report
from chainmemory.protocol.identity import file_tenant_id, ledger_id
from chainmemory.store.outbox_rows import HEAD

PATIENCE_S = 10.0
"""How long a request waits for another writer of the same agent."""
AGENT = Text(
    1,
    64,
    pattern="[a-z0-9][a-z0-9._-]{0,63}",
    note="an agent's folder: 1 to 64 characters of a-z, 0-9, '.', '_' and '-', first a letter or digit",
)
VERIFY = Record({"agent_id": need(AGENT), "deep": Boolean()})
SEAL = Record({"agent_id": need(AGENT), "root": Text(1, 4096)})


def verify_files(engine: Engine, *, agent_id: str, deep: bool | None) -> dict[str, Any]:
    """Check an agent's ledger and records, and its heads on chain. Raises NotFound, Conflict, Unavailable."""
    found = anchored_heads(engine, file_tenant_id(agent_id))
    heads = found.by_position if found is not None else None
    with _held(engine, agent_id) as tenant:
        report = check(tenant, heads=heads, read=read_twice if deep else read_file_line)
    return as_json(agent_id, report, heads, found.tx_hash if found is not None else None)


def seal_files(engine: Engine, *, agent_id: str, root: str | None) -> dict[str, Any]:
    """Adopt an agent's unsealed records; `root` is where the caller believes the agents to be.

    Raises NotFound, Unavailable, and Conflict: `ledger_broken`, `head_missing`, `other_root`.
    """
    _check_root(engine, root)
    found = anchored_heads(engine, file_tenant_id(agent_id))
    heads = found.by_position if found is not None else None
    with _held(engine, agent_id) as tenant:
        adopted, report = adopt(tenant, now=unix_now(), heads=heads)
    told = as_json(agent_id, report, heads, found.tx_hash if found is not None else None)
    return {"sealed": adopted, "report": told}


def anchor_files(engine: Engine, *, agent_id: str, root: str | None) -> dict[str, Any]:
    """Put an agent's head in the queue for the chain, once, and say how far it is.

    The worker sends it like an account's head: nobody else spends the signer's nonces.
    Raises NotFound, Unavailable (the chain can't be asked what it holds already), and Conflict:
    `ledger_broken`, `ledger_empty`, `head_missing`, `other_root`.
    """
    _check_root(engine, root)
    with _held(engine, agent_id):
        pass  # an agent that isn't there is told before a chain that isn't
    subject = file_tenant_id(agent_id)
    found = anchored_heads(engine, subject)
    if found is None:
        raise Unavailable(
            "The chain can't be asked what it holds of this ledger, so nothing is anchored; try again soon.",
            code="chain_unavailable",
        )
    with _held(engine, agent_id) as tenant:
        report = check(tenant, heads=found.by_position)
    _check_fit_to_anchor(agent_id, report, as_json(agent_id, report, found.by_position, found.tx_hash))
    assert report.walk.head is not None, "an intact ledger has a head"
    seq, entry_hash = report.walk.head
    with engine.db.write() as tx:
        tx.outbox.enqueue_head(subject, seq, entry_hash, now=now())
        row = tx.outbox.get(HEAD, subject, seq)
    assert row is not None, "it was just put there"
    if row.hash != entry_hash:
        # The queue is first come, as the contract is: a ledger rewritten meanwhile takes no one's place.
        raise Conflict(
            f"Another entry {seq} of {agent_id} is on its way to the chain: this ledger was rewritten since.",
            code="head_missing",
        )
    return {
        "agent_id": agent_id,
        "ledger_id": ledger_id(subject),
        "seq": seq,
        "hash": entry_hash,
        "anchor": {
            "status": row.status,
            "tx_hash": row.tx_hash,
            "block_number": row.block_number,
            "reason": row.reason,
        },
    }


def _check_root(engine: Engine, root: str | None) -> None:
    if root is not None and os.path.realpath(root) != os.path.realpath(engine.settings.agents_dir):
        raise Conflict(
            "This server keeps its agents in another folder, so it did nothing. Set its "
            "CHAINMEMORY_AGENTS_DIR, or stop it to seal the files without it.",
            code="other_root",
            field="root",
        )


def _check_fit_to_anchor(agent_id: str, report: Report, told: dict[str, Any]) -> None:
    walk = report.walk
    if walk.chain == "empty":
        raise Conflict(f"The ledger of {agent_id} is empty; seal something first.", code="ledger_empty")
    if walk.chain == "broken":
        raise Conflict(
            f"The ledger of {agent_id} is broken (line {walk.broken_at}: {walk.reason}); it isn't anchored.",
            code="ledger_broken",
            details={"report": told},
        )
    if walk.heads_missing:
        raise Conflict(
            f"The ledger of {agent_id} lacks the anchored head at {walk.heads_missing[0]}: it was cut or "
            "rewritten, so it isn't anchored.",
            code="head_missing",
            details={"report": told},
        )


@contextmanager
def _held(engine: Engine, agent_id: str) -> Iterator[Tenant]:
    root = engine.settings.agents_dir
    if not root.is_dir():
        raise NotFound(
            "This server keeps no agents as files: CHAINMEMORY_AGENTS_DIR names no folder.", code="no_agents"
        )
    with held(root, agent_id, patience_s=PATIENCE_S) as tenant:
        yield tenant
