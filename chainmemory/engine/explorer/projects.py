"""A project's anchors: what the contract holds for each version, beside what this server says it anchored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from chainmemory.chain.anchor_contract import ProjectOnChain
from chainmemory.chain.artifacts import STATE_ANCHOR
from chainmemory.chain.failures import ChainUnavailable
from chainmemory.engine.chain_view import Contracts
from chainmemory.engine.explorer.decode import decode_event, event_topics
from chainmemory.engine.explorer.roots import Rooted, under_roots
from chainmemory.engine.explorer.scan import Scan, look_back
from chainmemory.engine.explorer.visit import Visit, When
from chainmemory.errors import NotFound
from chainmemory.protocol.hashing import ZERO
from chainmemory.store.outbox_rows import STATE, OutboxRow

VERSIONS_A_PAGE: Final = 25
MAX_VERSION: Final = 2**63 - 1

Verdict = Literal["matches", "differs", "only_chain", "only_here", "covered", "rooted", "unrooted"]


@dataclass(frozen=True, slots=True)
class Found:
    """The event that anchored a version."""

    anchor_id: str
    block_number: int
    tx_hash: str
    anchored_by: str


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version. `on_chain` is the contract's hash, `here` this server's; each None where there is none.

    `event` is the log that anchored it, where it was found; `said` is what this server's record says of it.
    """

    version: int
    on_chain: str | None
    here: str | None
    verdict: Verdict
    status: str | None
    event: Found | None
    said_block: int | None
    said_tx: str | None
    under: Rooted | None
    """The Merkle root it was anchored under, where it was."""


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A project and a page of its versions, newest first."""

    project_id: str
    name: str | None
    """Its public name; None where this server doesn't know the project."""
    here_latest: int
    latest: int
    """The highest version, here or on the chain."""
    on_chain: ProjectOnChain | None
    last_anchored: When | None
    lines: tuple[VersionLine, ...]
    newer: int | None
    older: int | None
    scan: Scan | None
    """Where the events were looked for; None where no version here is anchored."""
    missing_events: int
    why_no_contracts: str | None

    @property
    def differing(self) -> int:
        """How many versions of this page the chain holds with another hash."""
        return sum(line.verdict == "differs" for line in self.lines)

    @property
    def matching(self) -> int:
        """How many versions of this page both hold with the same hash."""
        return sum(line.verdict == "matches" for line in self.lines)

    @property
    def rooted(self) -> int:
        """How many versions of this page are under a root that the contract logged."""
        return sum(line.verdict == "rooted" for line in self.lines)

    @property
    def unrooted(self) -> int:
        """How many are said to be under a root that isn't there, or that they don't lead to."""
        return sum(line.verdict == "unrooted" for line in self.lines)


def project_view(visit: Visit, name: str, top: int | None, until: int | None) -> ProjectView:
    """Return a project by public name or id (hex32), its versions from `top` down.

    `until` is the block to look for their events from; None starts where this server says they are, or at the
    head. Raises NotFound.
    """
    with visit.db.read() as tx:
        project = tx.projects.by_public_name(name)
    project_id = project.project_id if project is not None else name
    if project is None and not name.startswith("0x"):
        raise NotFound("No project on this server has that public name.")
    on_chain = _on_chain(visit, project_id)
    here_latest = project.version if project is not None else 0
    latest = max(here_latest, on_chain.latest_version if on_chain else 0)
    if project is None and latest == 0:
        raise NotFound(
            "Neither the contract nor this server knows a project with that id."
            if visit.contracts is not None
            else f"This server knows no project with that id. {visit.why_none}"
        )
    top = latest if top is None else min(top, latest)
    lowest = max(1, top - VERSIONS_A_PAGE + 1)
    versions = range(top, lowest - 1, -1) if top else range(0)
    with visit.db.read() as tx:
        rows = tx.outbox.statuses(STATE, project_id, versions)
    hashes = _hashes(visit, project_id, versions) if on_chain else {}
    anchored = [version for version in versions if hashes.get(version)]
    scan = _scan(visit, project_id, anchored, rows, until, on_chain) if on_chain and anchored else None
    events = _events(scan)
    under = under_roots(visit, [row for number, row in rows.items() if number not in hashes])
    return ProjectView(
        project_id,
        project.public_name if project is not None else None,
        here_latest,
        latest,
        on_chain,
        visit.when(on_chain.latest_anchored_at) if on_chain and on_chain.latest_version else None,
        tuple(
            _line(
                number,
                hashes.get(number),
                rows.get(number),
                events.get(number),
                under.get(number),
                on_chain,
            )
            for number in versions
        ),
        newer=min(latest, top + VERSIONS_A_PAGE) if top < latest else None,
        older=lowest - 1 if lowest > 1 else None,
        scan=scan,
        missing_events=sum(version not in events for version in anchored),
        why_no_contracts=visit.why_none,
    )


def _on_chain(visit: Visit, project_id: str) -> ProjectOnChain | None:
    contracts = visit.contracts
    if contracts is None:
        return None
    return visit.reader.run(lambda: contracts.anchors.project_of(project_id, block=visit.head.number))


def _hashes(visit: Visit, project_id: str, versions: Sequence[int]) -> dict[int, str]:
    """Return what the contract holds for these versions (descending, without gaps), by version."""
    contracts = visit.contracts
    if contracts is None or not versions:
        return {}
    first, count = versions[-1], len(versions)
    held = visit.reader.run(
        lambda: contracts.anchors.state_hashes_of(project_id, first, count, block=visit.head.number)
    )
    return {number: value for number, value in enumerate(held, first) if value != ZERO}


def _scan(
    visit: Visit,
    project_id: str,
    versions: Sequence[int],
    rows: Mapping[int, OutboxRow],
    until: int | None,
    on_chain: ProjectOnChain,
) -> Scan | None:
    """Look for the events that anchored these versions."""
    contracts = visit.contracts
    if contracts is None:
        return None
    numbers = [f"0x{version:064x}" for version in versions]
    topics = [event_topics(STATE_ANCHOR, "StateAnchored"), None, project_id, numbers]
    said = [
        row.block_number for number in versions if (row := rows.get(number)) and row.block_number is not None
    ]
    floor = contracts.first_block
    if until is not None:
        top = min(until, visit.head.number)
    elif len(said) == len(versions):
        # This server knows the blocks: look there and nowhere else. What isn't there is said to be missing.
        top, floor = min(max(said), visit.head.number), min(said)
    else:
        top = _block_of(visit, on_chain.latest_anchored_at, contracts)
    return look_back(
        visit.reader, visit.pace, contracts.anchors.address, topics, top=top, floor=floor, want=len(versions)
    )


def _block_of(visit: Visit, timestamp: int, contracts: Contracts) -> int:
    """Return the newest block that isn't after a moment, so that a look back needn't start at the head."""
    low, high = contracts.first_block, visit.head.number
    if high - low <= visit.pace.width:
        return high
    try:
        while low < high:
            middle = (low + high + 1) // 2
            block = visit.reader.numbered(middle)
            if block is None:
                return visit.head.number
            low, high = (middle, high) if block.timestamp <= timestamp else (low, middle - 1)
    except ChainUnavailable:
        return visit.head.number
    return low


def _events(scan: Scan | None) -> dict[int, Found]:
    found = {}
    for log in scan.logs if scan else ():
        event = decode_event(STATE_ANCHOR, log)
        if event is not None:
            found[int(event.value("version") or 0)] = Found(
                event.value("anchorId") or "", log.block_number, log.tx_hash, event.value("anchoredBy") or ""
            )
    return found


def _line(
    version: int,
    on_chain: str | None,
    row: OutboxRow | None,
    event: Found | None,
    under: Rooted | None,
    project: ProjectOnChain | None,
) -> VersionLine:
    here = row.hash if row is not None else None
    return VersionLine(
        version,
        on_chain,
        here,
        _verdict(version, on_chain, here, under, project),
        row.status if row is not None else None,
        event,
        row.block_number if row is not None else None,
        row.tx_hash if row is not None else None,
        under,
    )


def _verdict(
    version: int, on_chain: str | None, here: str | None, under: Rooted | None, project: ProjectOnChain | None
) -> Verdict:
    if on_chain is None and under is not None and under.tx_hash is not None:
        return "rooted"
    if on_chain is None and under is not None and (under.asked or not under.leads):
        return "unrooted"
    if on_chain is None:
        return "covered" if project is not None and version < project.first_version else "only_here"
    if here is None:
        return "only_chain"
    return "matches" if on_chain == here else "differs"
