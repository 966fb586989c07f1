"""Moving to other contracts, or to another chain: what was witnessed there isn't here (protocol §8).

Each project goes on with its next version, or with its latest again where none waits: that is its first
anchor on the new contract, and what lies below is `covered`, proved through `previous_state_hash`. Memories
are recorded again, and each ledger's latest head is anchored again.
"""

from __future__ import annotations

from chainmemory.anchoring.station import ROOT, Contracts, Station
from chainmemory.chain.signer import read_call
from chainmemory.logging import log
from chainmemory.store.leases import Lease
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE
from chainmemory.store.tx import Tx

_COVERED = "It was anchored on an earlier contract; on this one a later one of its kind covers it."


def move_if_needed(station: Station, lease: Lease, contracts: Contracts) -> bool:
    """Put the outbox back to what these contracts lack, if the last transactions went to others.

    Returns whether it did. A crash in between leaves either all or nothing of it.
    """
    addresses = {
        MEMORY: contracts.registry.address,
        STATE: contracts.anchors.address,
        ROOT: contracts.anchors.address,
        HEAD: contracts.anchors.address,
    }
    with station.db.read() as tx:
        if not _went_elsewhere(tx, station.chain_id, addresses):
            return False
    with station.db.write() as tx:
        rows = tx.worker.move(lease, now=station.clock.now(), covered=_COVERED)
    log.warning(
        "the contracts have changed; anchoring begins anew on these",
        action="worker.moved",
        chain_id=station.chain_id,
        rows=rows,
        **contracts.deployment.addresses(),
    )
    return True


def _went_elsewhere(tx: Tx, chain_id: int, addresses: dict[str, str]) -> bool:
    last = next((row for row in tx.transactions.recent(limit=50) if row.purpose in addresses), None)
    if last is None:
        return False
    to, _ = read_call(last.raw)
    return (last.chain_id, to) != (chain_id, addresses[last.purpose])
