"""How the deployment is: its chain, its worker, its queue (/v1/chain, /v1/stats, /readyz, /metrics)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from chainmemory.engine import clock
from chainmemory.engine.verification import public_rpc
from chainmemory.errors import ChainMemoryError, NotFound, Unavailable
from chainmemory.store.outbox_rows import STATE
from chainmemory.store.worker import WorkerStatus

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

T = TypeVar("T")

OK: Final = "ok"
WORKING: Final = "working"
STOPPED: Final = "stopped"
MISSED_BEATS: Final = 2.0
"""A worker counts as gone after this many lease times without a word."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What each part says: `ok`, or what is wrong with it."""

    store: str
    chain: str
    worker: str

    @property
    def ready(self) -> bool:
        return self.store == self.chain == self.worker == OK

    def parts(self) -> dict[str, str]:
        """Return the parts' words by name."""
        return {"store": self.store, "chain": self.chain, "worker": self.worker}


def readiness(engine: Engine) -> Readiness:
    """Ask the store, the chain and the worker whether they work."""
    store = engine.damage or _said(engine.db.check)
    chain = _said(engine.chain.contracts) if store == OK else _said(engine.chain.head)
    if chain == OK:
        chain = _said(engine.chain.head)
    worker = "The store doesn't answer, so nothing is known of the worker."
    if store == OK:
        worker = _worker_words(engine, _workers(engine))
    return Readiness(store, chain, worker)


def chain_info(engine: Engine, base: str) -> dict[str, Any]:
    """Return the chain, the contracts, and how the worker is; null for what the chain doesn't answer now."""
    head = _try(engine.chain.head)
    contracts = _try(engine.chain.contracts)
    statuses = _workers(engine)
    status = max(statuses, key=lambda one: one.beat_at, default=None)
    words = _worker_words(engine, statuses)
    return {
        "network": network(engine),
        "chain_id": _try(engine.chain.chain_id),
        "embedded": engine.settings.embedded,
        "reachable": head is not None,
        "head": None
        if head is None
        else {"number": head.number, "hash": head.hash, "timestamp": clock.from_unix(head.timestamp)},
        "contracts": contracts.addresses() if contracts is not None else {},
        "signers": _try(engine.chain.signers) or [],
        "block_time_s": _try(engine.chain.block_time_s),
        "confirmations": engine.settings.confirmations_needed,
        "rpc": public_rpc(engine, base),
        "explorer": engine.settings.public_explorer_url,
        "worker": {
            "ok": words == OK,
            "health": _with_notice(words if words != OK or status is None else status.words, status),
            "state": status.state if status is not None else None,
            "signer": status.signer if status is not None else None,
            "balance_wei": str(status.balance) if status is not None and status.balance is not None else None,
            "error": status.error if status is not None else None,
            "beat_at": status.beat_at if status is not None else None,
            "notice": status.notice if status is not None else None,
        },
        "workers": [
            {
                "part": one.part,
                "signer": one.signer,
                "holder": one.holder,
                "state": one.state,
                "health": _with_notice(one.words, one),
                "beat_at": one.beat_at,
            }
            for one in statuses
        ],
        "queue": queue(engine),
    }


def queue(engine: Engine) -> list[dict[str, Any]]:
    """Return how many things for the chain have each status, and since when the oldest waits."""
    with engine.db.read() as tx:
        return [
            {"kind": one.kind, "status": one.status, "count": one.rows, "oldest": one.oldest}
            for one in tx.outbox.depth()
        ]


def stats(engine: Engine) -> dict[str, Any]:
    """Return the deployment's totals."""
    with engine.db.read() as tx:
        accounts, memories = tx.accounts.totals()
        _, versions = tx.projects.totals()
        depth = tx.outbox.depth()
    head = _try(engine.chain.head)
    contracts = _try(engine.chain.contracts)
    return {
        "network": network(engine),
        "chain_id": _try(engine.chain.chain_id),
        "block": head.number if head is not None else None,
        "total_memories": memories,
        "episodic_memories": memories,
        "total_ais": accounts,
        "total_identities": accounts,
        "total_states": versions,
        "total_anchors": sum(one.rows for one in depth if one.kind == STATE and one.status == "anchored"),
        "contracts": contracts.addresses() if contracts is not None else {},
        "tiers": {"episodic": memories},
    }


def network(engine: Engine) -> str:
    """Return what kind of chain this deployment anchors on."""
    return "chainmemory-embedded" if engine.settings.embedded else "external"


def _workers(engine: Engine) -> list[WorkerStatus]:
    with engine.db.read() as tx:
        return tx.worker.statuses()


def _with_notice(words: str, status: WorkerStatus | None) -> str:
    return words if status is None or status.notice is None else f"{words} {status.notice}"


def _worker_words(engine: Engine, statuses: list[WorkerStatus]) -> str:
    """Return `ok`, or what is wrong with the workers, in a sentence."""
    if not statuses:
        return "No worker has run yet; start it with: chainmemory worker."
    patience_s = engine.settings.lease_s * MISSED_BEATS
    speaking = [one for one in statuses if _seconds_since(one.beat_at) <= patience_s]
    at_work = {one.part for one in speaking if one.state == WORKING}
    for one in statuses:
        # Why it stopped stays true until a worker of the same part works.
        if one.state == STOPPED and one.error is not None and one.part not in at_work:
            return one.words
    for one in speaking:
        if one.state != WORKING and one.part not in at_work:
            return one.words
    if not speaking:
        silent_s = int(min(_seconds_since(one.beat_at) for one in statuses))
        return f"The worker has said nothing for {silent_s} s; start it with: chainmemory worker."
    count = int(max(speaking, key=lambda one: one.beat_at).part.partition("/")[2])
    missing = [part for number in range(1, count + 1) if (part := f"{number}/{count}") not in at_work]
    if missing:
        return (
            f"No worker does part {', '.join(missing)} of the work; start one with "
            f"CHAINMEMORY_WORKER_PART={missing[0]} chainmemory worker, and a signer of its own."
        )
    return OK


def _seconds_since(time: str) -> float:
    return (datetime.fromisoformat(clock.now()) - datetime.fromisoformat(time)).total_seconds()


def _said(ask: Callable[[], object]) -> str:
    try:
        ask()
    except ChainMemoryError as error:
        return error.message
    return OK


def _try(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except (Unavailable, NotFound):
        return None
