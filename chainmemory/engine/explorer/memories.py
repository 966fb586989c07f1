"""A memory by its event hash: the registry's log of it, and the root it is under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chainmemory.chain.artifacts import MEMORY_REGISTRY
from chainmemory.chain.types import Log
from chainmemory.engine.chain_view import Contracts
from chainmemory.engine.explorer.decode import Decoded, decode_event, event_topics
from chainmemory.engine.explorer.scan import Scan, look_back
from chainmemory.engine.explorer.visit import Visit, When
from chainmemory.errors import ChainMemoryError, IntegrityError, NotFound
from chainmemory.protocol.evidence import Proof, evidence_root, inclusion_proof, verify_inclusion
from chainmemory.protocol.hashing import ZERO
from chainmemory.store.outbox_rows import MEMORY


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The batch a memory was recorded in. Each `…_root` is hex32, None where it can't be told."""

    first_recorded: int
    count: int
    logged_root: str
    stored_root: str | None
    """What the contract stores now."""
    computed_root: str | None
    """What the batch's logged event hashes come to."""
    proof: Proof | None
    """That this memory is under the computed root."""

    @property
    def holds(self) -> bool | None:
        """Whether all three agree and the memory is under them; None where one can't be told."""
        if self.computed_root is None or self.stored_root is None:
            return None
        return self.proof is not None and self.logged_root == self.stored_root == self.computed_root


@dataclass(frozen=True, slots=True)
class MemoryView:
    """What is known of an event hash. Without `event` it wasn't found in the blocks that `scan` looked at."""

    event_hash: str
    event: Decoded | None
    log: Log | None
    when: When | None
    batch: BatchReport | None
    scan: Scan | None
    status: str | None
    """How far it is on its way to the chain by this server's record; None where that doesn't know it."""
    why_no_contracts: str | None = None


def memory_view(visit: Visit, event_hash: str, until: int | None) -> MemoryView:
    """Return a memory by event hash; `until` is the block to look back from (default: where it should be).

    Raises NotFound where all blocks were looked at and this server doesn't know it either.
    """
    view = look_for_memory(visit, event_hash, until)
    if view.event is None and view.status is None and (view.scan is None or view.scan.complete):
        upto = f" up to block {view.scan.last:,}" if until is not None and view.scan is not None else ""
        raise NotFound(f"No memory with this event hash is in the registry's log{upto}.")
    return view


def look_for_memory(visit: Visit, event_hash: str, until: int | None) -> MemoryView:
    """Look for a memory's log; never raises NotFound."""
    with visit.db.read() as tx:
        memory = tx.memories.by_event_hash(event_hash)
        row = tx.outbox.get(MEMORY, memory.account_id, memory.number) if memory is not None else None
    status = row.status if row is not None else None
    contracts = visit.contracts
    if contracts is None:
        return MemoryView(event_hash, None, None, None, None, None, status, visit.why_none)
    said = row.block_number if row is not None and until is None else None
    scan = _scan(visit, contracts, event_hash, said, until)
    if not scan.logs and said is not None:
        # Not where this server says: then anywhere.
        scan = _scan(visit, contracts, event_hash, None, None)
    log = scan.logs[-1] if scan.logs else None
    event = decode_event(MEMORY_REGISTRY, log) if log is not None else None
    if log is None or event is None:
        return MemoryView(event_hash, None, None, None, None, scan, status)
    return MemoryView(
        event_hash,
        event,
        log,
        visit.block_time(log.block_number),
        _batch(visit, contracts, event, log),
        scan,
        status,
    )


def _scan(visit: Visit, contracts: Contracts, event_hash: str, only: int | None, until: int | None) -> Scan:
    recorded = event_topics(MEMORY_REGISTRY, "MemoryRecorded", "MemoryRecordedWithPayload")
    top = visit.head.number if until is None else min(until, visit.head.number)
    return look_back(
        visit.reader,
        visit.pace,
        contracts.registry.address,
        [recorded, None, None, event_hash],
        top=top if only is None else only,
        floor=contracts.first_block if only is None else only,
        want=1,
    )


def _batch(visit: Visit, contracts: Contracts, memory: Decoded, log: Log) -> BatchReport | None:
    """Read the memory's batch from its transaction, and recompute its root from the logged hashes."""
    receipt = visit.reader.receipt(log.tx_hash)
    if receipt is None:
        return None
    account, number = memory.value("accountRef") or "", int(memory.value("number") or 0)
    ours = [one for one in receipt.logs if one.address == log.address and len(one.topics) > 1]
    events = [
        event
        for one in ours
        if one.topics[1] == account and (event := decode_event(MEMORY_REGISTRY, one)) is not None
    ]
    hashes: dict[int, str] = {}
    for event in events:
        if event.name in ("MemoryRecorded", "MemoryRecordedWithPayload", "MemorySkipped"):
            hashes[int(event.value("number") or 0)] = event.value("eventHash") or ZERO
        elif event.name == "BatchRecorded":
            first, count = int(event.value("firstNumber") or 0), int(event.value("count") or 0)
            if first <= number < first + count:
                own = [hashes[one] for one in range(first, first + count) if one in hashes]
                return _report(visit, contracts, account, event, own if len(own) == count else None, memory)
            hashes = {}
    return None


def _report(
    visit: Visit,
    contracts: Contracts,
    account: str,
    batch: Decoded,
    hashes: Sequence[str] | None,
    memory: Decoded,
) -> BatchReport:
    first = int(batch.value("firstRecorded") or 0)
    try:
        stored: str | None = visit.reader.run(lambda: contracts.registry.root_of(account, first))
    except ChainMemoryError:
        stored = None
    computed = evidence_root(hashes) if hashes else None
    return BatchReport(
        first,
        int(batch.value("count") or 0),
        batch.value("evidenceRoot") or ZERO,
        stored,
        computed,
        _proof(hashes, memory.value("eventHash") or ZERO, computed) if hashes and computed else None,
    )


def _proof(hashes: Sequence[str], event_hash: str, root: str) -> Proof | None:
    try:
        proof = inclusion_proof(hashes, event_hash)
        verify_inclusion(event_hash, proof, root)
    except (IntegrityError, NotFound):
        return None
    return proof
