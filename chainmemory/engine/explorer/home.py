"""The front page: the head, who seals, the contracts, and what was witnessed last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR
from chainmemory.chain.types import Log
from chainmemory.engine.chain_view import Contracts
from chainmemory.engine.explorer.blocks import (
    BLOCKS_IN_FRONT,
    BlockLine,
    SignerLine,
    block_line,
    block_lines,
    signer_lines,
)
from chainmemory.engine.explorer.decode import Decoded, decode_event, event_topics
from chainmemory.engine.explorer.scan import look_back
from chainmemory.engine.explorer.visit import Visit, When

LATEST: Final = 6
"""Projects, and batches of memories, on the front page."""
FRONT_QUERIES: Final = 3


@dataclass(frozen=True, slots=True)
class AnchorLine:
    """A state that was anchored."""

    project_id: str
    name: str | None
    version: str
    state_hash: str
    block_number: int
    tx_hash: str
    when: When | None


@dataclass(frozen=True, slots=True)
class RootLine:
    """A Merkle root that was anchored, over `count` states."""

    root: str
    count: int
    block_number: int
    tx_hash: str
    when: When | None


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A batch of memories that was recorded."""

    account_ref: str
    first: str
    count: int
    block_number: int
    tx_hash: str
    when: When | None


@dataclass(frozen=True, slots=True)
class ContractLine:
    """A contract of this deployment."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Home:
    """The front page; `block_time_s` is the mean over the listed blocks, None where it can't be told."""

    chain_id: int
    head: BlockLine
    blocks: tuple[BlockLine, ...]
    signers: tuple[SignerLine, ...]
    signers_from_genesis: bool
    clique: bool
    block_time_s: float | None
    contracts: tuple[ContractLine, ...]
    anchor_count: int | None
    anchors: tuple[AnchorLine, ...]
    roots: tuple[RootLine, ...]
    batches: tuple[BatchLine, ...]
    why_no_contracts: str | None

    @property
    def sealed_blocks(self) -> int:
        """How many of the listed blocks somebody sealed: all but the genesis block."""
        return sum(block.number > 0 for block in self.blocks)


def home(visit: Visit) -> Home:
    """Return the front page. Raises Unavailable."""
    blocks = block_lines(visit, visit.head.number, BLOCKS_IN_FRONT)
    signers, from_genesis = signer_lines(visit, blocks)
    contracts = visit.contracts
    anchors: tuple[AnchorLine, ...] = ()
    roots: tuple[RootLine, ...] = ()
    batches: tuple[BatchLine, ...] = ()
    if contracts is not None:
        anchors, roots = _latest_anchors(visit, contracts)
        batches = _latest_batches(visit, contracts)
    return Home(
        visit.reader.chain_id(),
        block_line(visit, visit.head),
        blocks,
        signers,
        from_genesis,
        clique=bool(signers),
        block_time_s=_block_time(blocks),
        contracts=_contract_lines(contracts),
        anchor_count=visit.reader.run(contracts.anchors.anchor_count) if contracts else None,
        anchors=anchors,
        roots=roots,
        batches=batches,
        why_no_contracts=visit.why_none,
    )


def _latest_anchors(
    visit: Visit, contracts: Contracts
) -> tuple[tuple[AnchorLine, ...], tuple[RootLine, ...]]:
    """Return the newest anchor of each of the projects that were anchored last, and the newest roots."""
    topics = [*event_topics(STATE_ANCHOR, "StateAnchored"), *event_topics(STATE_ANCHOR, "RootAnchored")]
    newest: dict[str, tuple[Decoded, Log]] = {}
    rooted: list[tuple[Decoded, Log]] = []
    for log in _latest(visit, contracts.anchors.address, topics, contracts):
        event = decode_event(STATE_ANCHOR, log)
        if event is not None and event.name == "RootAnchored":
            rooted.append((event, log))
        elif event is not None and len(newest) < LATEST:
            newest.setdefault(event.value("projectId") or "", (event, log))
    rooted = rooted[:LATEST]
    with visit.db.read() as tx:
        names = tx.projects.public_names_of(newest)
    _read_times(visit, [log for _, log in (*newest.values(), *rooted)])
    return (
        tuple(_anchor_line(visit, event, log, names) for event, log in newest.values()),
        tuple(_root_line(visit, event, log) for event, log in rooted),
    )


def _root_line(visit: Visit, event: Decoded, log: Log) -> RootLine:
    return RootLine(
        event.value("root") or "",
        int(event.value("count") or 0),
        log.block_number,
        log.tx_hash,
        visit.block_time(log.block_number),
    )


def _anchor_line(visit: Visit, event: Decoded, log: Log, names: dict[str, str]) -> AnchorLine:
    project_id = event.value("projectId") or ""
    return AnchorLine(
        project_id,
        names.get(project_id),
        event.value("version") or "",
        event.value("stateHash") or "",
        log.block_number,
        log.tx_hash,
        visit.block_time(log.block_number),
    )


def _latest_batches(visit: Visit, contracts: Contracts) -> tuple[BatchLine, ...]:
    topics = event_topics(MEMORY_REGISTRY, "BatchRecorded")
    logs = _latest(visit, contracts.registry.address, topics, contracts)[:LATEST]
    _read_times(visit, logs)
    return tuple(
        BatchLine(
            event.value("accountRef") or "",
            event.value("firstRecorded") or "",
            int(event.value("recorded") or 0),
            log.block_number,
            log.tx_hash,
            visit.block_time(log.block_number),
        )
        for log in logs
        if (event := decode_event(MEMORY_REGISTRY, log)) is not None
    )


def _latest(visit: Visit, address: str, topics: list[str], contracts: Contracts) -> tuple[Log, ...]:
    """Return a contract's newest events of a kind; a front page doesn't look far."""
    return look_back(
        visit.reader,
        visit.dense_pace,
        address,
        [topics],
        top=visit.head.number,
        floor=contracts.first_block,
        want=LATEST,
        queries=FRONT_QUERIES,
    ).logs


def _read_times(visit: Visit, logs: Sequence[Log]) -> None:
    """Read the blocks of some logs together, so that each is remembered when its time is asked for."""
    visit.reader.each(visit.reader.numbered, {log.block_number for log in logs})


def _contract_lines(contracts: Contracts | None) -> tuple[ContractLine, ...]:
    if contracts is None:
        return ()
    return tuple(ContractLine(name, address) for name, address in contracts.addresses().items())


def _block_time(blocks: tuple[BlockLine, ...]) -> float | None:
    # The genesis block's time is no block's time.
    told = [block for block in blocks if block.number > 0]
    if len(told) < 2:
        return None
    return (told[0].when.timestamp - told[-1].when.timestamp) / (len(told) - 1)
