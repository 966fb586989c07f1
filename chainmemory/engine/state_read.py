"""Reading a project's state: a version, the history, differences, evidence, the brief (api.md, Project
state)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from chainmemory.engine.anchors import anchor_of
from chainmemory.engine.callers import Caller
from chainmemory.engine.projects import require
from chainmemory.engine.state_load import rebuilt, state_at, stored_ops
from chainmemory.errors import IntegrityError, NotFound
from chainmemory.state.builder import ProjectState
from chainmemory.state.document import SCALARS, SCHEMA_VERSION
from chainmemory.store.outbox_rows import STATE
from chainmemory.store.projects import Project

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

MOST_VERSIONS: Final = 200


def state(engine: Engine, caller: Caller, slug: str, version: int | None) -> dict[str, Any]:
    """Return one version, rebuilt and checked against its hash. Raises NotFound, IntegrityError."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = require(tx, caller.account_id, slug)
        found = state_at(engine, tx, vault, project, version)
        stored = tx.states.get(project.project_id, found.version)
        anchor = tx.outbox.get(STATE, project.project_id, found.version)
    return {
        "project": slug,
        "schema_version": SCHEMA_VERSION,
        "version": found.version,
        "state_hash": found.state_hash,
        "generated_at": stored.generated_at if stored is not None else None,
        "anchor": anchor_of(anchor),
        "state": found.document,
    }


def versions(engine: Engine, caller: Caller, slug: str, *, limit: int, offset: int) -> dict[str, Any]:
    """Return a page of the state's versions, newest first. Raises NotFound."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = require(tx, caller.account_id, slug)
        rows = tx.states.list(project.project_id, before=project.version - offset + 1, limit=limit)
    page = []
    for row in rows:
        by = None
        if row.generated_by_blob is not None:
            by = vault.open_small(
                row.generated_by_blob, "generated_by", project_id=row.project_id, version=row.version
            ).decode()
        page.append(
            {
                "version": row.version,
                "state_hash": row.state_hash,
                "previous_state_hash": row.previous_state_hash,
                "generated_at": row.generated_at,
                "generated_by": by,
                "ops_count": row.ops_count,
                "anchor": {"status": row.anchor},
            }
        )
    return {"project": slug, "versions": page, "total": project.version}


def ops(engine: Engine, caller: Caller, slug: str, version: int | None) -> dict[str, Any]:
    """Return the ops that made a version: applied as resolved, rejected as given. Raises NotFound."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = require(tx, caller.account_id, slug)
        number = _existing(project, version)
        rows = tx.states.ops(project.project_id, after=number - 1, last=number)
        if not rows:
            raise IntegrityError(f"The ops of version {number} are missing.")
        found = stored_ops(vault, project, rows[0])
        stored = tx.states.get(project.project_id, number)
    return {
        "project": slug,
        "version": number,
        "state_hash": rows[0].state_hash,
        "consolidated_until_event": rows[0].consolidated_until_event,
        "generated_at": stored.generated_at if stored is not None else None,
        "applied": found["applied"],
        "rejected": found["rejected"],
    }


def evidence(
    engine: Engine,
    caller: Caller,
    slug: str,
    item_id: str,
    version: int | None,
    *,
    limit: int,
    offset: int,
) -> dict[str, Any]:
    """Return the memories behind an item of a version, each with an inclusion proof, by number.

    Raises NotFound (no such project, version or item), IntegrityError.
    """
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = require(tx, caller.account_id, slug)
        found = state_at(engine, tx, vault, project, version)
        root = _evidence_root(found, item_id)
        tree = found.cited.get(item_id)
        cited = sorted(
            {one.number for one in tx.states.cited_for(project.project_id, item_id, last=found.version)}
        )
        page = cited[offset : offset + limit]
        rows = tx.memories.by_numbers(caller.account_id, page)
    shown = []
    for number in page:
        row = rows.get(number)
        if tree is None or row is None or row.event_hash not in tree:
            raise IntegrityError(
                f"Memory {number} is cited for {item_id}, but its event hash isn't in the tree."
            )
        proof = tree.proof(row.event_hash)
        shown.append(
            {
                "memory_number": number,
                "event_hash": row.event_hash,
                "chain_sync": row.sync or "pending",
                "forgotten": row.forgotten,
                "proof": {"index": proof.index, "size": proof.size, "path": proof.path},
            }
        )
    return {
        "project": slug,
        "item_id": item_id,
        "version": found.version,
        "evidence_root": root,
        "evidence": shown,
        "total": len(cited),
    }


def audit(engine: Engine, caller: Caller, slug: str, *, dry_run: bool) -> dict[str, Any]:
    """Rebuild the current version from the stored ops and compare; it writes nothing, dry run or not.

    Raises NotFound.
    """
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = require(tx, caller.account_id, slug)
        stored = project.state_hash if project.version else None
        computed: str | None = None
        if project.version:
            try:
                computed = rebuilt(tx, vault, project, project.version).state_hash
            except IntegrityError as error:
                computed = error.details.get("computed")
        history = tx.states.list(project.project_id, limit=MOST_VERSIONS)
        anchor = tx.outbox.get(STATE, project.project_id, project.version)
        memories = tx.projects.memory_counts(caller.account_id).get(slug, 0)
    return {
        "project": slug,
        "current_version": project.version,
        "dry_run": dry_run,
        "hash_verification": {
            "status": "match" if computed == stored else "mismatch",
            "stored": stored,
            "computed": computed,
        },
        "anchor": anchor_of(anchor),
        "total_memories": memories,
        "version_history": [
            {
                "version": row.version,
                "state_hash": row.state_hash,
                "generated_at": row.generated_at,
                "ops_count": row.ops_count,
                "anchor": {"status": row.anchor},
            }
            for row in history
        ],
        "fee_charged": 0,
    }


def _existing(project: Project, version: int | None) -> int:
    number = project.version if version is None else version
    if not 1 <= number <= project.version:
        raise NotFound(
            f"The project {project.slug} has no version {number}; the latest is {project.version}.",
            field="version",
        )
    return number


def _evidence_root(found: ProjectState, item_id: str) -> str:
    """Return the root that the document gives for an item or a scalar. Raises NotFound."""
    document = found.document
    if item_id in SCALARS:
        known = document["provenance"][item_id]
        if known is not None:
            return str(known["evidence_root"])
    else:
        arrays = [value for value in document.values() if isinstance(value, list)]
        arrays += list(document["environment"].values())
        for array in arrays:
            for item in array:
                if item["id"] == item_id:
                    return str(item["evidence_root"])
    raise NotFound(f"Version {found.version} has no item {item_id[:80]}.", field="item_id")
