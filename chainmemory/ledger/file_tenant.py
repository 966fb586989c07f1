"""The records of a file tenant: a folder's `memory/*.json` (protocol §5)."""

from __future__ import annotations

from collections.abc import Iterable

from chainmemory.errors import Invalid
from chainmemory.ledger.verdicts import Record
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.records import file_record_sha256

UNREADABLE = Record(seals=None)
"""A record that is there and can't be parsed."""


def read_record(stem: str, data: bytes) -> tuple[str, Record]:
    """Read one file, named `stem` without `.json`: the record's id and what it holds.

    A file that is no JSON object, or whose `id` is no string, can't be parsed; it goes by its file name.
    """
    try:
        record = parse_json(data)
    except Invalid:
        return stem, UNREADABLE
    if not isinstance(record, dict):
        return stem, UNREADABLE
    name = stem if record.get("id") is None else record["id"]
    if not isinstance(name, str):
        return stem, UNREADABLE
    return name, Record({"content_sha256": file_record_sha256(record)})


def tenant_records(files: Iterable[tuple[str, bytes]]) -> dict[str, Record]:
    """Read a tenant's files (name without `.json`, content); an id that two files claim can't be read."""
    records: dict[str, Record] = {}
    for stem, data in files:
        name, record = read_record(stem, data)
        records[name] = UNREADABLE if name in records else record
    return records
