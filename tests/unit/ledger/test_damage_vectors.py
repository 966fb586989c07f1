"""The specification's fifteen kinds of damage to a file tenant, with the exact verdict for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.file_tenant import tenant_records
from chainmemory.ledger.verdicts import verify

VECTORS = Path(__file__).parents[2] / "vectors"
CASES = json.loads((VECTORS / "ledger_damage.json").read_text("utf-8"))


def files(records: dict[str, Any]) -> list[tuple[str, bytes]]:
    return [
        (stem, b"{not json" if record is None else json.dumps(record, ensure_ascii=False).encode())
        for stem, record in records.items()
    ]


@pytest.mark.parametrize("ending", [b"", b"\n"], ids=["bare", "lf"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_damage(case: dict[str, Any], ending: bytes) -> None:
    lines = [line.encode() + ending for line in case["lines"]]
    records = tenant_records(files(case["records"]))
    report = verify(lines, records.items(), read=read_file_line, heads={}, unsealed_is_wrong=False)
    expected = case["verdict"]
    assert report.walk.chain == expected["chain"]
    assert report.walk.entries == expected["entries"]
    assert (report.walk.broken_at, report.walk.reason) == (expected["broken_at"], expected["reason"])
    for verdict in ("sealed", "altered", "missing", "unsealed", "disputed", "forgotten"):
        assert sorted(getattr(report, verdict)) == expected[verdict], verdict
    assert report.ok is expected["ok"]


def test_file_ledger_vector_is_intact() -> None:
    vector = json.loads((VECTORS / "file_ledger.json").read_text("utf-8"))
    records = tenant_records(files({record["id"]: record for record in vector["records"]}))
    lines = [json.dumps(entry, ensure_ascii=False).encode() + b"\n" for entry in vector["entries"]]
    report = verify(lines, records.items(), read=read_file_line, heads={}, unsealed_is_wrong=False)
    assert report.ok is True
    assert report.sealed == [record["id"] for record in vector["records"]]
    assert report.walk.head == (3, vector["entries"][2]["hash"])
