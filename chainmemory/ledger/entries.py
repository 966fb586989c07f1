"""Reading one line of a ledger, of the server's or of a file tenant's (protocol §5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from chainmemory.errors import Invalid
from chainmemory.ledger.quick import read_quickly
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import entry_hash

SERVER_OPS: Final = ("save", "adopt", "forget", "state", "fact")

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_HEX32: Final = re.compile(r"0x[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that can be read; whether it fits the chain is the walk's question."""

    record: str
    """The record it seals: a file tenant's record id, or `memory:7`, `fact:ID@2`, `state:PROJECT_ID@3`."""
    op: str
    seals: dict[str, str]
    """The hashes that the record must have."""
    rest_sha256: str | None
    """Of a `forget`: the hash over what is left."""
    seq: int
    prev: str
    hash: str
    computed: str
    """The entry's hash computed from what it says, 64 hex digits."""


ReadLine = Callable[[bytes], Entry]
"""Reads a line (with or without its LF) or raises Invalid: then the line is `unparseable`."""


def read_file_line(line: bytes) -> Entry:
    """Read a line of a file tenant's `ledger.jsonl`; Invalid if it has not the public format."""
    chained = _chained(line)
    entry = chained[0]
    seals = {"content_sha256": _sha256(entry, "content_sha256")}
    rest = entry.get("rest_sha256")
    return _entry(chained, _string(entry, "memory_id"), seals, rest if isinstance(rest, str) else None)


def read_server_line(line: bytes) -> Entry:
    """Read a line of an account's ledger; Invalid if it has not the server's form or an unknown `op`."""
    chained = _chained(line)
    entry = chained[0]
    op = entry["op"]
    if op not in SERVER_OPS:
        raise Invalid(f"op must be one of {', '.join(SERVER_OPS)}")
    rest = _sha256(entry, "rest_sha256") if op == "forget" else None
    if op == "state" or (op == "adopt" and "project_id" in entry):
        record = f"state:{_hex32(entry, 'project_id')}@{_count(entry, 'version')}"
        return _entry(chained, record, {"state_hash": _hex32(entry, "state_hash")}, rest)
    if op == "fact" or (op in ("adopt", "forget") and "fact_id" in entry):
        record = f"fact:{_string(entry, 'fact_id')}@{_count(entry, 'version')}"
        return _entry(chained, record, {"fact_sha256": _sha256(entry, "fact_sha256")}, rest)
    seals = {key: _sha256(entry, key) for key in ("content_sha256", "blob_sha256")}
    return _entry(chained, f"memory:{_string(entry, 'memory_id')}", seals, rest)


def _chained(line: bytes) -> tuple[dict[str, Any], str]:
    """Read the keys that every entry has; return it with the hash computed from what it says."""
    entry, computed = read_quickly(line) or (parse_json(line), None)
    if not isinstance(entry, dict):
        raise Invalid("a ledger entry is a JSON object")
    _count(entry, "seq")
    if type(entry.get("ts")) not in (int, float, str):
        raise Invalid("ts must be a number or a string")
    _string(entry, "op")
    _sha256(entry, "prev")
    _sha256(entry, "hash")
    return entry, computed or entry_hash(entry)


def _entry(
    chained: tuple[dict[str, Any], str], record: str, seals: dict[str, str], rest: str | None
) -> Entry:
    entry, computed = chained
    return Entry(record, entry["op"], seals, rest, entry["seq"], entry["prev"], entry["hash"], computed)


def _count(entry: dict[str, Any], key: str) -> int:
    value = entry.get(key)
    if type(value) is not int:
        raise Invalid(f"{key} must be an integer literal", field=key)
    return value


def _string(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise Invalid(f"{key} must be a string", field=key)
    return value


def _sha256(entry: dict[str, Any], key: str) -> str:
    value = _string(entry, key)
    if not _SHA256.fullmatch(value):
        raise Invalid(f"{key} must be 64 lower-case hex digits", field=key)
    return value


def _hex32(entry: dict[str, Any], key: str) -> str:
    value = _string(entry, key)
    if not _HEX32.fullmatch(value):
        raise Invalid(f"{key} must be 0x followed by 64 lower-case hex digits", field=key)
    return value
