"""The chain's state, health, metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from api.answers import COUNT, FLAG, FREE, HEX32, TEXT, TIME, many, maybe, obj
from api.door import Answer, Call, Doors
from api.metrics import Samples
from chainmemory.engine import health
from chainmemory.engine.worker_numbers import worker_numbers
from chainmemory.errors import ChainMemoryError, Unavailable

doors = Doors("Chain and operations")


@doors.get(
    "/v1/chain",
    needs="public",
    summary="The chain, its contracts and signers, and how the worker is",
    description="What the chain doesn't answer now is null. Never shows the worker's own RPC address.",
    answer=obj(
        {
            "network": TEXT,
            "chain_id": maybe(COUNT),
            "embedded": FLAG,
            "reachable": FLAG,
            "head": maybe(obj({"number": COUNT, "hash": HEX32, "timestamp": TIME})),
            "contracts": FREE,
            "signers": many(TEXT),
            "block_time_s": maybe({"type": "number"}),
            "confirmations": COUNT,
            "rpc": maybe(TEXT),
            "explorer": maybe(TEXT),
            "worker": obj(
                {
                    "ok": FLAG,
                    "health": {**TEXT, "description": "in words"},
                    "state": maybe(TEXT),
                    "signer": maybe(TEXT),
                    "balance_wei": maybe(TEXT),
                    "error": maybe(TEXT),
                    "beat_at": maybe(TIME),
                    "notice": {**maybe(TEXT), "description": "what people must know although it works"},
                }
            ),
            "workers": many(
                obj(
                    {
                        "part": TEXT,
                        "signer": maybe(TEXT),
                        "holder": TEXT,
                        "state": TEXT,
                        "health": TEXT,
                        "beat_at": TIME,
                    }
                )
            ),
            "queue": many(obj({"kind": TEXT, "status": TEXT, "count": COUNT, "oldest": TIME})),
        }
    ),
    example={
        "network": "chainmemory-embedded",
        "chain_id": 20250,
        "embedded": True,
        "reachable": True,
        "head": {"number": 42, "hash": "0x" + "ab" * 32, "timestamp": "2026-09-13T22:02:35.000000Z"},
        "contracts": {"ProjectStateAnchor": "0x5FbDB2315678afecb367f032d93F642f64180aa3"},
        "signers": ["0x5FbDB2315678afecb367f032d93F642f64180aa3"],
        "block_time_s": 1.0,
        "confirmations": 1,
        "rpc": "http://127.0.0.1:8420/rpc",
        "explorer": None,
        "worker": {
            "ok": True,
            "health": "Anchoring.",
            "state": "working",
            "signer": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
            "balance_wei": "1000000000000000000",
            "error": None,
            "beat_at": "2026-09-13T22:02:35.000000Z",
            "notice": None,
        },
        "workers": [],
        "queue": [],
    },
)
def get_chain(call: Call) -> dict[str, Any]:
    return health.chain_info(call.engine, call.base)


@doors.get(
    "/healthz",
    needs="nothing",
    summary="Whether the API process answers",
    answer=obj({"ok": FLAG}),
    example={"ok": True},
)
async def healthz(_call: Call) -> dict[str, Any]:
    return {"ok": True}


@doors.get(
    "/readyz",
    needs="nothing",
    summary="Whether store, chain and worker all work",
    description="503 `not_ready` otherwise: `details` says of each part `ok`, or what is wrong with it.",
    answer=obj({"ready": FLAG, "store": TEXT, "chain": TEXT, "worker": TEXT}),
    example={"ready": True, "store": "ok", "chain": "ok", "worker": "ok"},
)
def readyz(call: Call) -> dict[str, Any]:
    found = health.readiness(call.engine)
    if not found.ready:
        wrong = [f"{name}: {said}" for name, said in found.parts().items() if said != health.OK]
        raise Unavailable(
            "Not ready. " + " ".join(wrong), code="not_ready", details={"ready": False, **found.parts()}
        )
    return {"ready": True, **found.parts()}


@doors.get(
    "/metrics",
    needs="public",
    summary="Metrics for Prometheus",
    answer={"type": "string"},
    media="text/plain",
    example="# HELP chainmemory_http_requests_total Requests answered",
)
def metrics(call: Call) -> Answer:
    body = generate_latest(call.site.metrics.registry) + generate_latest(_state(call))
    return Answer(body, media=CONTENT_TYPE_LATEST)


def _state(call: Call) -> CollectorRegistry:
    """Return gauges of what the store and the chain say at this moment."""
    registry = CollectorRegistry()
    engine = call.engine
    up = Gauge("chainmemory_up", "1 where the part works", ("part",), registry=registry)
    for part, said in health.readiness(engine).parts().items():
        up.labels(part).set(said == health.OK)
    rows = Gauge("chainmemory_outbox_rows", "Things for the chain", ("kind", "status"), registry=registry)
    totals = Gauge("chainmemory_stored", "What the store holds", ("what",), registry=registry)
    try:
        found = health.stats(engine)
        queue = health.queue(engine)
        registry.register(Samples(worker_numbers(engine)))
    except ChainMemoryError:
        # The store is down, which `chainmemory_up` says; a scrape must still get an answer.
        return registry
    for one in queue:
        rows.labels(one["kind"], one["status"]).set(one["count"])
    totals.labels("memories").set(found["total_memories"])
    totals.labels("accounts").set(found["total_ais"])
    totals.labels("states").set(found["total_states"])
    if found["block"] is not None:
        Gauge("chainmemory_chain_block", "Newest block", registry=registry).set(found["block"])
    return registry
