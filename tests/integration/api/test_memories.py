"""Memories: saved, listed, searched, filed, proved and audited."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from tests.support.api import Account, Api, refused
from tests.support.databases import ENGINES

BOTH = pytest.mark.parametrize("api", ENGINES, indirect=True)
SAVED_KEYS = [
    "memory_number", "memory_id", "event_hash", "content_hash", "tags", "project", "tier", "chain_sync",
    "chain_memory_id", "trust", "ledger_seq", "ledger_hash",
]  # fmt: skip
ITEM_KEYS = {
    "memory_number", "id", "timestamp", "category", "importance", "project", "tags", "archived", "source",
    "event_hash", "content_hash", "chain_sync", "summary", "summary_preview",
}  # fmt: skip
HEADER_KEYS = {
    "account_id", "number", "project", "kind", "category", "importance", "source", "subject", "provenance",
    "occurred_at", "recorded_at", "content_type", "content_length", "content_hash", "sealed_by", "salt",
}  # fmt: skip


def _sha(data: bytes) -> str:
    return "0x" + hashlib.sha256(data).hexdigest()


def _event_hash(header: dict[str, Any]) -> str:
    data = b"CM_MEMORY_EVENT_V1\0" + rfc8785.dumps(header)
    return "0x" + hashlib.sha3_256(data).hexdigest()


@BOTH
def test_a_saved_memory_answers_its_place_and_hashes(ada: Account) -> None:
    saved = ada.save("Größe 決定 🚀", project="payments", tags=["b", "a", "b"], category="DECISION")
    assert list(saved) == SAVED_KEYS
    assert saved["content_hash"] == _sha("Größe 決定 🚀".encode())
    header = ada.get("/v1/memory/1")["header"]
    assert set(header) == HEADER_KEYS
    assert saved["event_hash"] == _event_hash(header)
    assert {name: saved[name] for name in SAVED_KEYS if "hash" not in name} == {
        "memory_number": 1,
        "memory_id": "1",
        "tags": ["b", "a"],
        "project": "payments",
        "tier": "episodic",
        "chain_sync": "pending",
        "chain_memory_id": None,
        "trust": "server_sealed",
        "ledger_seq": 1,
    }
    second = ada.save()
    assert (second["memory_number"], second["ledger_seq"]) == (2, 2)


def test_the_header_says_what_was_given_and_the_defaults_of_the_rest(ada: Account) -> None:
    ada.save("x")
    plain = ada.get("/v1/memory/1")["header"]
    assert plain["occurred_at"] == plain["recorded_at"]
    assert {
        name: plain[name]
        for name in ("project", "kind", "category", "importance", "source", "subject", "provenance")
    } == {
        "project": None,
        "kind": "memory.note",
        "category": "INTERACTION",
        "importance": 5,
        "source": "api",
        "subject": None,
        "provenance": None,
    }
    ada.save(
        "y",
        platform="cli",
        kind="build.failed",
        importance=10.0,
        subject={"type": "user", "id": "cust-7"},
        occurred_at="2026-01-01T00:30:00.1234567+01:00",
        provenance={"agent_id": "cc", "run_id": ""},
        unknown={"is": "ignored"},
    )
    given = ada.get("/v1/memory/2")["header"]
    assert given["source"] == "cli"
    assert given["kind"] == "build.failed"
    assert given["importance"] == 10
    assert given["subject"] == {"type": "user", "id": "cust-7"}
    assert given["occurred_at"] == "2025-12-31T23:30:00.123456Z"
    assert given["provenance"] == {"agent_id": "cc", "run_id": ""}
    ada.save("z", provenance={})
    assert ada.get("/v1/memory/3")["header"]["provenance"] is None


def test_content_wins_over_summary_and_json_is_put_in_canonical_form(ada: Account) -> None:
    ada.save("the content", summary="the summary")
    assert ada.get("/v1/memory/1/decrypted")["summary"] == "the content"
    ada.post("/v1/memory", {"summary": "the summary"}, status=201)
    assert ada.get("/v1/memory/2/decrypted")["summary"] == "the summary"
    value = {"b": [1.50, -0.0, 1e21, "é\u2028"], "a": {"z": None, "A": True}}
    saved = ada.save(value)
    form = rfc8785.dumps(value)
    assert saved["content_hash"] == _sha(form)
    decrypted = ada.get("/v1/memory/3/decrypted")
    assert decrypted["summary"] == form.decode()
    assert decrypted["header"]["content_type"] == "application/json"
    assert decrypted["header"]["content_length"] == len(form)
    ada.save([1, 2])
    assert ada.get("/v1/memory/4/decrypted")["summary"] == "[1,2]"


def test_strings_are_kept_code_point_for_code_point(ada: Account) -> None:
    for text in [" padded \n", "e\u0301 and é", "\u0000", "\ufeffbom", "\u202eright", "👩\u200d👧"]:
        number = ada.save(text)["memory_number"]
        decrypted = ada.get(f"/v1/memory/{number}/decrypted")
        assert decrypted["summary"] == text
        assert decrypted["integrity_verified"] is True


def test_a_mebibyte_is_saved_and_a_byte_more_is_not(api: Api, ada: Account) -> None:
    assert ada.save("é" * (512 * 1024))["memory_number"] == 1
    before = api.stored()
    for body in ({"content": "é" * (512 * 1024) + "x"}, {"summary": "x" * (1024 * 1024 + 1)}):
        refused(ada.call("POST", "/v1/memory", body), 413, "too_large")
    refused(
        ada.call("POST", "/v1/memory", {"content": ["x" * (1024 * 1024 - 3)]}), 413, "too_large", "content"
    )
    refused(
        ada.call(
            "POST", "/v1/memories/batch", {"memories": [{"content": "x"}, {"content": "x" * 2**20 + "y"}]}
        ),
        413,
        "too_large",
        "memories.1.content",
    )
    assert api.stored() == before


@BOTH
def test_a_batch_is_saved_whole(api: Api, ada: Account) -> None:
    answer = ada.call(
        "POST",
        "/v1/memories/batch",
        {"memories": [{"content": f"memory {n}", "project": f"p{n % 3}"} for n in range(500)]},
    )
    assert answer.status_code == 201
    assert list(answer.json()) == ["memories"]
    saved = answer.json()["memories"]
    assert all(list(one) == SAVED_KEYS for one in saved)
    assert [one["memory_number"] for one in saved] == list(range(1, 501))
    assert [one["ledger_seq"] for one in saved] == list(range(1, 501))
    assert ada.get("/v1/memories/list", limit=200)["total"] == 500
    assert ada.get("/v1/projects")["total"] == 3
    assert ada.get("/v1/memory/500/decrypted")["summary"] == "memory 499"


@BOTH
def test_a_sealed_memory_is_stored_as_it_came(ada: Account) -> None:
    blob = b"\x02" + b"n" * 12 + b"cipher" + b"t" * 16
    body = {
        "blob_b64": base64.b64encode(blob).decode(),
        "event_hash": "AB" * 32,
        "plain_len": 6,
        "category": "LEARNING",
        "tags": ["secret"],
        "project": "p",
        "platform": "extension",
        "importance": 9,
    }
    saved = ada.post("/v1/memory/sealed", body, status=201)
    assert list(saved) == SAVED_KEYS
    assert saved["trust"] == "client_sealed"
    assert saved["content_hash"] == "0x" + "ab" * 32
    one = ada.get("/v1/memory/1/decrypted")
    assert one["header"]["sealed_by"] == "client"
    assert one["header"]["content_length"] == 6
    assert one["header"]["source"] == "extension"
    assert (one["summary"], one["integrity_verified"]) == (None, True)
    assert ada.get("/v1/memory/1/blob") == {
        "blob_b64": body["blob_b64"],
        "scheme": "aes-256-gcm:client",
    }
    (item,) = ada.get("/v1/memories")["memories"]
    assert (item["summary"], item["summary_preview"]) == (None, None)
    assert ada.get("/v1/memory/context")["memories"] == []
    assert ada.post("/v1/audit/memory/1")["hash"]["status"] == "match"


@BOTH
def test_lists_are_newest_first_and_filtered(ada: Account) -> None:
    ada.save("first", project="p", tags=["red", "a b"], occurred_at="2026-01-01T00:00:00Z")
    ada.save("second", category="ERROR", tags=["red"], occurred_at="2026-01-02T00:00:00Z")
    ada.save("x" * 100 + "🚀", project="p", occurred_at="2026-01-03T00:00:00Z")
    listed = ada.get("/v1/memories")
    assert listed["total"] == 3
    assert set(listed["memories"][0]) >= ITEM_KEYS
    assert [one["memory_number"] for one in listed["memories"]] == [3, 2, 1]
    newest = listed["memories"][0]
    assert newest["summary"] == "x" * 100 + "🚀"
    assert newest["summary_preview"] == "x" * 80
    assert newest["timestamp"] == 1767398400

    def numbers(**query: Any) -> list[int]:
        answer = ada.get("/v1/memories/list", **query)
        found = [one["memory_number"] for one in answer["memories"]]
        assert answer["total"] == len(found)
        return found

    assert numbers(project="p") == [3, 1]
    assert numbers(tag="red") == [2, 1]
    assert numbers(tag="a b") == [1]
    assert numbers(tag="RED") == []
    assert numbers(category="ERROR") == [2]
    assert numbers(since="2026-01-02T00:00:00Z") == [3, 2]
    assert numbers(until="2026-01-02T00:00:00Z") == [1]
    assert numbers(since="2026-01-02T01:00:00+01:00", until="2026-01-02T00:00:00.000001Z") == [2]
    assert numbers(project="none") == []
    ada.post("/v1/memories/2/archive")
    assert numbers() == [3, 1]
    assert numbers(archived="1") == [2]
    assert numbers(archived="all") == [3, 2, 1]
    page = ada.get("/v1/memories/list", limit=1, offset=1)
    assert ([one["memory_number"] for one in page["memories"]], page["total"]) == ([1], 2)
    previews = ada.get("/v1/memories/list")["memories"]
    assert [one["summary"] for one in previews] == [None, None]
    whole = ada.get("/v1/memories/list", include_plaintext="1")["memories"]
    assert [one["summary"] for one in whole] == ["x" * 100 + "🚀", "first"]


@BOTH
def test_search_ranks_whole_words_over_encrypted_text(ada: Account) -> None:
    ada.save("consensus is reached by proof of authority, consensus!", project="p")
    ada.save("a long text that names consensus once among many other words about lunch and dinner")
    ada.save("nothing of the kind")
    found = ada.get("/v1/memories/search", q="Consensus")
    assert [one["memory_number"] for one in found["memories"]] == [1, 2]
    assert found["total"] == 2
    assert found["memories"][0]["score"] > found["memories"][1]["score"] > 0
    assert [
        one["memory_number"] for one in ada.get("/v1/memories/search", q="consensus", limit=1)["memories"]
    ] == [1]
    assert ada.get("/v1/memories/search", q="consensus", project="p")["total"] == 1
    assert ada.get("/v1/memories/search", q="consens")["memories"] == []
    assert ada.get("/v1/memories/search", q="!!!")["memories"] == []


@BOTH
def test_filing_changes_no_hash(api: Api, ada: Account) -> None:
    saved = ada.save("x", tags=["old"], category="DECISION")
    ada.save("y")
    before = ada.get("/v1/memory/1")
    tagged = ada.put("/v1/memories/1/tags", {"tags": ["new", "new", "ü"]})
    assert tagged["tags"] == ["new", "ü"]
    assert ada.post("/v1/memories/1/archive")["archived"] is True
    filed = ada.put("/v1/memories/1/filing", {"category": "LEARNING", "superseded_by": 2})
    assert (filed["category"], filed["superseded_by"]) == ("LEARNING", 2)
    after = ada.get("/v1/memory/1")
    assert after["filing"] == {
        "category": "LEARNING",
        "tags": ["new", "ü"],
        "archived": True,
        "superseded_by": 2,
    }
    assert after["header"] == before["header"]
    assert after["header"]["category"] == "DECISION"
    assert after["event_hash"] == saved["event_hash"]
    assert ada.post("/v1/audit/memory/1")["ledger"] == {"verdict": "sealed", "seq": 1}
    assert ada.post("/v1/memories/1/unarchive")["archived"] is False
    assert ada.put("/v1/memories/1/filing", {"superseded_by": None})["superseded_by"] is None
    assert ada.put("/v1/memories/1/tags", {"tags": []})["tags"] == []
    assert api.stored()["ledger_entries"] == 2


def test_a_proof_says_where_the_chain_holds_it(ada: Account) -> None:
    saved = ada.save()
    proof = ada.get("/v1/my/memory/1/proof")
    assert list(proof) == [
        "memory_number", "anchored", "event_hash", "chain_memory_id", "chain_tx", "block_number",
        "batch_root", "chain_id", "contract", "how_to_verify",
    ]  # fmt: skip
    assert (proof["anchored"], proof["event_hash"]) == (False, saved["event_hash"])
    assert "MemoryRegistry" in proof["how_to_verify"]


@BOTH
def test_an_audit_recomputes_everything_and_writes_nothing(api: Api, ada: Account) -> None:
    saved = ada.save()
    ada.ops("p", {"op": "set_phase", "phase": "x"})
    ada.save("second")
    before = api.stored()
    audit = ada.post("/v1/audit/memory/1", {"dry_run": True})
    assert audit == {
        "memory_number": 1,
        "category": "INTERACTION",
        "dry_run": True,
        "hash": {
            "status": "match",
            "stored_hash": saved["event_hash"],
            "computed_hash": saved["event_hash"],
        },
        "chain": {"status": "pending", "chain_memory_id": None, "chain_tx": None},
        "ledger": {"verdict": "sealed", "seq": 1},
        "fee_charged": 0,
    }
    assert ada.post("/v1/audit/memory/2")["ledger"] == {"verdict": "sealed", "seq": 3}
    assert api.stored() == before


def test_the_context_lists_the_newest_and_only_verified_ones_if_asked(ada: Account) -> None:
    ada.save("old", platform="mcp")
    ada.save("line\none")
    context = ada.get("/v1/memory/context", limit=5)
    assert list(context) == ["summary", "memories"]
    assert [(one["platform"], one["summary"], one["verified"]) for one in context["memories"]] == [
        ("api", "line\none", False),
        ("mcp", "old", False),
    ]
    assert "- line one\n- old" in context["summary"]
    assert isinstance(context["memories"][0]["timestamp"], int)
    assert len(ada.get("/v1/memory/context", limit=1)["memories"]) == 1
    assert ada.get("/v1/memory/context", verified_only="1")["memories"] == []


def test_nothing_a_user_says_is_on_disk_in_plain(api: Api, ada: Account, tmp_path: Path) -> None:
    words = [
        b"Wintermute",
        b"Neuromancer",
        b"Straylight",
        b"Chiba",
        b"Freeside",
        b"Sprawl",
        b"Ninsei",
        b"Zion",
    ]
    said = [word.decode() for word in words]
    ada.call(
        "POST",
        "/v1/memory",
        {"content": said[0], "tags": [said[1]]},
        headers={"idempotency-key": said[6]},
    )
    ada.post("/v1/keys/members", {"label": said[2], "scope": "read"})
    ada.post("/v1/register", {"name": said[3], "model": said[3]})
    ada.post("/v1/projects", {"project_id": "p", "name": said[4], "keywords": [said[4]]}, status=201)
    ada.ops("p", {"op": "set_phase", "phase": said[5]}, generated_by=said[7])
    for number in range(50):
        ada.ops("p", {"op": "set_focus", "focus": f"{said[5]} {number}"})
    ada.get("/v1/memories/search", q=said[0])
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.name == "store.sqlite-wal" for file in files)
    for file in files:
        data = file.read_bytes().lower()
        for word in words:
            assert word.lower() not in data, (file.name, word)


@pytest.mark.parametrize("path", ["/v1/memory/{n}", "/v1/memory/{n}/blob", "/v1/my/memory/{n}/proof"])
def test_a_number_that_is_none_is_refused_and_one_that_is_not_there_is_not_found(
    ada: Account, path: str
) -> None:
    for n in ("abc", "0", "-1", "1.0", "9" * 30, "%00", "１"):
        refused(ada.call("GET", path.format(n=n)), 422, "invalid_value", "n")
    for n in ("1", str(2**53 - 1)):
        refused(ada.call("GET", path.format(n=n)), 404, "not_found")


def test_the_stored_answer_is_json_whatever_the_text(ada: Account) -> None:
    ada.save("</script> \u2028 \x7f \\")
    raw = ada.call("GET", "/v1/memories").content
    assert json.loads(raw)["memories"][0]["summary"] == "</script> \u2028 \x7f \\"
