"""MemoryRegistry in Python: which memories are recorded, with what, and under which root (protocol §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chainmemory.chain.abi import Event, abi_of, submitter_role
from chainmemory.chain.failures import CodeMismatch
from chainmemory.chain.gateway import BlockTag, Gateway
from chainmemory.chain.outcome import ElementResult, Outcome
from chainmemory.chain.types import Receipt
from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.hashing import hex32, parse_hex32

NAME = "MemoryRegistry"
# The contract's limits.
MAX_CIPHERTEXT = 64 * 1024
MAX_PAGE = 256
# `Payload.category` of MemoryRegistry.sol.
CATEGORY_CODES = {
    "DECISION": 1,
    "LEARNING": 2,
    "INTERACTION": 3,
    "STATE": 4,
    "ERROR": 5,
    "MILESTONE": 6,
    "CUSTOM": 7,
}


@dataclass(frozen=True, slots=True)
class Payload:
    """What goes on chain beside a memory's hash, where the deployment says so."""

    category: str
    importance: int
    content_length: int
    """Bytes of the plaintext."""
    ciphertext: bytes
    """The stored blob, as protocol §4."""


@dataclass(frozen=True, slots=True)
class MemoryBatch:
    """Consecutive memories of one account; `payloads` has one entry (or None) for each hash."""

    account_ref: str
    first_number: int
    event_hashes: tuple[str, ...]
    payloads: tuple[Payload | None, ...]

    @property
    def root(self) -> str:
        """The batch's evidence root (protocol §6)."""
        return evidence_root(self.event_hashes)


@dataclass(frozen=True, slots=True)
class MemoryOnChain:
    """A memory as the chain's logs hold it."""

    account_ref: str
    number: int
    event_hash: str
    payload: Payload | None
    block_number: int
    block_hash: str
    tx_hash: str


class MemoryRegistry:
    """One deployed MemoryRegistry."""

    def __init__(self, gateway: Gateway, address: str) -> None:
        self._gateway = gateway
        self.address = address
        self.abi = abi_of(NAME)

    # -- reading ----------------------------------------------------------------------------------

    def root_of(self, account_ref: str, first_recorded: int, *, block: BlockTag = "latest") -> str:
        """Return the root of the batch whose first recorded number this is, ZERO where there is none."""
        return hex32(self._read("rootOf", parse_hex32(account_ref), first_recorded, block=block)[0])

    def are_recorded(
        self, account_ref: str, first: int, count: int, *, block: BlockTag = "latest"
    ) -> list[bool]:
        """Say for `count` consecutive numbers whether they are recorded; any count."""
        recorded: list[bool] = []
        for start in range(first, first + count, MAX_PAGE):
            size = min(MAX_PAGE, first + count - start)
            (page,) = self._read("areRecorded", parse_hex32(account_ref), start, size, block=block)
            recorded += page
        return recorded

    def is_submitter(self, address: str) -> bool:
        return bool(self._read("hasRole", submitter_role(), address)[0])

    def find(self, account_ref: str, number: int, *, from_block: int) -> MemoryOnChain | None:
        """Find a memory's log by account and number; None where it isn't recorded."""
        return self._find([self._recorded_topics(), account_ref, f"0x{number:064x}"], from_block)

    def find_hash(self, event_hash: str, *, from_block: int) -> MemoryOnChain | None:
        """Find the first memory recorded with this event hash; None where there is none."""
        return self._find([self._recorded_topics(), None, None, event_hash], from_block)

    def first_recorded(self, memory: MemoryOnChain) -> int | None:
        """Return the key of the batch root over a recorded memory, as `root_of` takes it."""
        logs = self._gateway.logs(
            self.address,
            [self.abi.topic("BatchRecorded"), memory.account_ref],
            from_block=memory.block_number,
            to_block=memory.block_number,
        )
        for log in logs:
            event = self.abi.event(log)
            if event is None or log.tx_hash != memory.tx_hash:
                continue
            first = event.args["firstNumber"]
            if first <= memory.number < first + event.args["count"]:
                return int(event.args["firstRecorded"])
        return None

    # -- writing ----------------------------------------------------------------------------------

    def encode(self, batches: Sequence[MemoryBatch]) -> bytes:
        """Return the calldata of `recordMany`."""
        return self.abi.encode("recordMany", [_batch(batch) for batch in batches])

    def results(self, receipt: Receipt, batches: Sequence[MemoryBatch]) -> list[list[ElementResult]]:
        """Read from a receipt what became of each memory, batch by batch.

        A written memory's `anchor_id` is the first number its batch recorded: `root_of` takes it.
        Raises CodeMismatch where a memory has no event.
        """
        events = [
            event
            for log in receipt.logs
            if log.address.lower() == self.address.lower() and (event := self.abi.event(log)) is not None
        ]
        return [self._batch_results(events, batch) for batch in batches]

    # -- underneath -------------------------------------------------------------------------------

    def _batch_results(self, events: Sequence[Event], batch: MemoryBatch) -> list[ElementResult]:
        numbers = range(batch.first_number, batch.first_number + len(batch.event_hashes))
        told: dict[int, ElementResult] = {}
        first_recorded: str | None = None
        for event in events:
            number: int = event.args.get("number", 0)
            if event.args.get("accountRef") != batch.account_ref or number not in numbers:
                continue
            if event.name in ("MemoryRecorded", "MemoryRecordedWithPayload"):
                first_recorded = first_recorded or str(number)
                told[number] = ElementResult(Outcome.WRITTEN, event.log, first_recorded)
            elif event.name == "MemorySkipped":
                told.setdefault(number, ElementResult(Outcome(event.args["reason"]), event.log))
        missing = [number for number in numbers if number not in told]
        if missing:
            raise CodeMismatch(
                f"The transaction succeeded without an event for {len(missing)} of {len(numbers)} memories: "
                "another contract, or none, lies at this address."
            )
        return [told[number] for number in numbers]

    def _read(self, function: str, *args: Any, block: BlockTag = "latest") -> tuple[Any, ...]:
        answer = self._gateway.call(self.address, self.abi.encode(function, *args), block=block)
        return self.abi.decode(function, answer)

    def _recorded_topics(self) -> list[str]:
        return [self.abi.topic("MemoryRecorded"), self.abi.topic("MemoryRecordedWithPayload")]

    def _find(self, topics: list[Any], from_block: int) -> MemoryOnChain | None:
        logs = self._gateway.logs(self.address, topics, from_block=from_block)
        event = self.abi.event(logs[0]) if logs else None
        return _on_chain(event) if event else None


def _batch(batch: MemoryBatch) -> tuple[Any, ...]:
    with_payloads = any(payload is not None for payload in batch.payloads)
    return (
        parse_hex32(batch.account_ref),
        batch.first_number,
        [parse_hex32(event_hash) for event_hash in batch.event_hashes],
        [_payload(payload) for payload in batch.payloads] if with_payloads else [],
        parse_hex32(batch.root),
    )


def _payload(payload: Payload | None) -> tuple[int, int, int, bytes]:
    if payload is None:
        return (0, 0, 0, b"")
    return (
        CATEGORY_CODES[payload.category],
        payload.importance,
        payload.content_length,
        payload.ciphertext,
    )


def _on_chain(event: Event) -> MemoryOnChain:
    args, payload = event.args, None
    if event.name == "MemoryRecordedWithPayload":
        names = {code: name for name, code in CATEGORY_CODES.items()}
        payload = Payload(
            names.get(args["category"], "CUSTOM"),
            args["importance"],
            args["contentLength"],
            args["ciphertext"],
        )
    log = event.log
    return MemoryOnChain(
        args["accountRef"],
        args["number"],
        args["eventHash"],
        payload,
        log.block_number,
        log.block_hash,
        log.tx_hash,
    )
