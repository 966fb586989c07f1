"""Every worked value of the specification's vectors that belongs to protocol/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chainmemory.errors import IntegrityError
from chainmemory.protocol import canonical, event, evidence, identity, ledger_entry, records
from chainmemory.protocol.hashing import sha256

VECTORS = Path(__file__).parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("case", load("events"), ids=lambda case: str(case["header"]["number"]))
def test_event(case: dict[str, Any]) -> None:
    header = case["header"]
    assert event.content_hash(case["content"].encode()) == header["content_hash"]
    assert len(case["content"].encode()) == header["content_length"]
    assert event.build_header(**header) == header
    assert canonical.canonical(header).decode() == case["canonical"]
    assert event.event_hash(header) == case["event_hash"]


@pytest.mark.parametrize("case", load("identity"))
def test_identity(case: dict[str, str]) -> None:
    account = case["account_id"]
    assert identity.project_id(account, case["name"]) == case["project_id"]
    assert identity.ledger_id(account) == case["ledger_id"]
    assert identity.account_ref(account) == case["account_ref"]


@pytest.mark.parametrize("case", load("evidence"), ids=lambda case: f"{len(case['hashes'])}-hashes")
def test_evidence(case: dict[str, Any]) -> None:
    assert evidence.evidence_root(case["hashes"]) == case["root"]
    assert evidence.evidence_root(reversed(case["hashes"])) == case["root"]
    for event_hash, expected in case["proofs"].items():
        proof = evidence.inclusion_proof(case["hashes"], event_hash)
        assert proof == evidence.Proof(**expected)
        evidence.verify_inclusion(event_hash, proof, case["root"])
        with pytest.raises(IntegrityError):
            evidence.verify_inclusion("0x" + "7" * 64, proof, case["root"])


def test_server_ledger() -> None:
    prev = ledger_entry.GENESIS_PREV
    headers = [case["header"] for case in load("events")]
    for seq, entry in enumerate(load("ledger"), 1):
        keys = {key: entry[key] for key in ("memory_id", "content_sha256", "blob_sha256")}
        assert records.header_sha256(headers[seq - 1]) == entry["content_sha256"]
        assert ledger_entry.make_entry(prev, seq, entry["ts"], entry["op"], **keys) == entry
        prev = entry["hash"]


def test_file_ledger() -> None:
    vectors = load("file_ledger")
    prev = ledger_entry.GENESIS_PREV
    for seq, (record, entry) in enumerate(zip(vectors["records"], vectors["entries"], strict=True), 1):
        assert records.file_record_sha256(record) == entry["content_sha256"]
        keys = {"memory_id": record["id"], "content_sha256": entry["content_sha256"]}
        assert ledger_entry.make_entry(prev, seq, entry["ts"], "save", **keys) == entry
        prev = entry["hash"]


def test_misc() -> None:
    vectors = load("misc")
    assert records.fact_sha256(vectors["fact"]) == vectors["fact_sha256"]
    assert records.fact_rest_sha256(vectors["fact"]) == vectors["fact_rest_sha256"]
    assert records.receipt_hash(vectors["receipt"]) == vectors["receipt_hash"]
    answered = {**vectors["receipt"], "receipt_hash": vectors["receipt_hash"], "ledger_seq": 9}
    assert records.receipt_hash(answered) == vectors["receipt_hash"]
    assert records.capture_fingerprint(*vectors["capture"]) == vectors["fingerprint"]
    assert records.header_rest_sha256(vectors["header"]) == vectors["rest_sha256"]
    rest = {k: v for k, v in vectors["header"].items() if k not in ("salt", "content_hash", "content_length")}
    assert sha256(canonical.canonical(rest)).hex() == vectors["rest_sha256"]
