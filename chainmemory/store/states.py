"""State versions: their ops, an encrypted snapshot now and then, and who cites which memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, insert, select

from chainmemory.store.outbox_rows import ENQUEUE, STATE, fresh
from chainmemory.store.projects import Projects
from chainmemory.store.sql import Session, Statement
from chainmemory.store.tables import citations, outbox, projects, state_snapshots, state_versions


class StateRow(NamedTuple):
    """One state version as it is written; the ops are encrypted under their own seed (place `state_ops`)."""

    project_id: str
    version: int
    account_id: str
    state_hash: str
    previous_state_hash: str
    consolidated_until_event: int
    generated_at: str
    generated_by_blob: bytes | None
    ops_count: int
    ops_seed: bytes
    ops_blob: bytes


class StateVersion(NamedTuple):
    """One state version as it is read, without its ops; `anchor` is the status of its outbox row."""

    project_id: str
    version: int
    account_id: str
    state_hash: str
    previous_state_hash: str
    consolidated_until_event: int
    generated_at: str
    generated_by_blob: bytes | None
    ops_count: int
    anchor: str | None


class Ops(NamedTuple):
    """The encrypted ops of one version, and what the version must come to."""

    version: int
    state_hash: str
    consolidated_until_event: int
    ops_seed: bytes
    ops_blob: bytes


class Snapshot(NamedTuple):
    """An encrypted snapshot of one version (place `state_doc`)."""

    project_id: str
    version: int
    doc_seed: bytes
    doc_blob: bytes


class Citation(NamedTuple):
    """Version `version` of a project was the first to cite memory `number` for item `item_id`."""

    project_id: str
    version: int
    item_id: str
    number: int


_V, _C, _S = state_versions.c, citations.c, state_snapshots.c
_COLUMNS = [*(_V[name] for name in StateVersion._fields[:-1]), outbox.c.status]
_WITH_ANCHOR = state_versions.outerjoin(
    outbox,
    and_(outbox.c.kind == STATE, outbox.c.subject == _V.project_id, outbox.c.position == _V.version),
)

_INSERT = Statement(
    insert(state_versions).values({name: bindparam(name) for name in StateRow._fields}), *StateRow._fields
)
_CITE = Statement(
    insert(citations).values({name: bindparam(name) for name in (*Citation._fields, "account_id")}),
    *Citation._fields,
    "account_id",
)
_SNAPSHOT = Statement(
    insert(state_snapshots).values({name: bindparam(name) for name in Snapshot._fields}), *Snapshot._fields
)
_GET = Statement(
    select(*_COLUMNS)
    .select_from(_WITH_ANCHOR)
    .where(_V.project_id == bindparam("of"), _V.version == bindparam("nr")),
    "of",
    "nr",
)
_LIST = Statement(
    select(*_COLUMNS)
    .select_from(_WITH_ANCHOR)
    .where(_V.project_id == bindparam("of"), _V.version < bindparam("before"))
    .order_by(_V.version.desc())
    .limit(bindparam("limit")),
    "of",
    "before",
    "limit",
)
_OPS = Statement(
    select(*(_V[name] for name in Ops._fields))
    .where(_V.project_id == bindparam("of"), _V.version > bindparam("after"), _V.version <= bindparam("last"))
    .order_by(_V.version),
    "of",
    "after",
    "last",
)
_NEAREST = Statement(
    select(*(_S[name] for name in Snapshot._fields))
    .where(_S.project_id == bindparam("of"), _S.version <= bindparam("last"))
    .order_by(_S.version.desc())
    .limit(1),
    "of",
    "last",
)
_CITED_BY_ITEM = Statement(
    select(*(_C[name] for name in Citation._fields))
    .where(_C.project_id == bindparam("of"), _C.item_id == bindparam("item"), _C.version <= bindparam("last"))
    .order_by(_C.version, _C.number),
    "of",
    "item",
    "last",
)
_CITING = Statement(
    select(*(_C[name] for name in Citation._fields))
    .where(_C.account_id == bindparam("of"), _C.number == bindparam("nr"))
    .order_by(_C.project_id, _C.version, _C.item_id),
    "of",
    "nr",
)
_OF_ACCOUNT = Statement(
    select(projects.c.slug, _V.version, _V.state_hash)
    .join(projects, projects.c.project_id == _V.project_id)
    .where(_V.account_id == bindparam("of"))
    .order_by(projects.c.slug, _V.version),
    "of",
)


class States:
    """`tx.states`."""

    def __init__(self, session: Session, projects: Projects) -> None:
        self._session = session
        self._projects = projects

    def append(
        self, row: StateRow, *, cited: Iterable[tuple[str, int]], snapshot: tuple[bytes, bytes] | None = None
    ) -> None:
        """Write a version with its citations, its snapshot, its outbox row, and the project's new head.

        `cited` are (item_id, memory number) newly cited by this version, `snapshot` is (doc_seed, doc_blob).
        The ledger entry is the caller's, by `tx.ledger.append` in the same transaction.

        Raises Conflict (`version_conflict`, `project_archived`) unless the project's current version is
        `row.version - 1`, NotFound if the project is gone.
        """
        self._projects.advance(
            row.project_id,
            old_version=row.version - 1,
            version=row.version,
            state_hash=row.state_hash,
            watermark=row.consolidated_until_event,
        )
        self._session.run(_INSERT, row)
        pairs = sorted(set(cited))
        self._session.run_many(
            _CITE, [(row.project_id, row.version, item, number, row.account_id) for item, number in pairs]
        )
        if snapshot is not None:
            self._session.run(_SNAPSHOT, (row.project_id, row.version, *snapshot))
        place = (STATE, row.project_id, row.version)
        self._session.run(ENQUEUE, fresh(*place, row.account_id, row.state_hash, row.generated_at))

    def get(self, project_id: str, version: int) -> StateVersion | None:
        """Return one version without its ops, or None."""
        row = self._session.one(_GET, (project_id, version))
        return None if row is None else StateVersion(*row)

    def list(self, project_id: str, *, before: int | None = None, limit: int = 50) -> list[StateVersion]:
        """Return up to `limit` versions, newest first, from below version `before` if given."""
        last = before if before is not None else 2**62
        return [StateVersion(*row) for row in self._session.all(_LIST, (project_id, last, limit))]

    def ops(self, project_id: str, *, after: int, last: int) -> Sequence[Ops]:
        """Return the encrypted ops of the versions `after < version <= last`, ascending."""
        return [Ops(*row) for row in self._session.all(_OPS, (project_id, after, last))]

    def nearest_snapshot(self, project_id: str, version: int) -> Snapshot | None:
        """Return the newest snapshot at or below `version`, or None."""
        row = self._session.one(_NEAREST, (project_id, version))
        return None if row is None else Snapshot(*row)

    def cited_for(self, project_id: str, item_id: str, *, last: int) -> Sequence[Citation]:
        """Return what was cited for an item up to version `last`, by version and number."""
        return self._citations(_CITED_BY_ITEM, (project_id, item_id, last))

    def citing(self, account_id: str, number: int) -> Sequence[Citation]:
        """Return which items of which projects of the account cite memory `number`."""
        return self._citations(_CITING, (account_id, number))

    def of_account(self, account_id: str) -> Sequence[tuple[str, int, str]]:
        """Return (slug, version, state_hash) of every state version of the account, for the ledger's
        check.
        """
        return [(row[0], row[1], row[2]) for row in self._session.all(_OF_ACCOUNT, (account_id,))]

    def _citations(self, statement: Statement, given: tuple[Any, ...]) -> Sequence[Citation]:
        return [Citation(*row) for row in self._session.all(statement, given)]
