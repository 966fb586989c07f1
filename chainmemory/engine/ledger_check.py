"""Checking an account's ledger and everything it seals, in constant memory (protocol §5, api.md, Ledger).

The entries are walked in order, and the memories read beside them: a server's ledger has them in the same
order. Of what is in order nothing is kept. Where the chain is broken, or the entries don't come as this
program writes them, everything is done again the exact way, which keeps the latest entry of each record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from chainmemory.engine.ledger_records import memory_record, state_record
from chainmemory.engine.ledger_states import failing_versions
from chainmemory.engine.ledger_stream import Irregular, Stream
from chainmemory.ledger.chain import Chain, Reason
from chainmemory.ledger.entries import read_server_line
from chainmemory.ledger.quick import PAGE
from chainmemory.ledger.verdicts import Record, verify
from chainmemory.ledger.walk import Status, status_of
from chainmemory.store.projects import Project
from chainmemory.store.sealed import LOWEST
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found; records by the names reports use, `memory:7` and `state:SLUG@3`."""

    chain: Status
    entries: int
    broken_at: int | None
    reason: Reason | None
    head: tuple[int, str] | None
    """Position and hash of the last entry that can be read."""
    heads_missing: list[int]
    head_matches: bool | None
    sealed: int
    forgotten: int
    altered: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)
    disputed: list[str] = field(default_factory=list)
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class States:
    """An account's projects, and which of their versions can't be recomputed (where that was asked for)."""

    projects: dict[str, str]
    """Slug by project id, ordered by slug."""
    failing: Mapping[str, set[int]]


def check(
    tx: Tx, account_id: str, heads: Mapping[int, str] | None, vault: AccountVault | None = None
) -> Checked:
    """Check an account's ledger at the moment `tx` sees.

    `heads`: the anchored heads (position → entry hash) as the contract holds them, read before `tx` began;
    None where the chain can't be reached. With a vault everything is decrypted and recomputed too.
    """
    projects = sorted(tx.projects.list(account_id), key=lambda project: project.slug)
    states = _states(tx, account_id, projects, vault)
    try:
        return _in_order(tx, account_id, heads, vault, states)
    except Irregular:
        return _exactly(tx, account_id, heads, vault, states)


def follow(tx: Tx, account_id: str, heads: Mapping[int, str]) -> Chain:
    """Follow an account's chain alone, to its end."""
    chain = Chain(read_server_line, heads)
    lines = (line for _, line in tx.ledger.records.lines(account_id))
    while page := list(islice(lines, PAGE)):
        for _ in chain.take(page):
            pass
    return chain


def _states(tx: Tx, account_id: str, projects: list[Project], vault: AccountVault | None) -> States:
    slugs = {project.project_id: project.slug for project in projects}
    # A project's row may be gone while its versions are there: then it goes by its id.
    slugs |= {
        found: found for found in tx.ledger.records.projects_with_states(account_id) if found not in slugs
    }
    failing = (
        {project.project_id: failing_versions(tx, vault, project) for project in projects} if vault else {}
    )
    return States(slugs, failing)


def _in_order(
    tx: Tx, account_id: str, heads: Mapping[int, str] | None, vault: AccountVault | None, states: States
) -> Checked:
    chain = Chain(read_server_line, heads or {})
    stream = Stream(tx.ledger.records, account_id, vault, states.failing)
    lines = (line for _, line in tx.ledger.records.lines(account_id))
    while page := list(islice(lines, PAGE)):
        for taken in chain.take(page):
            if chain.breaks:
                raise Irregular
            stream.take(taken)
    found = stream.finish(list(states.projects))
    return _checked(
        status_of(chain),
        chain.entries,
        None,
        None,
        chain.head,
        chain.heads_missing,
        heads,
        {verdict: _named(names, states.projects) for verdict, names in found.others.items()},
        found.sealed,
    )


def _exactly(
    tx: Tx, account_id: str, heads: Mapping[int, str] | None, vault: AccountVault | None, states: States
) -> Checked:
    lines = (line for _, line in tx.ledger.records.lines(account_id))
    records = _records(tx, account_id, vault, states)
    report = verify(lines, records, read=read_server_line, heads=heads, unsealed_is_wrong=True)
    walked = report.walk
    others = {name: getattr(report, name) for name in OTHERS}
    return _checked(
        walked.chain,
        walked.entries,
        walked.broken_at,
        walked.reason,
        walked.head,
        walked.heads_missing,
        heads,
        {verdict: _named(names, states.projects) for verdict, names in others.items()},
        len(report.sealed),
    )


OTHERS: Final = ("altered", "missing", "unsealed", "disputed", "forgotten")


def _checked(
    chain: Status,
    entries: int,
    broken_at: int | None,
    reason: Reason | None,
    head: tuple[int, str] | None,
    heads_missing: list[int],
    heads: Mapping[int, str] | None,
    others: Mapping[str, list[str]],
    sealed: int,
) -> Checked:
    wrong = (
        chain in ("broken", "repaired")
        or heads_missing
        or others["altered"]
        or others["missing"]
        or others["unsealed"]
    )
    return Checked(
        chain=chain,
        entries=entries,
        broken_at=broken_at,
        reason=reason,
        head=head,
        heads_missing=heads_missing,
        head_matches=(max(heads) not in heads_missing) if heads else None,
        sealed=sealed,
        forgotten=len(others["forgotten"]),
        altered=others["altered"],
        missing=others["missing"],
        unsealed=others["unsealed"],
        disputed=others["disputed"],
        ok=False if wrong else (None if heads is None else True),
    )


def _records(
    tx: Tx, account_id: str, vault: AccountVault | None, states: States
) -> Iterator[tuple[str, Record]]:
    for row in tx.ledger.records.memories_after(account_id, LOWEST):
        yield f"memory:{row.number}", memory_record(account_id, row, vault)
    for project_id in states.projects:
        failing = states.failing.get(project_id, ())
        for state in tx.ledger.records.states_after(project_id, LOWEST):
            record = Record(None) if state.version in failing else state_record(account_id, state)
            yield f"state:{project_id}@{state.version}", record


def _named(names: list[str], slugs: Mapping[str, str]) -> list[str]:
    """Put slugs in the place of project ids."""
    return [_slugged(name, slugs) if name.startswith("state:") else name for name in names]


def _slugged(name: str, slugs: Mapping[str, str]) -> str:
    project_id, _, version = name.removeprefix("state:").rpartition("@")
    return f"state:{slugs.get(project_id, project_id)}@{version}"
