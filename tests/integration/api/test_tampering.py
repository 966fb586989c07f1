"""Who can write the store can't go unnoticed: single bytes changed by SQL are named."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sqlalchemy import create_engine, text

from tests.support.api import Account, Api, refused


def _sql(api: Api, statement: str, **values: Any) -> None:
    engine = create_engine(api.url)
    with engine.begin() as connection:
        assert connection.execute(text(statement), values).rowcount > 0
    engine.dispose()


def _read(api: Api, statement: str) -> Any:
    engine = create_engine(api.url)
    with engine.connect() as connection:
        found = connection.execute(text(statement)).scalar_one()
    engine.dispose()
    return found


def _flip(blob: bytes, at: int = -1) -> bytes:
    changed = bytearray(blob)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("column", ["content_blob", "wrapped_seed"])
def test_changed_ciphertext_is_named_and_breaks_no_list(api: Api, ada: Account, column: str) -> None:
    ada.save("first")
    ada.save("second")
    blob = _read(api, f"SELECT {column} FROM memories WHERE number = 1")
    _sql(api, f"UPDATE memories SET {column} = :b WHERE number = 1", b=_flip(blob))
    one = ada.get("/v1/memory/1/decrypted")
    assert (one["summary"], one["integrity_verified"]) == (None, False)
    audit = ada.post("/v1/audit/memory/1")
    assert audit["hash"]["status"] == "mismatch"
    assert audit["ledger"]["verdict"] == ("altered" if column == "content_blob" else "sealed")
    listed = ada.get("/v1/memories")["memories"]
    assert [one["summary"] for one in listed] == ["second", None]
    assert [one["summary"] for one in ada.get("/v1/memory/context")["memories"]] == ["second"]
    assert ada.post("/v1/audit/memory/2")["hash"]["status"] == "match"


# A last byte that can't end a text in UTF-8, whatever stands before it; and a text that is one.
@pytest.mark.parametrize("became", ["substr(content_blob, 1, 30) || x'00' || x'ff'", "'so be it'"])
def test_ciphertext_that_became_text_harms_no_other_memory(api: Api, ada: Account, became: str) -> None:
    """SQLite keeps a text in a column of bytes, even one that isn't UTF-8."""
    for content in ("first", "second", "third"):
        ada.save(content)
    _sql(api, f"UPDATE memories SET content_blob = {became} WHERE number = 2")
    assert _read(api, "SELECT typeof(content_blob) FROM memories WHERE number = 2") == "text"
    one = ada.get("/v1/memory/2/decrypted")
    assert (one["summary"], one["integrity_verified"]) == (None, False)
    assert [one["summary"] for one in ada.get("/v1/memories")["memories"]] == ["third", None, "first"]
    audit = ada.post("/v1/audit/memory/2")
    assert (audit["hash"]["status"], audit["ledger"]["verdict"]) == ("mismatch", "altered")
    for deep in ("false", "true"):
        checked = ada.get("/v1/ledger/verify", deep=deep)
        assert (checked["ok"], checked["altered"]) == (False, ["memory:2"])


def test_swapped_blobs_are_named(api: Api, ada: Account) -> None:
    ada.save("first")
    ada.save("second")
    for column in ("content_blob", "wrapped_seed"):
        other = _read(api, f"SELECT {column} FROM memories WHERE number = 2")
        _sql(api, f"UPDATE memories SET {column} = :b WHERE number = 1", b=other)
    assert ada.get("/v1/memory/1/decrypted")["integrity_verified"] is False
    assert ada.post("/v1/audit/memory/1")["ledger"]["verdict"] == "altered"


def test_a_changed_header_is_named(api: Api, ada: Account) -> None:
    ada.save("x", category="DECISION")
    header = orjson.loads(_read(api, "SELECT header FROM memories"))
    header["category"] = "ERROR"
    _sql(api, "UPDATE memories SET header = :h", h=orjson.dumps(header).decode())
    audit = ada.post("/v1/audit/memory/1")
    assert audit["hash"]["status"] == "mismatch"
    assert audit["hash"]["computed_hash"] != audit["hash"]["stored_hash"]
    assert audit["ledger"]["verdict"] == "altered"


def test_a_row_put_in_past_the_server_is_unsealed(api: Api, ada: Account) -> None:
    ada.save("x")
    _sql(api, "DELETE FROM ledger_entries")
    assert ada.post("/v1/audit/memory/1")["ledger"] == {"verdict": "unsealed", "seq": None}


def test_a_changed_ledger_entry_is_named(api: Api, ada: Account) -> None:
    ada.save("x")
    entry = orjson.loads(_read(api, "SELECT entry FROM ledger_entries"))
    entry["ts"] = "2026-01-01T00:00:00.000000Z"
    _sql(api, "UPDATE ledger_entries SET entry = :e", e=orjson.dumps(entry).decode())
    assert ada.post("/v1/audit/memory/1")["ledger"]["verdict"] == "altered"


def test_changed_ops_of_a_state_are_found_when_it_is_rebuilt(api: Api, ada: Account) -> None:
    for number in range(3):
        ada.ops("p", {"op": "set_phase", "phase": f"phase {number}"})
    blob = _read(api, "SELECT ops_blob FROM state_versions WHERE version = 2")
    _sql(api, "UPDATE state_versions SET ops_blob = :b WHERE version = 2", b=_flip(blob))
    audit = ada.post("/v1/audit/state/p")
    assert audit["hash_verification"]["status"] == "mismatch"
    refused(ada.call("GET", "/v1/project/p/state?version=2"), 500, "undecryptable")
    assert ada.get("/v1/project/p/state", version=1)["state"]["phase"] == "phase 0"


def test_a_changed_state_hash_is_found(api: Api, ada: Account) -> None:
    made = ada.ops("p", {"op": "set_phase", "phase": "x"})
    forged = "0x" + "ab" * 32
    _sql(api, "UPDATE projects SET state_hash = :h", h=forged)
    audit = ada.post("/v1/audit/state/p")["hash_verification"]
    assert audit == {"status": "mismatch", "stored": forged, "computed": made["state_hash"]}
    before = api.stored()
    answer = ada.call("POST", "/v1/project/p/state/ops", {"ops": [{"op": "set_phase", "phase": "y"}]})
    refused(answer, 500, "state_mismatch")
    assert api.stored() == before
