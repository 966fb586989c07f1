"""ProjectStateAnchor in Python: project states and ledger heads, as the contract holds them (protocol §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chainmemory.chain.abi import Event, abi_of, submitter_role
from chainmemory.chain.failures import CodeMismatch
from chainmemory.chain.gateway import BlockTag, Gateway
from chainmemory.chain.merkle import State
from chainmemory.chain.outcome import ElementResult, Outcome
from chainmemory.chain.types import Log, Receipt
from chainmemory.protocol.evidence import Proof
from chainmemory.protocol.hashing import ZERO, hex32, parse_hex32

NAME = "ProjectStateAnchor"
# The contract's MAX_PAGE: the most versions `stateHashesOf` answers at once.
MAX_PAGE = 256


@dataclass(frozen=True, slots=True)
class StateItem:
    """One version of a project's state; hashes are hex32."""

    project_id: str
    version: int
    state_hash: str


@dataclass(frozen=True, slots=True)
class HeadItem:
    """One head of a ledger; `ledger_id` and `entry_hash` are hex32 (the contract knows no other form)."""

    ledger_id: str
    seq: int
    entry_hash: str


@dataclass(frozen=True, slots=True)
class ProjectOnChain:
    """What the contract knows of a project; all zero where it has no anchor."""

    first_version: int
    latest_version: int
    latest_anchor_id: int
    latest_anchored_at: int


class StateAnchors:
    """One deployed ProjectStateAnchor. Reads take a block to read at; they raise as `Gateway` does."""

    def __init__(self, gateway: Gateway, address: str) -> None:
        self._gateway = gateway
        self.address = address
        self.abi = abi_of(NAME)

    # -- reading ----------------------------------------------------------------------------------

    def state_hashes_of(
        self, project_id: str, first: int, count: int, *, block: BlockTag = "latest"
    ) -> list[str]:
        """Return the hashes anchored for `count` versions from `first` on, ZERO where none is; any count."""
        hashes: list[str] = []
        for start in range(first, first + count, MAX_PAGE):
            size = min(MAX_PAGE, first + count - start)
            (page,) = self._read("stateHashesOf", parse_hex32(project_id), start, size, block=block)
            hashes += [hex32(value) for value in page]
        return hashes

    def latest(self, project_id: str, *, block: BlockTag = "latest") -> tuple[int, str]:
        """Return a project's latest anchored version and its hash; (0, ZERO) where there is none."""
        version, state_hash = self._read("latest", parse_hex32(project_id), block=block)
        return int(version), hex32(state_hash)

    def project_of(self, project_id: str, *, block: BlockTag = "latest") -> ProjectOnChain:
        """Return first and latest version, the latest one's anchor id and time (Unix seconds)."""
        (project,) = self._read("projectOf", parse_hex32(project_id), block=block)
        return ProjectOnChain(*(int(value) for value in project))

    def head_of(self, ledger_id: str, seq: int, *, block: BlockTag = "latest") -> str:
        """Return the entry hash anchored for a place in a ledger (hex32), ZERO where none is."""
        return hex32(self._read("headOf", parse_hex32(ledger_id), seq, block=block)[0])

    def latest_head(self, ledger_id: str, *, block: BlockTag = "latest") -> tuple[int, str]:
        """Return a ledger's latest anchored head; (0, ZERO) where there is none."""
        seq, entry_hash = self._read("latestHead", parse_hex32(ledger_id), block=block)
        return int(seq), hex32(entry_hash)

    def anchor_count(self, *, block: BlockTag = "latest") -> int:
        return int(self._read("anchorCount", block=block)[0])

    def is_submitter(self, address: str) -> bool:
        return bool(self._read("hasRole", submitter_role(), address)[0])

    def state_event(self, project_id: str, version: int, *, from_block: int) -> Event | None:
        """Find the event that anchored a version; None where there is none."""
        topics = [self.abi.topic("StateAnchored"), None, project_id, _topic(version)]
        return self._first_event(topics, from_block)

    def head_event(self, ledger_id: str, seq: int, *, from_block: int) -> Event | None:
        """Find the event that anchored a ledger's head; None where there is none."""
        return self._first_event([self.abi.topic("HeadAnchored"), ledger_id, _topic(seq)], from_block)

    def root_log(self, root: str, *, from_block: int, to_block: BlockTag = "latest") -> Log | None:
        """Find the first event that anchored a Merkle root (hex32); None where there is none."""
        topics = [self.abi.topic("RootAnchored"), root]
        logs = self._gateway.logs(self.address, topics, from_block=from_block, to_block=to_block)
        return logs[0] if logs else None

    def verify_in_root(self, root: str, state: State, proof: Proof, *, block: BlockTag = "latest") -> bool:
        """Ask the contract whether a state is under a root; it doesn't look whether the root is anchored."""
        item = (parse_hex32(state.project_id), state.version, parse_hex32(state.state_hash))
        path = [parse_hex32(step) for step in proof.path]
        (holds,) = self._read(
            "verifyInRoot", parse_hex32(root), item, proof.index, proof.size, path, block=block
        )
        return bool(holds)

    # -- writing (calldata; the worker signs and sends) -------------------------------------------

    def encode_states(self, items: Sequence[StateItem]) -> bytes:
        """Return the calldata of `anchorBatch`; versions of one project ascending."""
        return self.abi.encode(
            "anchorBatch",
            [(parse_hex32(item.project_id), item.version, parse_hex32(item.state_hash)) for item in items],
        )

    def encode_heads(self, items: Sequence[HeadItem]) -> bytes:
        """Return the calldata of `anchorHeads`."""
        return self.abi.encode(
            "anchorHeads",
            [(parse_hex32(item.ledger_id), item.seq, parse_hex32(item.entry_hash)) for item in items],
        )

    def encode_root(self, root: str, count: int) -> bytes:
        """Return the calldata of `anchorRoot` for a root (hex32) over `count` states."""
        return self.abi.encode("anchorRoot", parse_hex32(root), count)

    def root_result(self, receipt: Receipt, root: str) -> Log:
        """Return the event by which a transaction anchored a root. Raises CodeMismatch where it didn't."""
        for event in self._events(receipt):
            if event.name == "RootAnchored" and event.args["root"] == root:
                return event.log
        raise CodeMismatch(
            "The transaction succeeded without an event for its root: another contract, or none, lies at "
            "this address."
        )

    def state_results(self, receipt: Receipt, items: Sequence[StateItem]) -> list[ElementResult]:
        """Read from a batch's receipt what became of each item.

        Raises CodeMismatch where an item has no event: then something else lies at the address.
        """
        told: dict[tuple[str, int], ElementResult] = {}
        for event in self._events(receipt):
            place = (event.args.get("projectId", ""), event.args.get("version", 0))
            if event.name == "StateAnchored":
                told[place] = ElementResult(Outcome.WRITTEN, event.log, str(event.args["anchorId"]))
            elif event.name == "StateSkipped":
                told.setdefault(place, _skipped(event))
        return _in_order(told, [(item.project_id, item.version) for item in items])

    def head_results(self, receipt: Receipt, items: Sequence[HeadItem]) -> list[ElementResult]:
        """Read from a batch's receipt what became of each head. Raises as `state_results`."""
        told: dict[tuple[str, int], ElementResult] = {}
        for event in self._events(receipt):
            place = (event.args.get("ledgerId", ""), event.args.get("seq", 0))
            if event.name == "HeadAnchored":
                told[place] = ElementResult(Outcome.WRITTEN, event.log)
            elif event.name == "HeadSkipped":
                told.setdefault(place, _skipped(event))
        return _in_order(told, [(item.ledger_id, item.seq) for item in items])

    # -- underneath -------------------------------------------------------------------------------

    def _read(self, function: str, *args: Any, block: BlockTag = "latest") -> tuple[Any, ...]:
        answer = self._gateway.call(self.address, self.abi.encode(function, *args), block=block)
        return self.abi.decode(function, answer)

    def _first_event(self, topics: list[str | None], from_block: int) -> Event | None:
        logs = self._gateway.logs(self.address, topics, from_block=from_block)
        return self.abi.event(logs[0]) if logs else None

    def _events(self, receipt: Receipt) -> list[Event]:
        ours = [log for log in receipt.logs if log.address.lower() == self.address.lower()]
        return [event for log in ours if (event := self.abi.event(log)) is not None]


def _skipped(event: Event) -> ElementResult:
    held = event.args["heldHash"]
    return ElementResult(Outcome(event.args["reason"]), event.log, held=None if held == ZERO else held)


def _in_order(
    told: dict[tuple[str, int], ElementResult], places: Sequence[tuple[str, int]]
) -> list[ElementResult]:
    missing = [place for place in places if place not in told]
    if missing:
        raise CodeMismatch(
            f"The transaction succeeded without an event for {len(missing)} of {len(places)} elements: "
            "another contract, or none, lies at this address."
        )
    return [told[place] for place in places]


def _topic(number: int) -> str:
    return f"0x{number:064x}"
