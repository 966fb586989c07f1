"""What the contracts hold for a store, read from all of their events (protocol §8): each thing exactly once,
with its very hash, and where the store says."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from eth_hash.auto import keccak

from chainmemory.errors import IntegrityError
from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.hashing import ZERO, hex32, parse_hex32
from chainmemory.protocol.identity import account_ref, ledger_id
from chainmemory.verify.findings import AccountChecked, Report
from chainmemory.verify.queue import ANCHORED, COVERED, Queue, QueueRow
from chainmemory.verify.rpc import Chain, Log, topic, word

ANCHORS, REGISTRY = "ProjectStateAnchor", "MemoryRegistry"

_STATE: Final = "StateAnchored(uint64,bytes32,uint64,bytes32,uint64,address)"
_HEAD: Final = "HeadAnchored(bytes32,uint64,bytes32,uint64,address)"
_ROOT: Final = "RootAnchored(bytes32,address,uint32,uint64)"
_MEMORY: Final = "MemoryRecorded(bytes32,uint64,bytes32)"
_PAYLOAD: Final = "MemoryRecordedWithPayload(bytes32,uint64,bytes32,uint8,uint8,uint32,bytes)"
_BATCH: Final = "BatchRecorded(bytes32,uint64,bytes32,uint64,uint64,uint64)"
_PAGE: Final = 256
_LEAF: Final = keccak(b"CM_ANCHOR_LEAF_V1")
_NODE: Final = keccak(b"CM_ANCHOR_NODE_V1")


class Written(NamedTuple):
    """Something a contract wrote, and where."""

    hash: str
    tx_hash: str
    block_number: int
    block_hash: str
    anchor_id: str | None = None
    ciphertext: str | None = None
    """SHA-256 of the ciphertext that went along with a memory."""


class Batch(NamedTuple):
    """A batch of memories as it was submitted, and the root stored for it."""

    first_recorded: int
    root: str
    first: int
    size: int


@dataclass
class Stored:
    """What a store says of one account, to be compared with the chain."""

    checked: AccountChecked
    memories: Mapping[int, str]
    blobs: Mapping[int, str]
    states: Mapping[tuple[str, int], str]
    ledger: Mapping[int, str]
    queue: Queue


@dataclass
class OnChain:
    """All that both contracts wrote, by subject."""

    states: dict[str, dict[int, list[Written]]] = field(default_factory=lambda: defaultdict(_lists))
    heads: dict[str, dict[int, list[Written]]] = field(default_factory=lambda: defaultdict(_lists))
    memories: dict[str, dict[int, list[Written]]] = field(default_factory=lambda: defaultdict(_lists))
    batches: dict[str, list[Batch]] = field(default_factory=lambda: defaultdict(list))
    roots: dict[str, list[Written]] = field(default_factory=lambda: defaultdict(list))
    events: int = 0


def _lists() -> dict[int, list[Written]]:
    return defaultdict(list)


def read(chain: Chain, anchors: str, registry: str, *, first: int) -> OnChain:
    """Read every event of both contracts from block `first` on. Raises Unavailable, IntegrityError."""
    found, last = OnChain(), chain.height()
    for log in chain.logs(anchors, [_STATE, _HEAD, _ROOT], first, last):
        found.events += 1
        _take_anchor(found, log)
    for log in chain.logs(registry, [_MEMORY, _PAYLOAD, _BATCH], first, last):
        found.events += 1
        _take_memory(found, log)
    return found


def _take_anchor(found: OnChain, log: Log) -> None:
    place = (log.tx_hash, log.block_number, log.block_hash)
    if log.topics[0] == topic(_STATE):
        anchor_id = str(log.topic_number(1))
        written = Written(hex32(log.word(0)), *place, anchor_id)
        found.states[log.topics[2]][log.topic_number(3)].append(written)
    elif log.topics[0] == topic(_HEAD):
        found.heads[log.topics[1]][log.topic_number(2)].append(Written(log.topics[3], *place))
    else:
        found.roots[log.topics[1]].append(Written(log.topics[1], *place))


def _take_memory(found: OnChain, log: Log) -> None:
    if log.topics[0] == topic(_BATCH):
        batch = Batch(log.topic_number(2), log.topics[3], log.number(0), log.number(1))
        found.batches[log.topics[1]].append(batch)
        return
    ciphertext = None
    if log.topics[0] == topic(_PAYLOAD):
        start = log.number(3)
        length = int.from_bytes(log.data[start : start + 32], "big")
        ciphertext = hashlib.sha256(log.data[start + 32 : start + 32 + length]).hexdigest()
    written = Written(log.topics[3], log.tx_hash, log.block_number, log.block_hash, ciphertext=ciphertext)
    found.memories[log.topics[1]][log.topic_number(2)].append(written)


class Comparison:
    """Compares what a store says with what is on chain."""

    def __init__(self, report: Report, found: OnChain, roots: Mapping[str, tuple[str, str]]) -> None:
        """`roots`: for each transaction that anchored a Merkle root, (the root of what the store says was
        in it, its words if that can't be told)."""
        self._report = report
        self._found = found
        self._roots = roots

    def account(self, stored: Stored) -> None:
        """Compare one account's memories, states and heads."""
        account = stored.checked.account_id
        reference = account_ref(account)
        recorded = self._found.memories.get(reference, {})
        self._compare("memory", account, recorded, stored.memories, stored.queue.memories)
        for number, written in recorded.items():
            self._check_ciphertext(f"memory {number} of {account}", written, stored.blobs.get(number))
        for batch in self._found.batches.get(reference, []):
            self._check_batch(account, batch, recorded)
        stored.checked.anchored = sum(row.status == ANCHORED for row in stored.queue.memories.values())
        heads = {seq: f"0x{entry}" for seq, entry in stored.ledger.items()}
        on_chain = self._found.heads.get(ledger_id(account), {})
        self._compare("ledger head", account, on_chain, heads, stored.queue.heads)
        for project in stored.checked.projects:
            self._project(stored, project.project_id)
            project.anchored = sum(
                row.status == ANCHORED and row.subject == project.project_id
                for row in stored.queue.states.values()
            )

    def _project(self, stored: Stored, project: str) -> None:
        on_chain = self._found.states.get(project, {})
        direct: dict[int, QueueRow] = {}
        for (subject, version), row in stored.queue.states.items():
            if subject != project:
                continue
            if row.status == ANCHORED and (row.anchor_id or "").startswith("0x"):
                self._under_root(row)
            else:
                direct[version] = row
        states = {version: state for (subject, version), state in stored.states.items() if subject == project}
        self._compare("version", project, on_chain, states, direct)
        if on_chain:
            whole = list(range(min(on_chain), max(on_chain) + 1))
            self._report.expect(
                "onchain_gap", f"project {project}", "the versions on chain", whole, sorted(on_chain)
            )
        for version, row in direct.items():
            if row.status == COVERED and not any(above > version for above in on_chain):
                self._report.add("onchain_missing", row.where, "No later version on chain covers it.")

    def _compare(
        self,
        noun: str,
        subject: str,
        on_chain: Mapping[int, list[Written]],
        stored: Mapping[int, str],
        queue: Mapping[int, QueueRow],
    ) -> None:
        report = self._report
        for position, written in sorted(on_chain.items()):
            where = f"{noun} {position} of {subject}"
            if len(written) > 1:
                report.add("onchain_twice", where, f"The contract wrote it {len(written)} times.")
            if position not in stored:
                report.add("store_behind", where, "It is on chain, and the store has nothing of it.")
            else:
                report.expect("onchain_hash", where, "its hash on chain", stored[position], written[-1].hash)
        for position, row in sorted(queue.items()):
            if row.status == ANCHORED:
                self._check_place(row, on_chain.get(position, []))

    def _check_place(self, row: QueueRow, written: list[Written]) -> None:
        if not written:
            self._report.add("onchain_missing", row.where, "It counts as anchored, and isn't on chain.")
            return
        one = written[0]
        self._report.expect(
            "onchain_place",
            row.where,
            "its transaction and block",
            (one.tx_hash, one.block_number, one.block_hash),
            (row.tx_hash, row.block_number, row.block_hash),
        )
        if one.anchor_id is not None:
            self._report.expect("onchain_place", row.where, "its anchor's id", one.anchor_id, row.anchor_id)

    def _under_root(self, row: QueueRow) -> None:
        """Check a state that was anchored under a Merkle root (docs/contracts.md)."""
        root, words = self._roots.get(row.tx_hash or "", ("", "No stored transaction says what was in it."))
        if words:
            self._report.add("root_unknown", row.where, words)
            return
        self._report.expect("root", row.where, "the root it is under", root, row.anchor_id)
        place = (row.tx_hash, row.block_number, row.block_hash)
        if place not in {written[1:4] for written in self._found.roots.get(root, [])}:
            self._report.add("onchain_missing", row.where, "The root it is under isn't on chain there.")

    def _check_ciphertext(self, where: str, written: list[Written], blob: str | None) -> None:
        for one in written:
            if one.ciphertext is not None and blob is not None:
                self._report.expect(
                    "onchain_ciphertext", where, "the ciphertext's hash on chain", blob, one.ciphertext
                )

    def _check_batch(self, account: str, batch: Batch, recorded: Mapping[int, list[Written]]) -> None:
        where = f"batch from memory {batch.first_recorded} of {account}"
        numbers = range(batch.first, batch.first + batch.size)
        hashes = [recorded[number][0].hash for number in numbers if number in recorded]
        self._report.expect("batch_root", where, "its root", evidence_root(hashes), batch.root)


def check_storage(
    chain: Chain, report: Report, anchors: str, project: str, states: Mapping[int, str], found: OnChain
) -> None:
    """Compare what the contract answers for a project's versions with what it logged."""
    logged = found.states.get(project, {})
    if not logged:
        return
    first, last = min(logged), max(logged)
    for start in range(first, last + 1, _PAGE):
        count = min(_PAGE, last + 1 - start)
        answer = chain.call(
            anchors, "stateHashesOf(bytes32,uint64,uint256)", parse_hex32(project), word(start), word(count)
        )
        held = [hex32(answer[at : at + 32]) for at in range(64, 64 + 32 * count, 32)]
        for version, hashed in enumerate(held, start=start):
            wanted = states.get(version, logged[version][0].hash if version in logged else ZERO)
            report.expect(
                "onchain_hash", f"version {version} of {project}", "what the contract answers", wanted, hashed
            )


def merkle_root(leaves: Iterable[tuple[Any, ...]]) -> str:
    """Return the root over (project id, version, state hash), hex32; RFC 9162's tree with Keccak-256."""
    level = [
        keccak(_LEAF + parse_hex32(project) + word(version) + parse_hex32(state))
        for project, version, state in leaves
    ]
    if not level:
        raise IntegrityError("A tree needs a leaf.")
    while len(level) > 1:
        pairs = [keccak(_NODE + level[at] + level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return hex32(level[0])
