"""An address: a contract of ours with what it did last, another contract, an authority, or an account."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from eth_hash.auto import keccak

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.decode import decode_event, event_topics
from chainmemory.engine.explorer.directory import Known
from chainmemory.engine.explorer.scan import Scan, look_back
from chainmemory.engine.explorer.visit import Visit, When

ACTIONS: Final = 15
_WATCHED: Final = {
    STATE_ANCHOR: ("StateAnchored", "StateSkipped", "HeadAnchored", "HeadSkipped", "RootAnchored"),
    # A memory's own log may hold its ciphertext: the batch's says enough here.
    MEMORY_REGISTRY: ("BatchRecorded",),
}
_ROLES: Final = ("RoleGranted", "RoleRevoked")


@dataclass(frozen=True, slots=True)
class Action:
    """A transaction in which one of our contracts logged something."""

    tx_hash: str
    block_number: int
    when: When | None
    events: tuple[tuple[str, int], ...]
    """Event names and how many of each."""


@dataclass(frozen=True, slots=True)
class AddressView:
    """What an address is."""

    address: str
    balance: int
    nonce: int
    code_size: int
    code_hash: str | None
    known: Known | None
    signs: bool
    submits: tuple[str, ...]
    """The contracts of this deployment that it may write to."""
    actions: tuple[Action, ...]
    scan: Scan | None
    next: int | None
    """The block to look back from for earlier actions."""


def address_view(visit: Visit, address: str, until: int | None) -> AddressView:
    """Return what an address is now; `until` is the block to look back from for its contract's actions."""
    reader = visit.reader
    code = reader.code(address)
    known = visit.directory.identify(address) if code else None
    scan = _scan(visit, address, known, until) if known is not None else None
    actions: tuple[Action, ...] = ()
    following = None
    if known is not None and scan is not None:
        actions, following = _actions(visit, known.contract, scan)
    return AddressView(
        address,
        reader.balance(address),
        reader.nonce(address),
        len(code),
        "0x" + keccak(code).hex() if code else None,
        known,
        address in (reader.signers(visit.head.number) or []),
        _submits(visit, address),
        actions,
        scan,
        following,
    )


def _submits(visit: Visit, address: str) -> tuple[str, ...]:
    contracts = visit.contracts
    if contracts is None:
        return ()
    run = visit.reader.run
    both = {
        STATE_ANCHOR: run(lambda: contracts.anchors.is_submitter(address)),
        MEMORY_REGISTRY: run(lambda: contracts.registry.is_submitter(address)),
    }
    return tuple(name for name, may in both.items() if may)


def _scan(visit: Visit, address: str, known: Known, until: int | None) -> Scan:
    floor = visit.contracts.first_block if visit.contracts is not None and known.ours else 0
    top = visit.head.number if until is None else min(until, visit.head.number)
    topics = event_topics(known.contract, *_WATCHED[known.contract], *_ROLES)
    return look_back(visit.reader, visit.dense_pace, address, [topics], top=top, floor=floor, want=ACTIONS)


def _actions(visit: Visit, contract: str, scan: Scan) -> tuple[tuple[Action, ...], int | None]:
    """Group logs by transaction, newest first; a block isn't split, so the next page starts below one."""
    by_transaction: dict[str, list[Log]] = {}
    following = scan.next
    for log, before in zip(scan.logs, (None, *scan.logs), strict=False):
        if len(by_transaction) >= ACTIONS and before is not None and log.block_number < before.block_number:
            following = log.block_number
            break
        by_transaction.setdefault(log.tx_hash, []).append(log)
    shown = {logs[0].block_number for logs in by_transaction.values()}
    visit.reader.each(visit.reader.numbered, shown)
    actions = tuple(
        Action(
            tx_hash,
            logs[0].block_number,
            visit.block_time(logs[0].block_number),
            tuple(Counter(_name(contract, log) for log in reversed(logs)).items()),
        )
        for tx_hash, logs in by_transaction.items()
    )
    return actions, following


def _name(contract: str, log: Log) -> str:
    event = decode_event(contract, log)
    return event.name if event is not None else "unknown"
