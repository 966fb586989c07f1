"""Public verification reads the contract: on an in-process chain with a real worker, and without a chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from chainmemory.chain.gateway import Gateway
from chainmemory.chain.registry import MemoryRegistry
from chainmemory.engine.chain_view import ChainView
from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.identity import account_ref, project_id
from tests.support.api import Account, Api, refused, running_api, use_chain
from tests.support.chains import TesterChain
from tests.support.databases import ENGINES
from tests.support.rounds import drain
from tests.support.server import eventually

BOTH = pytest.mark.parametrize("api", ENGINES, indirect=True)
ANSWER_KEYS = [
    "project", "project_id", "latest_version", "latest_state_hash", "verified", "chain", "anchors",
    "how_to_verify", "next_cursor", "witness",
]  # fmt: skip
ANCHOR_KEYS = [
    "version", "state_hash", "status", "anchor_id", "tx_hash", "block_number", "anchored_at",
    "onchain_state_hash", "matches",
]  # fmt: skip


def _phases(ada: Account, project: str, count: int, start: int = 0) -> list[str]:
    ops = [{"op": "set_phase", "phase": f"phase {start + number}"} for number in range(count)]
    return [ada.ops(project, op)["state_hash"] for op in ops]


def _sql(api: Api, statement: str, **values: Any) -> None:
    engine = create_engine(api.url)
    with engine.begin() as connection:
        assert connection.execute(text(statement), values).rowcount > 0
    engine.dispose()


@BOTH
def test_anchored_versions_are_verified_against_the_contract(api: Api, ada: Account) -> None:
    chain = TesterChain()
    worker = use_chain(api, chain)
    ada.save()
    hashes = _phases(ada, "p", 3)
    assert api.http.get("/v1/verify/p").json()["verified"] is None
    drain(worker)
    found = api.http.get("/v1/verify/p").json()
    assert list(found) == ANSWER_KEYS
    assert found["verified"] is True
    assert (found["latest_version"], found["latest_state_hash"]) == (3, hashes[2])
    assert found["project_id"] == project_id(ada.account_id, "p")
    assert found["witness"] == "self"
    assert found["next_cursor"] is None
    assert [list(one) for one in found["anchors"]] == [ANCHOR_KEYS] * 3
    assert [one["version"] for one in found["anchors"]] == [3, 2, 1]
    for one in found["anchors"]:
        assert one["state_hash"] == one["onchain_state_hash"] == hashes[one["version"] - 1]
        assert (one["status"], one["matches"]) == ("anchored", True)
        assert one["block_number"] > 0
        assert one["anchored_at"].endswith("Z")
    assert found["chain"] == {
        "chainId": chain.gateway.chain_id(),
        "contract_name": "ProjectStateAnchor",
        "contract": found["chain"]["contract"],
        "rpc": "http://localhost:8420/rpc",
        "explorer": None,
    }
    by_id = api.http.get(f"/v1/verify/{found['project_id']}").json()
    assert by_id == found


@BOTH
def test_a_later_version_is_not_verified_until_it_is_anchored(api: Api, ada: Account) -> None:
    worker = use_chain(api, TesterChain())
    _phases(ada, "p", 1)
    drain(worker)
    _phases(ada, "p", 1, start=1)
    found = api.http.get("/v1/verify/p").json()
    assert found["verified"] is None
    assert [(one["status"], one["matches"]) for one in found["anchors"]] == [
        ("pending", None),
        ("anchored", True),
    ]
    drain(worker)
    # The reader believes for a moment that the block it asked last is still the newest.
    eventually(lambda: api.http.get("/v1/verify/p").json()["verified"] is True, "the version is verified")


def test_the_database_can_not_make_it_true(api: Api, ada: Account) -> None:
    """Who can write the store changes hashes and statuses; the contract says otherwise, or nothing."""
    worker = use_chain(api, TesterChain())
    _phases(ada, "p", 2)
    drain(worker)
    forged = "0x" + "ab" * 32
    _sql(api, "UPDATE state_versions SET state_hash = :h WHERE version = 1", h=forged)
    found = api.http.get("/v1/verify/p").json()
    assert found["verified"] is False
    assert [one["matches"] for one in found["anchors"]] == [True, False]
    assert found["anchors"][1]["onchain_state_hash"] != forged

    _phases(ada, "q", 1)
    _sql(api, "UPDATE outbox SET status = 'anchored', block_number = 1 WHERE status = 'pending'")
    found = api.http.get("/v1/verify/q").json()
    assert found["anchors"][0]["status"] == "anchored"
    assert (found["anchors"][0]["onchain_state_hash"], found["verified"]) == (None, None)


def test_pages_lead_from_the_newest_to_the_oldest_with_one_call_each(api: Api, ada: Account) -> None:
    chain = TesterChain()
    worker = use_chain(api, chain)
    _phases(ada, "p", 7)
    drain(worker)
    seen: list[int] = []
    query = "limit=3"
    for _ in range(3):
        found = api.http.get(f"/v1/verify/p?{query}").json()
        assert found["verified"] is True
        seen += [one["version"] for one in found["anchors"]]
        query = f"limit=3&cursor={found['next_cursor']}"
    assert (seen, found["next_cursor"]) == ([7, 6, 5, 4, 3, 2, 1], None)
    for bad in ("limit=51", "limit=0", "cursor=x", "cursor=-1", "cursor=" + "9" * 17):
        refused(api.http.get(f"/v1/verify/p?{bad}"), 422, "invalid_value")
    assert api.http.get("/v1/verify/p?cursor=0").json()["anchors"] == []


def test_without_a_chain_nothing_is_verified_and_nothing_fails(api: Api, ada: Account) -> None:
    """The chain's address leads nowhere."""
    hashes = _phases(ada, "p", 2)
    found = api.http.get("/v1/verify/p").json()
    assert found["verified"] is None
    assert found["latest_state_hash"] == hashes[1]
    assert found["chain"]["chainId"] is None
    assert [(one["onchain_state_hash"], one["matches"]) for one in found["anchors"]] == [(None, None)] * 2
    anchor = api.http.get("/v1/project/p/state/anchor").json()
    assert (anchor["anchor"]["status"], anchor["anchor"]["confirmations"]) == ("pending", None)
    ada.save()
    assert ada.get("/v1/my/memory/1/proof")["chain_id"] is None
    assert ada.post("/v1/audit/memory/1")["chain"]["status"] == "pending"


def test_a_chain_that_goes_away_takes_the_verdict_with_it_and_brings_it_back(api: Api, ada: Account) -> None:
    worker = use_chain(api, TesterChain())
    ada.save()
    _phases(ada, "p", 1)
    drain(worker)
    there = api.engine.chain
    api.engine.chain = ChainView(
        api.engine.settings, api.engine.db, Gateway("http://127.0.0.1:9/", timeout_s=0.2)
    )
    found = api.http.get("/v1/verify/p").json()
    assert (found["verified"], found["anchors"][0]["status"]) == (None, "anchored")
    assert api.http.get("/v1/project/p/state/anchor").json()["anchor"]["confirmations"] is None
    assert ada.post("/v1/audit/memory/1")["chain"]["status"] == "unknown"
    assert ada.get("/v1/my/memory/1/proof")["batch_root"] is None
    api.engine.chain = there
    assert api.http.get("/v1/verify/p").json()["verified"] is True


def test_the_workers_own_address_and_its_credentials_appear_nowhere(tmp_path: Path) -> None:
    secret = "http://user:hunter22@127.0.0.1:9/secret-path?key=topsecret"
    with running_api(tmp_path, rpc_url=secret) as api:
        ada = api.account()
        ada.save()
        _phases(ada, "p", 1)
        answers = [
            api.http.get("/v1/verify/p"),
            api.http.get("/v1/project/p/state/anchor"),
            api.http.get("/v1/chain"),
            api.http.get("/v1/stats"),
            api.http.get("/readyz"),
            api.http.get("/metrics"),
            api.http.get("/"),
            api.http.get("/verify/p"),
            api.http.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}),
            ada.call("GET", "/v1/my/memory/1/proof"),
            ada.call("POST", "/v1/audit/memory/1"),
        ]
        for answer in answers:
            for piece in ("hunter22", "topsecret", "secret-path", "user:"):
                assert piece not in answer.text, answer.url
        found = answers[0].json()
        assert found["chain"]["rpc"] is None
        assert "witness" not in found
        refused(answers[8], 404, "not_found")


def test_the_addresses_of_the_settings_are_told(tmp_path: Path) -> None:
    given = {
        "public_rpc_url": "https://rpc.example.org",
        "public_explorer_url": "https://explorer.example.org",
    }
    with running_api(tmp_path, rpc_url="http://127.0.0.1:9", **given) as api:
        _phases(api.account(), "p", 1)
        chain = api.http.get("/v1/verify/p").json()["chain"]
        assert (chain["rpc"], chain["explorer"]) == tuple(given.values())


def test_a_host_header_that_is_no_host_is_not_repeated(api: Api, ada: Account) -> None:
    _phases(ada, "p", 1)
    for host in ("evil.example.org/<script>", "a b", "x" * 300, ""):
        answer = api.http.get("/v1/verify/p", headers={"host": host})
        assert answer.json()["chain"]["rpc"] == "/rpc"


@BOTH
def test_an_anchor_is_told_by_public_name_and_by_ones_own_slug(api: Api, ada: Account, bob: Account) -> None:
    worker = use_chain(api, TesterChain())
    (ada_hash,) = _phases(ada, "p", 1)
    (bob_hash,) = _phases(bob, "p", 1)
    drain(worker)
    public = api.http.get("/v1/project/p/state/anchor").json()
    assert list(public) == [
        "project", "project_id", "version", "state_hash", "anchor", "chain", "how_to_verify",
    ]  # fmt: skip
    assert (public["project"], public["state_hash"]) == ("p", ada_hash)
    assert list(public["anchor"]) == [
        "status", "onchain_anchor_id", "tx_hash", "block_number", "block_hash", "anchored_at",
        "confirmations",
    ]  # fmt: skip
    assert public["anchor"]["status"] == "anchored"
    assert public["anchor"]["confirmations"] >= 1
    own = bob.get("/v1/project/p/state/anchor")
    assert (own["project"], own["state_hash"]) == ("p", bob_hash)
    hashed = project_id(bob.account_id, "p")
    by_id = api.http.get(f"/v1/project/{hashed}/state/anchor").json()
    assert (by_id["project"], by_id["state_hash"]) == (hashed, bob_hash)
    assert api.http.get(f"/v1/verify/{hashed}").json()["verified"] is True
    assert bob.get("/v1/projects")["projects"][0]["public_name"] == hashed
    refused(
        api.http.get("/v1/project/p/state/anchor", headers={"x-api-key": "aic_wrong"}), 401, "unauthorized"
    )


def test_what_is_not_there_is_not_found(api: Api, ada: Account) -> None:
    ada.post("/v1/projects", {"project_id": "empty"}, status=201)
    for path in (
        "/v1/verify/nobody",
        "/v1/verify/Not%20A%20Slug",
        "/v1/verify/0x" + "0" * 64,
        "/v1/verify/0xzz",
        "/v1/project/nobody/state/anchor",
        "/v1/project/empty/state/anchor",
        "/v1/project/empty/state/anchor?version=1",
    ):
        refused(api.http.get(path), 404, "not_found")
    refused(api.http.get("/v1/project/empty/state/anchor?version=0"), 422, "invalid_value", "version")
    empty = api.http.get("/v1/verify/empty").json()
    assert (empty["latest_version"], empty["latest_state_hash"], empty["verified"]) == (0, None, None)
    assert empty["anchors"] == []


@BOTH
def test_a_memory_on_chain_has_a_proof_and_a_matching_audit(api: Api, ada: Account) -> None:
    chain = TesterChain()
    worker = use_chain(api, chain)
    saved = [ada.save(f"memory {number}") for number in range(3)]
    drain(worker)
    proof = ada.get("/v1/my/memory/2/proof")
    assert proof["anchored"] is True
    assert proof["batch_root"] == evidence_root([one["event_hash"] for one in saved])
    assert proof["chain_id"] == chain.gateway.chain_id()
    ref = account_ref(ada.account_id)
    assert proof["chain_memory_id"] == f"{ref}/2"
    registry = MemoryRegistry(chain.gateway, proof["contract"])
    logged = registry.find(ref, 2, from_block=0)
    assert logged is not None
    assert (logged.event_hash, logged.tx_hash) == (saved[1]["event_hash"], proof["chain_tx"])
    audit = ada.post("/v1/audit/memory/2")
    assert audit["chain"] == {
        "status": "anchored",
        "chain_memory_id": f"{ref}/2",
        "chain_tx": proof["chain_tx"],
    }
    item = ada.get("/v1/memories")["memories"][0]
    assert item["chain_sync"] == "anchored"
    one = ada.get("/v1/memory/2")
    assert one["sync"]["tx_hash"] == proof["chain_tx"]
    context = ada.get("/v1/memory/context", verified_only="1")
    assert [one["summary"] for one in context["memories"]] == ["memory 2", "memory 1", "memory 0"]
    profile = ada.get("/v1/profile")
    assert (profile["synced_memories"], profile["chain_memories"], profile["pending_sync"]) == (3, 3, 0)
    _phases(ada, "p", 1)
    drain(worker)
    stats = api.http.get("/v1/stats").json()
    assert (stats["total_anchors"], stats["chain_id"]) == (1, chain.gateway.chain_id())
    assert set(stats["contracts"]) == {"ProjectStateAnchor", "MemoryRegistry"}


def test_a_rewritten_memory_is_found_out_by_the_chain(api: Api, ada: Account) -> None:
    """Header and hash are rewritten consistently; the ledger's entry and the chain's log still tell."""
    worker = use_chain(api, TesterChain())
    ada.save("first")
    drain(worker)
    _sql(api, "UPDATE memories SET event_hash = :h", h="0x" + "cd" * 32)
    audit = ada.post("/v1/audit/memory/1")
    assert audit["hash"]["status"] == "mismatch"
    assert audit["chain"]["status"] == "mismatch"


def test_the_chain_route_tells_the_workers_health(api: Api, ada: Account) -> None:
    assert api.http.get("/v1/chain").json()["worker"]["ok"] is False
    chain = TesterChain()
    worker = use_chain(api, chain)
    _phases(ada, "p", 1)
    drain(worker)
    found = api.http.get("/v1/chain").json()
    assert list(found) == [
        "network", "chain_id", "embedded", "reachable", "head", "contracts", "signers", "block_time_s",
        "confirmations", "rpc", "explorer", "worker", "workers", "queue",
    ]  # fmt: skip
    assert (found["reachable"], found["chain_id"]) == (True, chain.gateway.chain_id())
    assert found["head"]["number"] == chain.gateway.head().number
    assert found["worker"]["ok"] is True
    assert found["worker"]["signer"] == chain.signer.address
    assert {"kind": "state", "status": "anchored", "count": 1} in [
        {name: one[name] for name in ("kind", "status", "count")} for one in found["queue"]
    ]


def test_readiness_names_the_part_that_does_not_work(api: Api, ada: Account) -> None:
    envelope = refused(api.http.get("/readyz"), 503, "not_ready")
    assert envelope["details"]["store"] == "ok"
    assert "reached" in envelope["details"]["chain"]
    assert "worker" in envelope["details"]["worker"]
    worker = use_chain(api, TesterChain())
    envelope = refused(api.http.get("/readyz"), 503, "not_ready")
    assert "deployed" in envelope["details"]["chain"]
    ada.save()
    drain(worker)
    api.engine.chain = ChainView(api.engine.settings, api.engine.db, worker._gateway)
    assert api.http.get("/readyz").json() == {"ready": True, "store": "ok", "chain": "ok", "worker": "ok"}
    _sql(api, "UPDATE worker_status SET beat_at = '2026-01-01T00:00:00.000000Z'")
    envelope = refused(api.http.get("/readyz"), 503, "not_ready")
    assert envelope["details"]["chain"] == "ok"
    assert "said nothing" in envelope["details"]["worker"]


def test_metrics_are_in_prometheus_form(api: Api, ada: Account) -> None:
    worker = use_chain(api, TesterChain())
    ada.save()
    drain(worker)
    answer = api.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'chainmemory_http_requests_total{method="POST",route="/v1/memory",status="201"} 1.0' in answer.text
    assert 'chainmemory_up{part="store"} 1.0' in answer.text
    assert 'chainmemory_outbox_rows{kind="memory",status="anchored"} 1.0' in answer.text
    assert 'chainmemory_stored{what="memories"} 1.0' in answer.text
    assert ada.account_id not in answer.text


class _Counting(Gateway):
    """A gateway that counts the calls of the contract that pass through it."""

    def __init__(self, inner: Gateway) -> None:
        super().__init__("http://127.0.0.1:9")
        self._web3 = inner._connected()
        self.calls = 0

    def call(self, *args: Any, **more: Any) -> bytes:
        self.calls += 1
        return super().call(*args, **more)


def test_a_page_costs_one_eth_call_and_none_until_there_is_a_new_block(api: Api, ada: Account) -> None:
    chain = TesterChain()
    worker = use_chain(api, chain)
    _phases(ada, "p", 60)
    drain(worker)
    counting = _Counting(chain.gateway)
    api.engine.chain = ChainView(api.engine.settings, api.engine.db, counting)
    assert len(api.http.get("/v1/verify/p").json()["anchors"]) == 50
    assert counting.calls == 1
    for _ in range(3):
        assert api.http.get("/v1/verify/p").json()["verified"] is True
    assert counting.calls == 1


def test_a_node_of_another_chain_is_not_believed(tmp_path: Path) -> None:
    with running_api(tmp_path, expected_chain_id=7) as api:
        ada = api.account()
        worker = use_chain(api, TesterChain())
        _phases(ada, "p", 1)
        drain(worker)
        found = api.http.get("/v1/verify/p").json()
        assert (found["verified"], found["anchors"][0]["onchain_state_hash"]) == (None, None)
        envelope = refused(api.http.get("/readyz"), 503, "not_ready")
        assert "expected_chain_id" in envelope["details"]["chain"]
