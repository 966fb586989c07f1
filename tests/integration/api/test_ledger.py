"""The ledger over HTTP: the report against the contract, the entries, the export."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import event_hash
from chainmemory.protocol.ledger_entry import GENESIS_PREV, make_entry
from tests.support.api import Account, Api, refused, use_chain
from tests.support.chains import TesterChain
from tests.support.rounds import drain

REPORT_KEYS = [
    "ok", "chain", "entries", "broken_at", "reason", "sealed", "altered", "missing", "unsealed", "disputed",
    "forgotten", "head", "anchored_head",
]  # fmt: skip
NOTHING_ANCHORED = {"seq": None, "hash": None, "matches": None, "tx_hash": None}


def _rows(api: Api, statement: str, **values: Any) -> list[Any]:
    engine = create_engine(api.url)
    with engine.begin() as connection:
        found = connection.execute(text(statement), values)
        rows = list(found) if found.returns_rows else []
    engine.dispose()
    return rows


@pytest.fixture(scope="module")
def chain() -> TesterChain:
    return TesterChain()


def test_an_empty_ledger(api: Api, ada: Account) -> None:
    report = ada.get("/v1/ledger/verify")
    assert list(report) == REPORT_KEYS
    assert (report["chain"], report["entries"], report["sealed"]) == ("empty", 0, 0)
    assert report["head"] == {"seq": 0, "hash": GENESIS_PREV}
    # There is no chain to ask in this test, so nobody can say that nothing was anchored.
    assert (report["ok"], report["anchored_head"]) == (None, NOTHING_ANCHORED)
    assert ada.get("/v1/ledger") == {"entries": [], "total": 0, "next_from": None}
    assert ada.call("GET", "/v1/ledger/export").content == b""


def test_the_anchored_head_is_compared_on_chain(api: Api, ada: Account, chain: TesterChain) -> None:
    worker = use_chain(api, chain)
    assert ada.get("/v1/ledger/verify")["ok"] is None
    drain(worker)
    before = ada.get("/v1/ledger/verify")
    assert (before["ok"], before["anchored_head"]) == (True, NOTHING_ANCHORED)
    ada.save("one")
    second = ada.save("two", project="p")
    drain(worker)
    ada.ops("p", {"op": "set_phase", "phase": "beta", "evidence_memory_ids": [2]})
    report = ada.get("/v1/ledger/verify", deep=1)
    assert (report["ok"], report["chain"], report["entries"], report["sealed"]) == (True, "intact", 3, 3)
    head = report["anchored_head"]
    assert (head["seq"], head["hash"], head["matches"]) == (2, second["ledger_hash"], True)
    assert chain.gateway.receipt(head["tx_hash"]).succeeded
    drain(worker)
    assert ada.get("/v1/ledger/verify")["anchored_head"]["seq"] == 3


def test_a_ledger_rewritten_from_scratch_is_caught(api: Api, ada: Account, chain: TesterChain) -> None:
    worker = use_chain(api, chain)
    drain(worker)
    for number in range(4):
        ada.save(f"memory {number}")
    drain(worker)
    assert ada.get("/v1/ledger/verify")["ok"] is True
    _forge(api, 2)
    report = ada.get("/v1/ledger/verify")
    assert (report["chain"], report["sealed"], report["altered"]) == ("intact", 4, [])
    assert (report["ok"], report["anchored_head"]["matches"]) == (False, False)
    # Nor does it help to cut it where nothing is forged yet.
    _rows(api, "DELETE FROM ledger_entries WHERE seq > 3")
    shorter = ada.get("/v1/ledger/verify")
    assert (shorter["ok"], shorter["anchored_head"]["matches"]) == (False, False)


def _forge(api: Api, number: int) -> None:
    """Change a memory's header and make the whole ledger anew, as who holds the store could."""
    rows = _rows(api, "SELECT number, header, content_blob FROM memories ORDER BY number")
    prev = GENESIS_PREV
    for seq, (at, header, blob) in enumerate(rows, 1):
        if at == number:
            forged = {**json.loads(header), "kind": "memory.lie"}
            header = canonical(forged).decode()
            _rows(
                api,
                "UPDATE memories SET header = :h, event_hash = :e, kind = 'memory.lie' WHERE number = :n",
                h=header,
                e=event_hash(forged),
                n=at,
            )
        entry = make_entry(
            prev,
            seq,
            "2026-09-13T22:02:35.000000Z",
            "save",
            memory_id=str(at),
            content_sha256=hashlib.sha256(header.encode()).hexdigest(),
            blob_sha256=hashlib.sha256(blob).hexdigest(),
        )
        prev = entry["hash"]
        _rows(
            api,
            "UPDATE ledger_entries SET entry = :e, hash = :h WHERE seq = :s",
            e=canonical(entry).decode(),
            h=prev,
            s=seq,
        )
    _rows(api, "UPDATE accounts SET ledger_hash = :h", h=prev)


def test_each_account_sees_its_own(api: Api, ada: Account, bob: Account) -> None:
    ada.save("ada's")
    bob.save("bob's")
    bob.save("bob's second")
    assert (ada.get("/v1/ledger/verify")["sealed"], bob.get("/v1/ledger/verify")["sealed"]) == (1, 2)
    move = "UPDATE memories SET account_id = :b, number = 9 WHERE account_id = :a"
    _rows(api, move, a=ada.account_id, b=bob.account_id)
    assert ada.get("/v1/ledger/verify")["missing"] == ["memory:1"]
    assert bob.get("/v1/ledger/verify")["altered"] == ["memory:9"]


def test_what_a_client_sealed_is_sealed(ada: Account) -> None:
    blob = b"\x02" + bytes(12) + b"secret" + bytes(16)
    sealed = {"blob_b64": base64.b64encode(blob).decode(), "event_hash": "ab" * 32, "plain_len": 6}
    ada.post("/v1/memory/sealed", sealed, status=201)
    assert ada.get("/v1/ledger/verify", deep=1)["sealed"] == 1


def test_entries_are_listed_by_the_page_and_exported_as_they_were_hashed(api: Api, ada: Account) -> None:
    saved = [ada.save(f"memory {number}") for number in range(5)]
    ada.ops("p", {"op": "set_phase", "phase": "x"})
    first = ada.get("/v1/ledger", limit=4)
    assert [entry["seq"] for entry in first["entries"]] == [1, 2, 3, 4]
    assert [entry["hash"] for entry in first["entries"]] == [one["ledger_hash"] for one in saved[:4]]
    assert (first["total"], first["next_from"]) == (6, 5)
    rest = ada.get("/v1/ledger", **{"from": 5, "limit": 4})
    assert [entry["op"] for entry in rest["entries"]] == ["save", "state"]
    assert rest["next_from"] is None
    answer = ada.call("GET", "/v1/ledger/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = answer.content.splitlines(keepends=True)
    assert [json.loads(line) for line in lines] == first["entries"] + rest["entries"]
    for line in lines:
        entry = json.loads(line)
        cut = line.replace(f'"hash":"{entry["hash"]}",'.encode(), b"").rstrip(b"\n")
        assert hashlib.sha256(cut).hexdigest() == entry["hash"]


def test_an_unreadable_entry_is_shown_and_exported_as_it_is(api: Api, ada: Account) -> None:
    ada.save("one")
    ada.save("two")
    _rows(api, "UPDATE ledger_entries SET entry = X'ff7b' WHERE seq = 1")
    shown = ada.get("/v1/ledger")["entries"]
    assert shown[0] == {"seq": 1, "unparseable": "\ufffd{"}
    assert shown[1]["seq"] == 2
    assert ada.call("GET", "/v1/ledger/export").content.startswith(b"\xff{\n{")


def test_a_long_ledger_is_exported_in_pieces(api: Api, ada: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainmemory.engine.ledger_verify.EXPORT_PAGE", 3)
    for number in range(8):
        ada.save(f"memory {number}")
    lines = ada.call("GET", "/v1/ledger/export").content.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 9))


@pytest.mark.parametrize("path", ["/v1/ledger", "/v1/ledger/verify", "/v1/ledger/export"])
def test_any_key_of_the_account_reads_it_and_nobody_else(api: Api, ada: Account, path: str) -> None:
    assert ada.member("read").call("GET", path).status_code == 200
    refused(api.http.get(path), 401, "unauthorized")


def test_refused(ada: Account) -> None:
    refused(ada.call("GET", "/v1/ledger?limit=201"), 422, "invalid_value", "limit")
    refused(ada.call("GET", "/v1/ledger?from=0"), 422, "invalid_value", "from")
    refused(ada.call("GET", "/v1/ledger/verify?deep=maybe"), 422, "invalid_value", "deep")
