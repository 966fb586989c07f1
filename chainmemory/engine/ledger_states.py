"""Recomputing every version of a project's state from its stored ops, for a deep check of the ledger."""

from __future__ import annotations

import orjson

from chainmemory.engine.projects import secret_of
from chainmemory.engine.state_load import SNAPSHOT_EVERY, stored_ops
from chainmemory.errors import IntegrityError
from chainmemory.state.builder import ProjectState, replay
from chainmemory.store.projects import Project
from chainmemory.store.states import Ops
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault
from chainmemory.vault.places import state_doc_place


def failing_versions(tx: Tx, vault: AccountVault, project: Project) -> set[int]:
    """Return the versions that can't be recomputed to their stored hash, and those whose snapshot can't be.

    A version after a failing one can be recomputed from the next snapshot on; until there it fails too.
    """
    failing: set[int] = set()
    try:
        secret = secret_of(vault, project)
    except IntegrityError:
        secret = b""
    state: ProjectState | None = ProjectState.empty(project.project_id) if secret else None
    after = 0
    while page := tx.states.ops(project.project_id, after=after, last=after + SNAPSHOT_EVERY):
        for ops in page:
            state = _next(vault, project, secret, state, ops)
            # Where only the stored hash is wrong, the versions after it still come to theirs.
            whole = state is not None and state.state_hash == ops.state_hash
            if ops.version % SNAPSHOT_EVERY == 0:
                snapshot = _snapshot(tx, vault, project, ops)
                whole = whole and snapshot is not None
                state = (state or snapshot) if secret else None
            if not whole:
                failing.add(ops.version)
        after += SNAPSHOT_EVERY
    return failing


def _next(
    vault: AccountVault, project: Project, secret: bytes, state: ProjectState | None, ops: Ops
) -> ProjectState | None:
    """Return the version that `ops` make of the one before; None where they make none."""
    if state is None:
        return None
    try:
        return replay(
            state,
            stored_ops(vault, project, ops)["applied"],
            consolidated_until_event=ops.consolidated_until_event,
            project_secret=secret,
            version=ops.version,
        )
    except IntegrityError:
        return None


def _snapshot(tx: Tx, vault: AccountVault, project: Project, ops: Ops) -> ProjectState | None:
    """Return a version's snapshot; None where it isn't there or doesn't come to the stored hash."""
    found = tx.states.nearest_snapshot(project.project_id, ops.version)
    if found is None or found.version != ops.version:
        return None
    place = state_doc_place(vault.account_id, project.project_id, found.version)
    try:
        state = ProjectState.from_snapshot(orjson.loads(vault.open(found.doc_blob, found.doc_seed, place)))
    except IntegrityError:
        return None
    return state if state.state_hash == ops.state_hash else None
