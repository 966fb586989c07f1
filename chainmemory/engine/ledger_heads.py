"""The heads of an account's ledger that the contract holds: read there, never from the store (§5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainmemory.errors import ConfigurationError, NotFound, Unavailable
from chainmemory.protocol.identity import ledger_id

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine


@dataclass(frozen=True, slots=True)
class AnchoredHeads:
    """Every head anchored for one ledger."""

    by_position: dict[int, str]
    """Entry hash (64 hex digits) by position."""
    tx_hash: str | None
    """The transaction that anchored the last one."""

    @property
    def last(self) -> int | None:
        """The highest position; None where nothing was anchored yet."""
        return max(self.by_position, default=None)


def anchored_heads(engine: Engine, account_id: str) -> AnchoredHeads | None:
    """Return the anchored heads; None where the chain or the contract can't be reached.

    A contract that isn't deployed yet, as far as the store knows, counts as out of reach: who can write the
    store could make it forget.
    """
    ledger = ledger_id(account_id)
    try:
        contracts = engine.chain.contracts()
        anchors = contracts.anchors
        logs = contracts.reader.gateway.logs(
            anchors.address,
            [anchors.abi.topic("HeadAnchored"), ledger],
            from_block=contracts.first_block,
        )
        last, last_hash = anchors.latest_head(ledger)
    except (Unavailable, NotFound, ConfigurationError):
        return None
    heads: dict[int, str] = {}
    by_transaction: dict[int, str] = {}
    for log in logs:
        event = anchors.abi.event(log)
        if event is not None:
            heads[event.args["seq"]] = event.args["entryHash"].removeprefix("0x")
            by_transaction[event.args["seq"]] = log.tx_hash
    if last:
        heads[last] = last_hash.removeprefix("0x")
    return AnchoredHeads(heads, by_transaction.get(max(heads, default=0)))


def as_json(heads: AnchoredHeads | None, *, matches: bool | None) -> dict[str, Any]:
    """Return `anchored_head` of a report; all null where there is none, or the chain can't be reached."""
    last = heads.last if heads is not None else None
    if heads is None or last is None:
        return {"seq": None, "hash": None, "matches": None, "tx_hash": None}
    return {"seq": last, "hash": heads.by_position[last], "matches": matches, "tx_hash": heads.tx_hash}
