"""Applying operations to a project's state (grammar.md, "Applying a call"; api.md, Project state)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from chainmemory.engine import clock
from chainmemory.engine.callers import Caller
from chainmemory.engine.once import Once, Written, write
from chainmemory.engine.projects import check_open, ensure_open, secret_of
from chainmemory.engine.state_load import SNAPSHOT_EVERY, current_state, seal_ops, seal_snapshot
from chainmemory.errors import Conflict, Unavailable
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.identity import project_id
from chainmemory.protocol.ledger_entry import make_entry
from chainmemory.state.builder import Call, ProjectState, Result, apply_call, cited_numbers
from chainmemory.store.accounts import Head
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.projects import Project
from chainmemory.store.states import StateRow
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

ATTEMPTS: Final = 50
"""How often a call is run again because another process was first; each time somebody's call has succeeded.
"""


class _Moved(Exception):
    """Another process stored a version between our reading the state and our writing."""


def apply(engine: Engine, caller: Caller, once: Once | None, slug: str, call: Call) -> Written:
    """Apply a call to the project `slug` and return its answer.

    Raises, nothing being written: Conflict (`project_archived`, `version_conflict`, `idempotency_conflict`),
    Invalid (`evidence_not_found`, `invalid_watermark`, `ops_rejected`, `state_too_large`).
    """
    if call.dry_run:
        return Written(_dry_run(engine, caller, slug, call))
    use = _Use(engine, caller, slug, call)
    with engine.states.turn(use.project_id):
        for _ in range(ATTEMPTS):
            try:
                written = write(engine, caller, once, use.run)
            except _Moved:
                continue
            use.remember()
            return written
    raise Unavailable(f"Too many callers change the project {slug} at once; try again.")


class _Use:
    """One call being applied; `run` may run several times."""

    def __init__(self, engine: Engine, caller: Caller, slug: str, call: Call) -> None:
        self.project_id = project_id(caller.account_id, slug)
        self._engine = engine
        self._vault = engine.vault(caller.account_id)
        self._slug = slug
        self._call = call
        self._stored: Result | None = None

    def run(self, tx: Tx) -> dict[str, Any]:
        """Apply the call and store the new version with all that belongs to it."""
        self._stored = None
        project = ensure_open(tx, self._vault, self._slug)
        before = current_state(self._engine, tx, self._vault, project)
        result = _apply(tx, self._vault, before, self._call, secret_of(self._vault, project))
        answer = _answer(self._slug, before, result)
        if not result.changed:
            stored = tx.states.get(project.project_id, before.version)
            answer["generated_at"] = stored.generated_at if stored else None
            answer["anchor"] = {"status": stored.anchor if stored else None}
            return answer
        answer["generated_at"] = clock.now()
        answer["anchor"] = {"status": "pending"}
        self._store(tx, project, before, result, answer["generated_at"])
        self._stored = result
        return answer

    def remember(self) -> None:
        """Put the stored state in the cache, once its transaction is committed."""
        if self._stored is not None and self._stored.document_bytes is not None:
            self._engine.states.put(self.project_id, self._stored.state, len(self._stored.document_bytes))

    def _store(self, tx: Tx, project: Project, before: ProjectState, result: Result, now: str) -> None:
        state, vault = result.state, self._vault
        ops_blob, ops_seed = seal_ops(vault, project.project_id, state.version, _ops(self._call, result))
        row = StateRow(
            project_id=project.project_id,
            version=state.version,
            account_id=vault.account_id,
            state_hash=state.state_hash,
            previous_state_hash=str(state.previous_state_hash),
            consolidated_until_event=state.consolidated_until_event,
            generated_at=now,
            generated_by_blob=self._generated_by(state.version),
            ops_count=len(result.applied),
            ops_seed=ops_seed,
            ops_blob=ops_blob,
        )
        snapshot = None
        if state.version % SNAPSHOT_EVERY == 0:
            snapshot = seal_snapshot(vault, project.project_id, state)
        try:
            tx.states.append(row, cited=_newly_cited(before, result), snapshot=snapshot)
        except Conflict as error:
            if error.code == "version_conflict" and self._call.expected_version is None:
                raise _Moved from error
            raise
        tx.ledger.append(vault.account_id, lambda head: [_entry(vault, head, row)])

    def _generated_by(self, version: int) -> bytes | None:
        if self._call.generated_by is None:
            return None
        return self._vault.seal_small(
            self._call.generated_by.encode(), "generated_by", project_id=self.project_id, version=version
        )


def _dry_run(engine: Engine, caller: Caller, slug: str, call: Call) -> dict[str, Any]:
    """Answer what a call would do; nothing is written, and no project created."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = tx.projects.get(caller.account_id, slug)
        if project is None:
            # The salt comes from a secret that is made with the project, so the hash can't be known yet.
            before, secret = ProjectState.empty(project_id(caller.account_id, slug)), bytes(32)
        else:
            check_open(project)
            before, secret = current_state(engine, tx, vault, project), secret_of(vault, project)
        result = _apply(tx, vault, before, call, secret)
    answer = _answer(slug, before, result)
    answer["message"] = f"Dry run, nothing was written. {answer['message']}"
    if project is None:
        answer["state_hash"] = None
    return answer


def _apply(tx: Tx, vault: AccountVault, before: ProjectState, call: Call, secret: bytes) -> Result:
    highest = tx.memories.highest_number(vault.account_id)
    numbers = [number for number in cited_numbers(call) if number <= highest]
    return apply_call(
        before,
        call,
        event_hashes=tx.memories.event_hashes(vault.account_id, numbers) if numbers else {},
        highest_memory=highest,
        project_secret=secret,
    )


def _answer(slug: str, before: ProjectState, result: Result) -> dict[str, Any]:
    after = result.state
    return {
        "project": slug,
        "version": after.version,
        "previous_version": before.version,
        "state_hash": after.state_hash,
        "previous_state_hash": before.state_hash,
        "unchanged": not result.changed,
        "message": _message(before, result),
        "applied_count": len(result.applied),
        "applied": [
            {
                "index": op.index,
                "op": op.op,
                "id": op.id,
                "evidence_root": op.evidence_root,
                "evidence": [
                    {"memory_number": number, "event_hash": event_hash} for number, event_hash in op.evidence
                ],
            }
            for op in result.applied
        ],
        "rejected": [
            {"index": op.index, "op": op.op, "code": op.code, "error": op.error} for op in result.rejected
        ],
        "refs": result.refs,
        "generated_at": None,
        "anchor": {"status": None},
    }


def _message(before: ProjectState, result: Result) -> str:
    rejected = f" {len(result.rejected)} rejected; see rejected." if result.rejected else ""
    if not result.changed:
        return f"No op was applied, so version {before.version} stays the current one.{rejected}"
    applied = len(result.applied)
    ops = f"{applied} op{'s' if applied != 1 else ''} applied" if applied else "The watermark moved"
    return f"{ops}: version {result.state.version}.{rejected}"


def _newly_cited(before: ProjectState, result: Result) -> set[tuple[str, int]]:
    """Return (item, number) of the citations that no earlier version made."""
    return {
        (op.id, number)
        for op in result.applied
        for number, event_hash in op.evidence
        if event_hash not in before.cited.get(op.id, ())
    }


def _ops(call: Call, result: Result) -> dict[str, Any]:
    """Return what is kept of a version's ops. A rejected environment op may hold a credential: only its fate
    is kept."""
    rejected = [
        {
            "index": op.index,
            "op": op.op,
            "code": op.code,
            "error": op.error,
            "given": None if op.op.startswith("add_env_") else call.ops[op.index],
        }
        for op in result.rejected
    ]
    return {"applied": result.resolved_ops, "rejected": rejected}


def _entry(vault: AccountVault, head: Head, row: StateRow) -> LedgerRow:
    entry = make_entry(
        head.ledger_hash,
        head.ledger_seq + 1,
        row.generated_at,
        "state",
        project_id=row.project_id,
        version=row.version,
        state_hash=row.state_hash,
    )
    return LedgerRow(vault.account_id, entry["seq"], entry["hash"], canonical(entry).decode())
