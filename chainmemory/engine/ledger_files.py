"""The use cases of agents kept as files: verify and seal (api.md, Ledger)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chainmemory.engine.clock import unix_now
from chainmemory.engine.runtime import Engine
from chainmemory.engine.shapes import Boolean, Record, Text, need
from chainmemory.errors import Conflict, NotFound
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.tenant import Tenant, held
from chainmemory.ledger.tenant_check import as_json, check, read_twice
from chainmemory.ledger.tenant_write import adopt

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
    """Check an agent's ledger and records. Raises NotFound, Conflict, Unavailable."""
    with _held(engine, agent_id) as tenant:
        report = check(tenant, read=read_twice if deep else read_file_line)
    return as_json(agent_id, report)


def seal_files(engine: Engine, *, agent_id: str, root: str | None) -> dict[str, Any]:
    """Adopt an agent's unsealed records; `root` is where the caller believes the agents to be.

    Raises NotFound, Unavailable, and Conflict: `ledger_broken`, `head_missing`, `other_root`.
    """
    ours = engine.settings.agents_dir
    if root is not None and os.path.realpath(root) != os.path.realpath(ours):
        raise Conflict(
            "This server keeps its agents in another folder, so it sealed nothing. Set its "
            "CHAINMEMORY_AGENTS_DIR, or stop it to seal the files without it.",
            code="other_root",
            field="root",
        )
    with _held(engine, agent_id) as tenant:
        adopted, report = adopt(tenant, now=unix_now())
    return {"sealed": adopted, "report": as_json(agent_id, report)}


@contextmanager
def _held(engine: Engine, agent_id: str) -> Iterator[Tenant]:
    root = engine.settings.agents_dir
    if not root.is_dir():
        raise NotFound(
            "This server keeps no agents as files: CHAINMEMORY_AGENTS_DIR names no folder.", code="no_agents"
        )
    with held(root, agent_id, patience_s=PATIENCE_S) as tenant:
        yield tenant
