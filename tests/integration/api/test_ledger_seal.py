"""Sealing: what was put in past the server is adopted; nothing altered, and nothing on a broken chain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from chainmemory.anchoring.worker import AnchorWorker
from tests.support.api import Account, Api, refused, use_chain
from tests.support.chains import TesterChain
from tests.support.databases import ENGINES
from tests.support.rounds import drain

BOTH = pytest.mark.parametrize("api", ENGINES, indirect=True)


@pytest.fixture(scope="module")
def chain() -> TesterChain:
    return TesterChain()


@pytest.fixture
def worker(api: Api, chain: TesterChain) -> AnchorWorker:
    found = use_chain(api, chain)
    drain(found)
    return found


def sql(api: Api, *statements: str, **values: Any) -> None:
    url = make_url(api.url)
    if url.get_backend_name() == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            assert connection.execute(text(statement), values).rowcount > 0, statement
    engine.dispose()


def cut(api: Api, ada: Account, seq: int) -> None:
    """Put the account back to where it was at entry `seq`, but leave the records: they are unsealed then."""
    head = ada.get("/v1/ledger", **{"from": seq, "limit": 1})["entries"][0]["hash"]
    sql(
        api,
        "DELETE FROM ledger_entries WHERE account_id = :of AND seq > :seq",
        "UPDATE accounts SET ledger_seq = :seq, ledger_hash = :hash WHERE account_id = :of",
        of=ada.account_id,
        seq=seq,
        hash=head,
    )


@BOTH
def test_unsealed_records_are_adopted(api: Api, ada: Account, worker: AnchorWorker) -> None:
    for number in range(3):
        ada.save(f"memory {number}")
    ada.ops("p", {"op": "set_phase", "phase": "x", "evidence_memory_ids": [2]})
    cut(api, ada, 1)
    names = ["memory:2", "memory:3", "state:p@1"]
    report = ada.get("/v1/ledger/verify")
    assert (report["ok"], report["unsealed"]) == (False, names)
    sealed = ada.post("/v1/ledger/seal")
    assert sealed["sealed"] == names
    assert sealed["report"] == ada.get("/v1/ledger/verify", deep=1)
    assert (sealed["report"]["ok"], sealed["report"]["sealed"], sealed["report"]["entries"]) == (True, 4, 4)
    adopted = ada.get("/v1/ledger", **{"from": 2})["entries"]
    assert [entry["op"] for entry in adopted] == ["adopt"] * 3
    assert [entry.get("memory_id") for entry in adopted] == ["2", "3", None]
    # Once is enough, and the next save follows.
    assert ada.post("/v1/ledger/seal")["sealed"] == []
    assert ada.save("next")["ledger_seq"] == 5
    drain(worker)
    assert ada.get("/v1/ledger/verify")["anchored_head"]["matches"] is True


def test_the_same_key_seals_once(api: Api, ada: Account, worker: AnchorWorker) -> None:
    ada.save("one")
    ada.save("two")
    cut(api, ada, 1)
    key = {"headers": {"Idempotency-Key": "k"}}
    first = ada.call("POST", "/v1/ledger/seal", **key)
    again = ada.call("POST", "/v1/ledger/seal", **key)
    assert first.json()["sealed"] == ["memory:2"]
    assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")


def test_an_altered_record_is_never_sealed_again(api: Api, ada: Account, worker: AnchorWorker) -> None:
    for number in range(3):
        ada.save(f"memory {number}")
    sql(api, "UPDATE memories SET content_blob = X'01' WHERE number = 1")
    cut(api, ada, 2)
    # This one has no entry, and can't be decrypted either.
    sql(api, "UPDATE memories SET content_blob = X'02' WHERE number = 3")
    answer = ada.post("/v1/ledger/seal")
    assert answer["sealed"] == []
    assert (answer["report"]["altered"], answer["report"]["unsealed"]) == (["memory:1"], ["memory:3"])
    assert ada.get("/v1/ledger/verify", deep=1)["altered"] == ["memory:1", "memory:3"]
    assert ada.get("/v1/ledger")["total"] == 2


def test_an_adopted_memory_is_anchored_and_its_number_taken(
    api: Api, ada: Account, worker: AnchorWorker
) -> None:
    ada.save("one")
    ada.save("two")
    drain(worker)
    ada.save("three")
    cut(api, ada, 2)
    sql(
        api,
        "DELETE FROM outbox WHERE kind = 'memory' AND position = 3",
        "UPDATE accounts SET memory_count = 2 WHERE account_id = :of",
        of=ada.account_id,
    )
    assert ada.post("/v1/ledger/seal")["sealed"] == ["memory:3"]
    assert ada.save("four")["memory_number"] == 4
    drain(worker)
    assert ada.get("/v1/my/memory/3/proof")["anchored"] is True


class TestRefused:
    """409 with the report, and nothing written."""

    def refuse(self, api: Api, ada: Account, code: str) -> dict[str, Any]:
        before = api.stored()
        envelope = refused(ada.call("POST", "/v1/ledger/seal"), 409, code)
        assert api.stored() == before
        assert envelope["details"]["report"] == ada.get("/v1/ledger/verify")
        return envelope

    def test_on_a_broken_chain(self, api: Api, ada: Account, worker: AnchorWorker) -> None:
        for number in range(4):
            ada.save(f"memory {number}")
        cut(api, ada, 3)
        sql(api, "DELETE FROM ledger_entries WHERE seq = 2")
        self.refuse(api, ada, "ledger_broken")

    def test_where_the_last_entries_are_gone(self, api: Api, ada: Account, worker: AnchorWorker) -> None:
        ada.save("one")
        ada.save("two")
        sql(api, "DELETE FROM ledger_entries WHERE seq = 2")
        assert ada.get("/v1/ledger/verify")["chain"] == "intact"
        self.refuse(api, ada, "ledger_broken")

    def test_where_an_anchored_head_is_missing(self, api: Api, ada: Account, worker: AnchorWorker) -> None:
        ada.save("one")
        ada.save("two")
        drain(worker)
        cut(api, ada, 1)
        self.refuse(api, ada, "head_missing")

    def test_where_the_chain_holds_another_hash(self, api: Api, ada: Account, worker: AnchorWorker) -> None:
        ada.save("one")
        ada.save("two")
        # A memory is recorded on chain, but no head of the ledger yet.
        sql(api, "UPDATE accounts SET queued_head = 99")
        drain(worker)
        header, event = _row(api, 2)
        assert event == ada.get("/v1/memory/2")["event_hash"]
        _replace(api, ada, header)
        envelope = self.refuse(api, ada, "chain_mismatch")
        assert envelope["details"]["records"] == ["memory:2"]

    def test_only_an_owner_seals(self, ada: Account) -> None:
        refused(ada.member("write").call("POST", "/v1/ledger/seal"), 403, "forbidden")

    def test_a_break_is_accepted_for_a_reason(self, ada: Account) -> None:
        refused(ada.call("POST", "/v1/ledger/seal", {"accept_break": True}), 422, "missing_field", "reason")

    def test_without_the_chain_nothing_is_sealed(self, api: Api, ada: Account) -> None:
        ada.save("one")
        ada.save("two")
        assert ada.post("/v1/ledger/seal")["sealed"] == []
        cut(api, ada, 1)
        refused(ada.call("POST", "/v1/ledger/seal"), 503, "chain_unavailable")


def _row(api: Api, number: int) -> tuple[dict[str, Any], str]:
    engine = create_engine(api.url)
    with engine.connect() as connection:
        row = connection.execute(
            text(f"SELECT header, event_hash FROM memories WHERE number = {number}")
        ).one()
    engine.dispose()
    return json.loads(row[0]), row[1]


def _replace(api: Api, ada: Account, header: dict[str, Any]) -> None:
    """Let memory 2 be another one than the chain has, whole in itself, and cut its entry off."""
    from chainmemory.protocol.canonical import canonical
    from chainmemory.protocol.event import event_hash

    forged = {**header, "kind": "memory.lie"}
    cut(api, ada, 1)
    sql(
        api,
        "UPDATE memories SET header = :h, event_hash = :e, kind = 'memory.lie' WHERE number = 2",
        h=canonical(forged).decode(),
        e=event_hash(forged),
    )


class TestAcceptBreak:
    """The way out after a restore: knowing, named in the ledger, and never plain intact again."""

    ACCEPT = {"accept_break": True, "reason": "restored from Tuesday's backup"}  # noqa: RUF012 - never changed

    @BOTH
    def test_a_lost_head(self, api: Api, ada: Account, worker: AnchorWorker) -> None:
        ada.save("one")
        lost = ada.save("two")
        drain(worker)
        cut(api, ada, 1)
        answer = ada.post("/v1/ledger/seal", self.ACCEPT)
        assert answer["sealed"] == ["memory:2"]
        report = answer["report"]
        assert (report["chain"], report["ok"], report["sealed"]) == ("repaired", False, 2)
        entry = ada.get("/v1/ledger")["entries"][1]
        assert entry["op"] == "adopt"
        assert entry["accepts"] == {
            "breaks": [],
            "heads": [{"seq": 2, "hash": lost["ledger_hash"]}],
            "reason": "restored from Tuesday's backup",
        }
        # The ledger goes on, and what is wrong later is not accepted.
        ada.save("three")
        drain(worker)
        assert ada.get("/v1/ledger/verify")["chain"] == "repaired"
        assert ada.post("/v1/ledger/seal")["sealed"] == []
        sql(api, "UPDATE memories SET event_hash = 'x' WHERE number = 1")
        assert ada.get("/v1/ledger/verify")["altered"] == ["memory:1"]

    @pytest.mark.parametrize(
        "damage",
        [
            "DELETE FROM ledger_entries WHERE seq = 2",
            "UPDATE ledger_entries SET entry = 'x' WHERE seq = 2",
            "UPDATE ledger_entries SET entry = 'x' WHERE seq = 4",
            "DELETE FROM ledger_entries WHERE seq = 4",
            "DELETE FROM ledger_entries",
        ],
    )
    def test_a_break(self, api: Api, ada: Account, worker: AnchorWorker, damage: str) -> None:
        for number in range(4):
            ada.save(f"memory {number}")
        sql(api, damage)
        answer = ada.post("/v1/ledger/seal", self.ACCEPT)
        report = answer["report"]
        assert (report["chain"], report["ok"], report["sealed"]) == ("repaired", False, 4)
        assert (report["unsealed"], report["disputed"], report["altered"]) == ([], [], [])
        ada.save("five")
        after = ada.get("/v1/ledger/verify")
        assert (after["chain"], after["sealed"]) == ("repaired", 5)
        drain(worker)
        assert ada.get("/v1/ledger/verify")["chain"] == "repaired"

    def test_where_nothing_is_wrong_nothing_is_accepted(self, ada: Account, worker: AnchorWorker) -> None:
        ada.save("one")
        answer = ada.post("/v1/ledger/seal", self.ACCEPT)
        assert (answer["sealed"], answer["report"]["chain"]) == ([], "intact")
        assert ada.get("/v1/ledger")["total"] == 1
