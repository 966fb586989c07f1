"""An account's projects: every version rebuilt from its ops and hashed, with all that belongs to it
(protocol §7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from chainmemory.errors import ChainMemoryError, IntegrityError
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.hashing import ZERO
from chainmemory.protocol.identity import project_id
from chainmemory.verify.document import Rebuilt
from chainmemory.verify.findings import AccountChecked, ProjectChecked, Report
from chainmemory.verify.keys import AccountKey
from chainmemory.verify.ledger import Sealed
from chainmemory.verify.rows import Rows, misfits


class _Project(NamedTuple):
    project_id: str
    slug: str
    public_name: str
    secret_blob: bytes
    version: int
    state_hash: str
    watermark: int


class _Version(NamedTuple):
    version: int
    account_id: str
    state_hash: str
    previous_state_hash: str
    consolidated_until_event: int
    generated_by_blob: bytes | None
    ops_count: int
    ops_seed: bytes
    ops_blob: bytes


States = dict[tuple[str, int], str]
"""The state hash of each (project id, version)."""


def check_projects(
    rows: Rows,
    report: Report,
    checked: AccountChecked,
    key: AccountKey | None,
    sealed: Sealed,
    event_hashes: Mapping[int, str],
) -> States:
    """Check every version of every project of an account; return the hashes stored for them.

    Without a key, versions aren't rebuilt.
    """
    states: States = {}
    query = f"SELECT {', '.join(_Project._fields)} FROM projects WHERE account_id = ? ORDER BY slug"
    for values in list(rows.all(query, checked.account_id)):
        project = _Project(*values)
        # Of the secret, opening it tells.
        if wrong := [name for name in misfits(project) if name != "secret_blob"]:
            report.add_misfits(f"project {project.slug!r} of {checked.account_id}", wrong)
            continue
        mine = ProjectChecked(project.project_id, project.slug)
        checked.projects.append(mine)
        where = f"project {project.slug} of {checked.account_id}"
        _check_names(rows, report, where, project, checked.account_id)
        begin = _begin(report, where, project, key)
        history = _History(rows, report, mine, key, checked.account_id, event_hashes)
        states.update(history.check(project, begin))
    for place in sorted(sealed.states.keys() | states.keys()):
        where = f"version {place[1]} of {place[0]}"
        if place not in states:
            report.add("version_missing", where, "The ledger seals it, and it is gone.")
        elif place not in sealed.states:
            report.add("version_unsealed", where, "No ledger entry seals it.")
        else:
            report.expect(
                "version_sealed_hash", where, "its hash in the ledger", states[place], sealed.states[place]
            )
    return states


def _begin(report: Report, where: str, project: _Project, key: AccountKey | None) -> Rebuilt | None:
    """Return version 0 to rebuild from; None where the project's secret can't be opened."""
    if key is None:
        return None
    try:
        secret = key.open_small(project.secret_blob, "project_secret", project_id=project.project_id)
    except IntegrityError as error:
        report.add("secret_undecryptable", where, f"Its secret can't be opened: {error.message}.")
        return None
    return Rebuilt(project.project_id, secret)


def _check_names(rows: Rows, report: Report, where: str, project: _Project, account_id: str) -> None:
    try:
        derived: str | None = project_id(account_id, project.slug)
    except ChainMemoryError:
        derived = None
    report.expect("project_id", where, "its id", derived, project.project_id)
    query = "SELECT project_id FROM public_names WHERE name = ?"
    owners = [owner for (owner,) in rows.all(query, project.slug)]
    # Its slug, if it was the first of that name in the deployment (protocol §2).
    wanted = project.slug if owners == [project.project_id] else project.project_id
    report.expect("public_name", where, "its public name", wanted, project.public_name)


class _History:
    """One project's versions, from the first on."""

    def __init__(
        self,
        rows: Rows,
        report: Report,
        checked: ProjectChecked,
        key: AccountKey | None,
        account_id: str,
        event_hashes: Mapping[int, str],
    ) -> None:
        self._rows = rows
        self._report = report
        self._checked = checked
        self._key = key
        self._account_id = account_id
        self._event_hashes = event_hashes

    def check(self, project: _Project, state: Rebuilt | None) -> States:
        """Check all versions against each other and against the project's head."""
        report, states = self._report, dict[tuple[str, int], str]()
        where = f"project {project.slug} of {self._account_id}"
        citations = self._citations(project.project_id)
        previous: str | None = ZERO
        watermark = version = 0
        query = (
            f"SELECT {', '.join(_Version._fields)} FROM state_versions WHERE project_id = ? ORDER BY version"
        )
        for values in self._rows.all(query, project.project_id):
            row = _Version(*values)
            if wrong := misfits(row):
                report.add_misfits(f"version {row.version} of {project.slug} of {self._account_id}", wrong)
                state = None
            if "version" in wrong or "state_hash" in wrong:
                continue
            version += 1
            if row.version != version:
                report.add("version_gap", f"version {version} of {project.slug}", "It is gone.")
                # What follows it can't be rebuilt.
                version, state, previous = row.version, None, None
            at = f"version {version} of {project.slug} of {self._account_id}"
            report.expect("version_account", at, "whose it is", self._account_id, row.account_id)
            if previous is not None:
                report.expect("version_previous", at, "the hash before it", previous, row.previous_state_hash)
            if state is not None:
                state = self._rebuild(at, state, row, citations.pop(version, set()))
            previous, watermark = row.state_hash, row.consolidated_until_event
            states[project.project_id, version] = row.state_hash
            self._checked.versions += 1
        for left in sorted(citations):
            if state is not None or left > version:
                report.add("citations", f"version {left} of {project.slug}", "There is no such version.")
        report.expect(
            "project_head",
            where,
            "its latest version, hash and watermark",
            (version, previous, watermark),
            (project.version, project.state_hash if project.version else ZERO, project.watermark),
        )
        self._checked.items = state.items if state is not None else 0
        return states

    def _rebuild(self, at: str, state: Rebuilt, row: _Version, cited: set[tuple[str, int]]) -> Rebuilt | None:
        """Take the state one version on; None where it can't be, after saying why."""
        assert self._key is not None
        report = self._report
        ids: dict[str, str | int] = {"project_id": self._checked.project_id, "version": row.version}
        try:
            if row.generated_by_blob is not None:
                self._key.open_small(row.generated_by_blob, "generated_by", **ids)
            ops = orjson.loads(self._key.open(row.ops_blob, row.ops_seed, "state_ops", **ids))["applied"]
        except IntegrityError as error:
            report.add("ops_undecryptable", at, f"What made it can't be opened: {error.message}.")
            return None
        except (orjson.JSONDecodeError, KeyError, TypeError):
            report.add("ops_unparseable", at, "What made it isn't a list of ops.")
            return None
        try:
            newly = state.advance(ops, row.consolidated_until_event)
        except IntegrityError as error:
            report.add("ops_inapplicable", at, f"It can't be rebuilt: {error.message}.")
            return None
        report.expect("ops_count", at, "how many ops made it", len(ops), row.ops_count)
        report.expect("citations", at, "what it newly cites", sorted(newly), sorted(cited))
        self._check_evidence(at, ops)
        self._check_snapshot(at, state, self._key, ids)
        report.expect("state_hash", at, "its hash", state.state_hash, row.state_hash)
        return state

    def _check_evidence(self, at: str, ops: list[dict[str, Any]]) -> None:
        """Compare the event hashes that ops cite with those of the memories they name."""
        for op in ops:
            for cited in op["evidence"]:
                number = cited["memory_number"]
                stored = self._event_hashes.get(number)
                self._report.expect("evidence", at, f"memory {number} it cites", cited["event_hash"], stored)

    def _check_snapshot(self, at: str, state: Rebuilt, key: AccountKey, ids: dict[str, Any]) -> None:
        """Compare a snapshot, where there is one of this version, with the rebuilt document."""
        query = "SELECT doc_blob, doc_seed FROM state_snapshots WHERE project_id = ? AND version = ?"
        for blob, seed in list(self._rows.all(query, ids["project_id"], ids["version"])):
            try:
                snapshot = orjson.loads(key.open(blob, seed, "state_doc", **ids))
            except (IntegrityError, orjson.JSONDecodeError):
                self._report.add("snapshot", at, "Its snapshot can't be opened.")
                continue
            cited = {key: list(tree) for key, tree in state.cited.items()}
            same = canonical(snapshot) == canonical({"document": state.document, "cited": cited})
            self._report.expect("snapshot", at, "whether its snapshot is what the ops make", True, same)

    def _citations(self, project: str) -> dict[int, set[tuple[str, int]]]:
        found: dict[int, set[tuple[str, int]]] = defaultdict(set)
        query = "SELECT version, item_id, number FROM citations WHERE project_id = ?"
        for version, item, number in self._rows.all(query, project):
            if isinstance(version, int) and isinstance(item, str) and isinstance(number, int):
                found[version].add((item, number))
            else:
                self._report.add_misfits(f"citation of {item!r} in {project}", ["version, item_id or number"])
        return found
