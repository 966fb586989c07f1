"""Verification in Merkle mode: the same routes, and a proof that whoever doubts takes to the contract."""

from __future__ import annotations

import re
from typing import Any

import pytest
from requests.exceptions import ConnectionError
from sqlalchemy import create_engine, text

from chainmemory.chain.merkle import State, verify_state_in_root
from chainmemory.engine import verification
from chainmemory.errors import IntegrityError
from chainmemory.protocol.evidence import Proof
from tests.support.api import Account, Api, use_chain
from tests.support.chains import TesterChain
from tests.support.rounds import drain

FORGED = "0x" + "ab" * 32


@pytest.fixture
def chain(api: Api, ada: Account) -> TesterChain:
    """A chain on which four versions of `p` and one of `q` lie under one root."""
    chain = TesterChain()
    worker = use_chain(api, chain, merkle=True)
    for number in range(4):
        ada.ops("p", {"op": "set_phase", "phase": f"phase {number}"})
    ada.ops("q", {"op": "set_phase", "phase": "alone"})
    drain(worker)
    return chain


def _verified(api: Api, name: str = "p", query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = api.http.get(f"/v1/verify/{name}{query}").json()
    return found


def _sql(api: Api, statement: str, **values: Any) -> None:
    engine = create_engine(api.url)
    with engine.begin() as connection:
        assert connection.execute(text(statement), values).rowcount > 0
    engine.dispose()


def test_every_version_is_verified_by_a_proof_that_leads_to_one_root(api: Api, chain: TesterChain) -> None:
    found, alone = _verified(api), _verified(api, "q")
    assert (found["verified"], alone["verified"]) == (True, True)
    entries = [(found["project_id"], one) for one in found["anchors"]]
    entries.append((alone["project_id"], alone["anchors"][0]))
    assert {one["proof"]["root"] for _, one in entries} == {entries[0][1]["anchor_id"]}
    assert sorted(one["proof"]["index"] for _, one in entries) == [0, 1, 2, 3, 4]
    for project, one in entries:
        assert (one["status"], one["matches"]) == ("anchored", True)
        assert one["onchain_state_hash"] == one["state_hash"]
        shown = one["proof"]
        proof = Proof(shown["index"], shown["size"], shown["path"])
        verify_state_in_root(State(project, one["version"], one["state_hash"]), proof, shown["root"])
        with pytest.raises(IntegrityError):
            verify_state_in_root(State(project, one["version"], FORGED), proof, shown["root"])
    assert "verifyInRoot" in found["how_to_verify"]


def test_the_anchor_route_and_the_owners_view_tell_the_root(
    api: Api, ada: Account, chain: TesterChain
) -> None:
    anchor = api.http.get("/v1/project/p/state/anchor?version=2").json()["anchor"]
    assert anchor["proof"] == _verified(api)["anchors"][2]["proof"]
    assert anchor["onchain_anchor_id"] == anchor["proof"]["root"]
    assert ada.get("/v1/project/p/state")["anchor"]["onchain_anchor_id"] == anchor["proof"]["root"]


def test_an_older_page_still_tells_of_the_latest_version(api: Api, chain: TesterChain) -> None:
    found = _verified(api, query="?limit=2&cursor=3")
    assert [one["version"] for one in found["anchors"]] == [2, 1]
    assert found["verified"] is True


def test_the_call_on_the_page_asks_the_contract_about_the_proof(api: Api, chain: TesterChain) -> None:
    found = _verified(api)
    call = verification.own_call(found)
    assert call is not None
    data, wanted = call
    answer = chain.gateway.call(found["chain"]["contract"], bytes.fromhex(data[2:]))
    assert "0x" + answer.hex() == wanted == f"0x{1:064x}"
    page = api.http.get("/verify/p", headers={"accept": "text/html"}).text
    assert data in page
    assert len(re.findall(r"of 5 under the root", page)) == 4


@pytest.mark.parametrize(
    ("statement", "verified"),
    [
        ("UPDATE state_versions SET state_hash = :h WHERE version = 2", [True, True, False, True]),
        ("UPDATE outbox SET hash = :h WHERE kind = 'state' AND position = 2", [False] * 4),
        ("UPDATE outbox SET anchor_id = :h WHERE kind = 'state' AND position = 4", [False, True, True, True]),
        ("UPDATE chain_transactions SET outbox_ids = '[1]' WHERE :h <> '' AND purpose = 'root'", [False] * 4),
    ],
)
def test_the_store_can_not_make_it_true(
    api: Api, chain: TesterChain, statement: str, verified: list[bool]
) -> None:
    _sql(api, statement, h=FORGED)
    found = _verified(api)
    assert found["verified"] is False
    assert [one["matches"] for one in found["anchors"]] == verified


def test_a_root_that_the_chain_does_not_hold_proves_nothing(api: Api, chain: TesterChain) -> None:
    _sql(api, "UPDATE outbox SET block_number = block_number - 1 WHERE kind = 'state'")
    found = _verified(api)
    assert (found["verified"], [one["matches"] for one in found["anchors"]]) == (None, [None] * 4)
    assert [one["onchain_state_hash"] for one in found["anchors"]] == [None] * 4


def test_without_a_chain_nothing_is_verified(api: Api, chain: TesterChain) -> None:
    chain.node.mood = lambda method, params: ConnectionError("gone")
    api.engine.chain._kept.clear()
    found = _verified(api)
    assert (found["verified"], {one["matches"] for one in found["anchors"]}) == (None, {None})
