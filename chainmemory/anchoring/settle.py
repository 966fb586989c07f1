"""Reading from the chain what became of each row, and writing it down: by a receipt, or by the contract."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from chainmemory.anchoring.roots import tree_of
from chainmemory.anchoring.station import ROOT, Contracts, Station, head_item, memory_batches, state_item
from chainmemory.chain.outcome import ElementResult, Outcome
from chainmemory.chain.types import Log, Receipt
from chainmemory.logging import log
from chainmemory.protocol.hashing import ZERO
from chainmemory.protocol.identity import account_ref, ledger_id
from chainmemory.protocol.times import format_time
from chainmemory.store.leases import Lease
from chainmemory.store.outbox import Anchored
from chainmemory.store.outbox_rows import FAILED, HEAD, MEMORY, PENDING, STATE, SUBMITTED, OutboxRow
from chainmemory.store.tx import Tx

OPEN_ROWS = (PENDING, FAILED, SUBMITTED)


@dataclass
class Verdicts:
    """What is now known of rows, to be written in one go."""

    anchored: list[Anchored] = field(default_factory=list)
    covered: dict[int, str] = field(default_factory=dict)
    conflicts: dict[int, str] = field(default_factory=dict)
    again: dict[int, str] = field(default_factory=dict)
    """Rows to send again after a while, with the reason."""
    lacking: dict[str, int] = field(default_factory=dict)
    """Projects of which the chain has less than we thought: their latest version there."""

    def write(self, tx: Tx, lease: Lease, *, now: str, retry_at: str) -> None:
        """Write them all in the open transaction; only the lease's holder can."""
        tx.outbox.mark_anchored(lease, self.anchored)
        for reason, ids in _by_reason(self.covered).items():
            tx.outbox.mark_covered(lease, ids, reason=reason)
        for reason, ids in _by_reason(self.conflicts).items():
            tx.outbox.mark_conflict(lease, ids, reason=reason)
        for reason, ids in _by_reason(self.again).items():
            tx.outbox.mark_failed(lease, ids, reason=reason, next_attempt_at=retry_at)
        for project_id, version in self.lacking.items():
            tx.worker.requeue_states_above(lease, project_id, version, now=now)

    def tell(self, notice: Callable[[str], None]) -> None:
        """Say loudly where the chain holds other hashes: nothing that the worker does mends that."""
        if not self.conflicts:
            return
        words = (
            f"The chain holds other hashes than the store in {len(self.conflicts)} "
            f"{'place' if len(self.conflicts) == 1 else 'places'}, and keeps them: most likely the store was "
            "put back from a backup older than what was anchored, or lost its last writes. `chainmemory "
            "anchors list --status conflict` and `chainmemory verify --all` say where."
        )
        log.error(words, action="worker.conflict", outbox_ids=sorted(self.conflicts)[:20])
        notice(words)

    @property
    def count(self) -> int:
        return len(self.anchored) + len(self.covered) + len(self.conflicts) + len(self.again)


class Judge:
    """Asks receipts and contracts; reads the chain only."""

    def __init__(self, station: Station, contracts: Contracts) -> None:
        self._station = station
        self._contracts = contracts
        self._times: dict[str, str] = {}

    @cached_property
    def _first_block(self) -> int:
        return self._contracts.deployment.first_block

    # -- from a receipt ---------------------------------------------------------------------------

    def read_receipt(self, kind: str, rows: Sequence[OutboxRow], receipt: Receipt) -> Verdicts:
        """Judge the rows of a successful transaction, given in call order, by its events.

        Rows that are done already are left alone. Raises CodeMismatch where a row has no event.
        """
        verdicts = Verdicts()
        if kind == ROOT:
            root = tree_of(rows).root
            self._under(root, self._contracts.anchors.root_result(receipt, root), rows, verdicts)
            return verdicts
        for row, result in zip(rows, self._results(kind, list(rows), receipt), strict=True):
            if row.status not in OPEN_ROWS:
                continue
            if result.outcome is Outcome.WRITTEN:
                verdicts.anchored.append(self._anchored(row, result))
            else:
                self._judge_refusal(kind, row, result, verdicts)
        return verdicts

    def _results(self, kind: str, rows: list[OutboxRow], receipt: Receipt) -> list[ElementResult]:
        if kind == MEMORY:
            batches = self._contracts.registry.results(receipt, memory_batches(rows))
            return [result for batch in batches for result in batch]
        if kind == STATE:
            return self._contracts.anchors.state_results(receipt, [state_item(row) for row in rows])
        return self._contracts.anchors.head_results(receipt, [head_item(row) for row in rows])

    def _judge_refusal(self, kind: str, row: OutboxRow, result: ElementResult, verdicts: Verdicts) -> None:
        match result.outcome:
            case Outcome.ALREADY_THERE:
                # Another transaction wrote it; its own event says where. (For a memory: whether it is it.)
                self.ask([row], verdicts)
            case Outcome.CONFLICT:
                verdicts.conflicts[row.id] = _conflict(kind, row.position, result.held)
            case Outcome.BEHIND:
                verdicts.covered[row.id] = _behind(kind, row.position)
            case Outcome.GAP:
                latest, _ = self._contracts.anchors.latest(row.subject)
                verdicts.lacking[row.subject] = latest
                verdicts.again[row.id] = (
                    f"The contract has this project up to version {latest}; those below {row.position} "
                    "are sent first."
                )
            case other:
                verdicts.again[row.id] = f"The contract refused it ({other.name.lower()})."

    # -- from the contract ------------------------------------------------------------------------

    def ask(self, rows: Sequence[OutboxRow], verdicts: Verdicts) -> None:
        """Judge rows by what the contracts hold, without a receipt; what isn't there is to be sent again."""
        asks: dict[str, Callable[[OutboxRow, Verdicts], None]] = {
            MEMORY: self._ask_memory,
            STATE: self._ask_state,
            HEAD: self._ask_head,
        }
        for row in rows:
            if row.status in OPEN_ROWS:
                asks[row.kind](row, verdicts)

    def find_root(self, rows: Sequence[OutboxRow], verdicts: Verdicts) -> bool:
        """Look for the root over these states, in their order, and judge them by it; False where it's not
        on chain.
        """
        root = tree_of(rows).root
        log = self._contracts.anchors.root_log(root, from_block=self._first_block)
        if log is not None:
            self._under(root, log, rows, verdicts)
        return log is not None

    def _under(self, root: str, log: Log, rows: Sequence[OutboxRow], verdicts: Verdicts) -> None:
        """Note the open ones of these rows as anchored by a root's event; their anchor id is the root."""
        result = ElementResult(Outcome.WRITTEN, log, root)
        verdicts.anchored.extend(self._anchored(row, result) for row in rows if row.status in OPEN_ROWS)

    def _ask_memory(self, row: OutboxRow, verdicts: Verdicts) -> None:
        reference = account_ref(row.subject)
        found = self._contracts.registry.find(reference, row.position, from_block=self._first_block)
        if found is None:
            verdicts.again[row.id] = _GONE
        elif found.event_hash != row.hash:
            verdicts.conflicts[row.id] = _conflict(MEMORY, row.position, found.event_hash)
        else:
            first = self._contracts.registry.first_recorded(found)
            verdicts.anchored.append(
                Anchored(
                    row.id,
                    found.tx_hash,
                    found.block_number,
                    found.block_hash,
                    None if first is None else str(first),
                    self._time_of(found.block_hash),
                )
            )

    def _ask_state(self, row: OutboxRow, verdicts: Verdicts) -> None:
        anchors = self._contracts.anchors
        (held,) = anchors.state_hashes_of(row.subject, row.position, 1)
        if held == ZERO:
            first = anchors.project_of(row.subject).first_version
            if first and row.position < first:
                verdicts.covered[row.id] = _behind(STATE, row.position)
            else:
                verdicts.again[row.id] = _GONE
        elif held != row.hash:
            verdicts.conflicts[row.id] = _conflict(STATE, row.position, held)
        else:
            event = anchors.state_event(row.subject, row.position, from_block=self._first_block)
            if event is None:
                verdicts.again[row.id] = _UNSEEN
            else:
                result = ElementResult(Outcome.WRITTEN, event.log, str(event.args["anchorId"]))
                verdicts.anchored.append(self._anchored(row, result))

    def _ask_head(self, row: OutboxRow, verdicts: Verdicts) -> None:
        anchors, ledger = self._contracts.anchors, ledger_id(row.subject)
        held = anchors.head_of(ledger, row.position)
        if held == ZERO:
            latest, _ = anchors.latest_head(ledger)
            if latest > row.position:
                verdicts.covered[row.id] = _behind(HEAD, row.position)
            else:
                verdicts.again[row.id] = _GONE
        elif held != f"0x{row.hash}":
            verdicts.conflicts[row.id] = _conflict(HEAD, row.position, held)
        else:
            event = anchors.head_event(ledger, row.position, from_block=self._first_block)
            if event is None:
                verdicts.again[row.id] = _UNSEEN
            else:
                verdicts.anchored.append(self._anchored(row, ElementResult(Outcome.WRITTEN, event.log)))

    # -- underneath -------------------------------------------------------------------------------

    def _anchored(self, row: OutboxRow, result: ElementResult) -> Anchored:
        log = result.log
        return Anchored(
            row.id,
            log.tx_hash,
            log.block_number,
            log.block_hash,
            result.anchor_id,
            self._time_of(log.block_hash),
        )

    def _time_of(self, block_hash: str) -> str:
        if block_hash not in self._times:
            block = self._station.gateway.block(block_hash)
            if len(self._times) > 1_000:
                self._times.clear()
            # A block that went away meanwhile is found by the re-check; its time matters little until then.
            self._times[block_hash] = _moment(block.timestamp) if block else self._station.clock.now()
        return self._times[block_hash]


_GONE = "Its transaction is gone without a trace, and the contract doesn't have it; it is sent again."
_UNSEEN = "The contract holds it, but the node doesn't find the event that says since when."


def _moment(unix: int) -> str:
    return format_time(datetime.fromtimestamp(unix, UTC))


def _conflict(kind: str, position: int, held: str | None) -> str:
    what = {MEMORY: "memory number", STATE: "version", HEAD: "ledger position"}[kind]
    return (
        f"The contract holds another hash ({held}) for {what} {position}; what is on chain stays for ever, "
        "so this is not sent again."
    )


def _behind(kind: str, position: int) -> str:
    if kind == STATE:
        return (
            f"Version {position} lies before this project's first anchor on this contract; it is covered by "
            "that one's previous_state_hash."
        )
    return f"A later head of this ledger than {position} is anchored; it covers this one."


def _by_reason(reasons: dict[int, str]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for row_id, reason in reasons.items():
        grouped[reason].append(row_id)
    return grouped
