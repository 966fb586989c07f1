"""Reading one line of a ledger, of the server's or of a file tenant's (protocol §5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from chainmemory.errors import Invalid
from chainmemory.ledger.accepts import Accepts, read_accepts
from chainmemory.ledger.quick import Page
from chainmemory.ledger.quick_line import read_quickly
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import entry_hash

SERVER_OPS: Final = ("save", "adopt", "forget", "state", "fact")

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_HEX32: Final = re.compile(r"0x[0-9a-f]{64}")


class Entry(NamedTuple):
    """One line that can be read; whether it fits the chain is the walk's question."""

    record: str | None
    """The record it seals: a file tenant's record id, or `memory:7`, `fact:ID@2`, `state:PROJECT_ID@3`; None
    of an entry that only accepts what is wrong."""
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
    accepts: Accepts | None = None


Seal = str | Entry
"""What an entry says of its record: packed into its hashes alone where it is an ordinary one."""

ReadLine = Callable[[bytes], Entry]
"""Reads a line (with or without its LF) or raises Invalid: then the line is `unparseable`."""


class LineReader:
    """Reads the lines of one kind of ledger: one at a time, and what a page of ordinary ones seals."""

    def __init__(
        self, one: ReadLine, page: Callable[[Page], tuple[Sequence[str], Sequence[str]] | None]
    ) -> None:
        self._one = one
        self._page = page

    def __call__(self, line: bytes) -> Entry:
        """Read a line; Invalid if it has not this ledger's form."""
        return self._one(line)

    def sealed_by(self, page: Page) -> tuple[Sequence[str], Sequence[str]] | None:
        """Return the records that a page's entries seal, and how, packed; None to read it line by line."""
        return self._page(page)


def pack(entry: Entry) -> Seal:
    """Return what is to be kept of an entry."""
    if entry.op == "forget":
        return entry
    return ("f" if "fact_sha256" in entry.seals else "") + "".join(entry.seals.values())


def unpack(seal: Seal) -> Entry:
    """Return an entry that says of its record what the packed one does."""
    if not isinstance(seal, str):
        return seal
    keys = {64: ("content_sha256",), 128: ("content_sha256", "blob_sha256"), 65: ("fact_sha256",)}
    hashes = (
        [seal] if len(seal) == 66 else [seal[at : at + 64] for at in range(len(seal) % 64, len(seal), 64)]
    )
    return Entry(
        None, "", dict(zip(keys.get(len(seal), ("state_hash",)), hashes, strict=True)), None, 0, "", "", ""
    )


def _read_file(line: bytes) -> Entry:
    chained = _chained(line)
    entry = chained[0]
    seals = {"content_sha256": _sha256(entry, "content_sha256")}
    rest = entry.get("rest_sha256")
    record = _string(entry, "memory_id")
    accepts = None
    if entry["op"] == "adopt" and "accepts" in entry:
        try:
            accepts = read_accepts(entry["accepts"])
        except Invalid:
            # A further key of somebody else's: it is hashed, and means nothing here.
            accepts = None
    return _entry(chained, record, seals, rest if isinstance(rest, str) else None, accepts)


def _read_server(line: bytes) -> Entry:
    chained = _chained(line)
    entry = chained[0]
    op = entry["op"]
    if op not in SERVER_OPS:
        raise Invalid(f"op must be one of {', '.join(SERVER_OPS)}")
    if op == "adopt" and "accepts" in entry:
        return _entry(chained, None, {}, None, read_accepts(entry["accepts"]))
    rest = _sha256(entry, "rest_sha256") if op == "forget" else None
    if op == "state" or (op == "adopt" and "project_id" in entry):
        record = f"state:{_hex32(entry, 'project_id')}@{_count(entry, 'version')}"
        return _entry(chained, record, {"state_hash": _hex32(entry, "state_hash")}, rest)
    if op == "fact" or (op in ("adopt", "forget") and "fact_id" in entry):
        record = f"fact:{_string(entry, 'fact_id')}@{_count(entry, 'version')}"
        return _entry(chained, record, {"fact_sha256": _sha256(entry, "fact_sha256")}, rest)
    seals = {key: _sha256(entry, key) for key in ("content_sha256", "blob_sha256")}
    return _entry(chained, f"memory:{_string(entry, 'memory_id')}", seals, rest)


def _file_page(page: Page) -> tuple[Sequence[str], Sequence[str]] | None:
    return page.columns["memory_id"], page.columns["content_sha256"]


def _server_page(page: Page) -> tuple[Sequence[str], Sequence[str]] | None:
    columns = page.columns
    if page.op == "save":
        names = [f"memory:{number}" for number in columns["memory_id"]]
        seals = zip(columns["content_sha256"], columns["blob_sha256"], strict=True)
        return names, [f"{content}{blob}" for content, blob in seals]
    if page.op == "state":
        places = zip(columns["project_id"], columns["version"], strict=True)
        return [f"state:{project}@{version}" for project, version in places], columns["state_hash"]
    return None


read_file_line: Final = LineReader(_read_file, _file_page)
"""Reads a line of a file tenant's `ledger.jsonl`; Invalid if it has not the public format."""

read_server_line: Final = LineReader(_read_server, _server_page)
"""Reads a line of an account's ledger; Invalid if it has not the server's form or an unknown `op`."""


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
    chained: tuple[dict[str, Any], str],
    record: str | None,
    seals: dict[str, str],
    rest: str | None,
    accepts: Accepts | None = None,
) -> Entry:
    entry, computed = chained
    return Entry(
        record, entry["op"], seals, rest, entry["seq"], entry["prev"], entry["hash"], computed, accepts
    )


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
