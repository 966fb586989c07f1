"""The workers and their queue in numbers, for `/metrics`: read from the store, where workers leave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from chainmemory.engine import clock
from chainmemory.store.transactions import MINED
from chainmemory.store.tx import Tx

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine


class Sample(NamedTuple):
    """One number with its labels; `rises` where it only ever grows (a counter)."""

    name: str
    help: str
    labels: dict[str, str]
    value: float
    rises: bool = False


def worker_numbers(engine: Engine) -> list[Sample]:
    """Return queue depth, age and attempts, transactions, gas, confirmations and leases, of all workers."""
    with engine.db.read() as tx:
        return [*_queue(tx), *_work(tx), *_transactions(tx, engine), *_leases(tx)]


def _queue(tx: Tx) -> Iterator[Sample]:
    now = clock.now()
    for one in tx.anchors.open_depth():
        labels = {"kind": one.kind, "status": one.status}
        yield Sample("chainmemory_queue_rows", "Things not on chain yet", labels, one.rows)
        yield Sample(
            "chainmemory_queue_oldest_seconds",
            "Age of the oldest thing not on chain yet",
            labels,
            max(0.0, _seconds(one.oldest, now)),
        )
        yield Sample(
            "chainmemory_queue_attempts", "Failed attempts that these have behind them", labels, one.attempts
        )


def _work(tx: Tx) -> Iterator[Sample]:
    for name, what, kind, value in tx.worker.counts():
        labels = {"signer": name.removeprefix("anchor:"), "kind": kind}
        if what == "gas":
            yield Sample("chainmemory_anchor_gas", "Gas used", labels, value, rises=True)
        elif what == "anchored":
            yield Sample("chainmemory_anchored", "Things found on chain", labels, value, rises=True)
        else:
            yield Sample(
                "chainmemory_anchor_transactions",
                "Transactions by what became of them",
                {**labels, "event": what},
                value,
                rises=True,
            )


def _transactions(tx: Tx, engine: Engine) -> Iterator[Sample]:
    wanted = engine.settings.confirmations_needed
    yield Sample("chainmemory_confirmations_wanted", "Blocks before an anchor counts", {}, wanted)
    for worker in tx.worker.statuses():
        if worker.signer is None or worker.chain_id is None:
            continue
        signer = {"signer": worker.signer}
        if worker.balance is not None:
            yield Sample("chainmemory_signer_balance_wei", "The signer's funds", signer, worker.balance)
        still_open = tx.transactions.open(worker.chain_id, worker.signer)
        for status, count in sorted(Counter(row.status for row in still_open).items()):
            labels = {**signer, "status": status}
            yield Sample("chainmemory_anchor_transactions_open", "Transactions under way", labels, count)
        mined = [row.block_number for row in still_open if row.status == MINED and row.block_number]
        if mined and worker.head_number is not None:
            least = max(0, worker.head_number - max(mined) + 1)
            yield Sample(
                "chainmemory_confirmations_least", "Fewest blocks on a mined transaction", signer, least
            )


def _leases(tx: Tx) -> Iterator[Sample]:
    now = clock.now()
    for lease in tx.leases.all():
        labels = {"lease": lease.name, "holder": lease.holder}
        left = _seconds(now, lease.expires_at)
        yield Sample("chainmemory_lease_held", "1 while its holder renews it", labels, float(left > 0))
        yield Sample("chainmemory_lease_token", "The holding's fencing token", labels, lease.token)


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
