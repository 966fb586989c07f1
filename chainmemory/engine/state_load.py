"""Any version of a project's state: from the cache, or rebuilt from a snapshot and the ops after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from chainmemory.engine.projects import secret_of
from chainmemory.errors import IntegrityError, NotFound
from chainmemory.protocol.canonical import canonical
from chainmemory.state.builder import ProjectState, replay
from chainmemory.store.projects import Project
from chainmemory.store.states import Ops
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault
from chainmemory.vault.places import state_doc_place, state_ops_place

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

SNAPSHOT_EVERY: Final = 50
"""Versions between two snapshots: a rebuild replays fewer than this."""


def current_state(engine: Engine, tx: Tx, vault: AccountVault, project: Project) -> ProjectState:
    """Return the project's current state, as of the transaction that read `project`.

    Raises IntegrityError where what is stored doesn't come to the stored hash.
    """
    known = engine.states.get(project.project_id)
    if known is not None and known.version == project.version and known.state_hash == project.state_hash:
        return known
    if project.version == 0:
        return ProjectState.empty(project.project_id)
    state = _rebuild(tx, vault, project, project.version, known)
    _compare(project.version, state.state_hash, project.state_hash)
    engine.states.put(project.project_id, state, len(canonical(state.document)))
    return state


def state_at(
    engine: Engine, tx: Tx, vault: AccountVault, project: Project, version: int | None, field: str = "version"
) -> ProjectState:
    """Return one version, by default the current one. Raises IntegrityError, and NotFound, which says that
    `field` asks for it.
    """
    if version is None or version == project.version:
        return current_state(engine, tx, vault, project)
    if version == 0:
        return ProjectState.empty(project.project_id)
    if version > project.version:
        raise NotFound(
            f"The project {project.slug} has no version {version}; the latest is {project.version}.",
            field=field,
        )
    return rebuilt(tx, vault, project, version)


def rebuilt(tx: Tx, vault: AccountVault, project: Project, version: int) -> ProjectState:
    """Return one version rebuilt from what is stored, never from the cache. Raises IntegrityError."""
    return _rebuild(tx, vault, project, version, None)


def stored_ops(vault: AccountVault, project: Project, ops: Ops) -> dict[str, Any]:
    """Decrypt the ops of one version: `{"applied": resolved ops, "rejected": […]}`. Raises IntegrityError."""
    place = state_ops_place(vault.account_id, project.project_id, ops.version)
    found: dict[str, Any] = orjson.loads(vault.open(ops.ops_blob, ops.ops_seed, place))
    return found


def seal_ops(vault: AccountVault, project_id: str, version: int, ops: dict[str, Any]) -> tuple[bytes, bytes]:
    """Encrypt the ops of one version; return (blob, seed)."""
    sealed = vault.seal(orjson.dumps(ops), state_ops_place(vault.account_id, project_id, version))
    return sealed.blob, sealed.wrapped_seed


def seal_snapshot(vault: AccountVault, project_id: str, state: ProjectState) -> tuple[bytes, bytes]:
    """Encrypt a snapshot; return (seed, blob)."""
    place = state_doc_place(vault.account_id, project_id, state.version)
    sealed = vault.seal(orjson.dumps(state.to_snapshot()), place)
    return sealed.wrapped_seed, sealed.blob


def _rebuild(
    tx: Tx, vault: AccountVault, project: Project, version: int, known: ProjectState | None
) -> ProjectState:
    state = known if known is not None and _is_stored(tx, project, known, version) else None
    snapshot = tx.states.nearest_snapshot(project.project_id, version)
    if snapshot is not None and (state is None or state.version < snapshot.version):
        place = state_doc_place(vault.account_id, project.project_id, snapshot.version)
        state = ProjectState.from_snapshot(
            orjson.loads(vault.open(snapshot.doc_blob, snapshot.doc_seed, place))
        )
        stored = tx.states.get(project.project_id, snapshot.version)
        _compare(snapshot.version, state.state_hash, stored.state_hash if stored else None)
    if state is None:
        state = ProjectState.empty(project.project_id)
    secret = secret_of(vault, project)
    for ops in tx.states.ops(project.project_id, after=state.version, last=version):
        state = replay(
            state,
            stored_ops(vault, project, ops)["applied"],
            consolidated_until_event=ops.consolidated_until_event,
            project_secret=secret,
            version=ops.version,
        )
        _compare(ops.version, state.state_hash, ops.state_hash)
    if state.version != version:
        raise IntegrityError(f"Version {version} can't be rebuilt: its ops are missing.")
    return state


def _is_stored(tx: Tx, project: Project, known: ProjectState, before: int) -> bool:
    """Say whether a cached state is an earlier version of what is stored: a rebuild can start there."""
    if not 0 < known.version < before:
        return False
    stored = tx.states.get(project.project_id, known.version)
    return stored is not None and stored.state_hash == known.state_hash


def _compare(version: int, computed: str, stored: str | None) -> None:
    if computed != stored:
        raise IntegrityError(
            f"Version {version} comes to the hash {computed}, but {stored} is stored: something was changed.",
            code="state_mismatch",
            details={"version": version, "computed": computed, "stored": stored},
        )
