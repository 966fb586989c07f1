"""An account's memories: numbers without gaps, headers, ledger entries, blobs, content (protocol §3–§5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chainmemory.errors import ChainMemoryError, IntegrityError
from chainmemory.protocol.canonical import canonical, parse_json
from chainmemory.protocol.event import content_hash, event_hash
from chainmemory.protocol.records import header_rest_sha256, header_sha256
from chainmemory.verify.findings import AccountChecked, Report
from chainmemory.verify.keys import CLIENT_SEALED, OVERHEAD, AccountKey
from chainmemory.verify.ledger import Sealed
from chainmemory.verify.rows import Rows, misfits

# Columns that repeat the header for filters. (The category is filing, which may change.)
_REPEATED = ("project", "importance", "source", "kind", "occurred_at", "recorded_at")
_GONE_WITH_FORGET = ("salt", "content_hash", "content_length")


class _Row(NamedTuple):
    number: int
    event_hash: str
    header: str
    forgotten: bool
    wrapped_seed: bytes | None
    content_blob: bytes | None
    tags_blob: bytes | None
    project: str | None
    importance: int
    source: str
    kind: str
    occurred_at: str
    recorded_at: str


@dataclass
class Known:
    """What is stored of the account's memories, by number."""

    event_hashes: dict[int, str] = field(default_factory=dict)
    blobs: dict[int, str] = field(default_factory=dict)
    """SHA-256 of each stored content blob."""


def check_memories(
    rows: Rows, report: Report, checked: AccountChecked, key: AccountKey | None, sealed: Sealed, *, count: int
) -> Known:
    """Check every memory of an account that must have `count` of them; without a key, none is opened."""
    known = Known()
    account = checked.account_id
    for row in _stored(rows, account):
        where = f"memory {row.number} of {account}"
        checked.memories += 1
        wrong = misfits(row)
        if wrong:
            report.add_misfits(where, wrong)
        if "number" in wrong or "event_hash" in wrong:
            continue
        known.event_hashes[row.number] = row.event_hash
        if wrong:
            continue
        header = _header(report, where, row, account)
        entry = sealed.memories.get(row.number)
        if entry is None:
            report.add("memory_unsealed", where, "No ledger entry seals it.")
        if row.forgotten:
            _check_forgotten(report, where, row, header, entry)
            continue
        if header is not None:
            report.expect("event_hash", where, "its event hash", event_hash(header), row.event_hash)
            if entry is not None:
                report.expect(
                    "memory_sealed_header",
                    where,
                    "its header's hash in the ledger",
                    header_sha256(header),
                    entry.get("content_sha256"),
                )
        if row.content_blob is None:
            report.add("blob_missing", where, "Its content is gone, though it wasn't forgotten.")
            continue
        known.blobs[row.number] = hashlib.sha256(row.content_blob).hexdigest()
        if entry is not None:
            report.expect(
                "blob_hash",
                where,
                "its blob's hash",
                entry.get("blob_sha256"),
                known.blobs[row.number],
            )
        if header is not None and key is not None:
            checked.opened += _check_content(report, where, row, header, key)
    _check_numbers(report, account, set(known.event_hashes), sealed, count)
    return known


def _stored(rows: Rows, account: str) -> Iterator[_Row]:
    query = f"SELECT {', '.join(_Row._fields)} FROM memories WHERE account_id = ? ORDER BY number"
    for values in rows.all(query, account):
        yield _Row(*values)


def _check_numbers(report: Report, account: str, found: set[int], sealed: Sealed, count: int) -> None:
    for number in sorted(set(range(1, count + 1)) - found):
        report.add("memory_missing", f"memory {number} of {account}", "It is gone.")
    for number in sorted(found - set(range(1, count + 1))):
        report.add("memory_extra", f"memory {number} of {account}", f"The account has only {count} memories.")
    for number in sorted(sealed.memories.keys() - found - set(range(1, count + 1))):
        report.add(
            "memory_missing",
            f"memory {number} of {account}",
            f"The ledger seals it, though the account counts only {count} memories.",
        )


def _header(report: Report, where: str, row: _Row, account: str) -> dict[str, Any] | None:
    try:
        header = parse_json(row.header)
        if not isinstance(header, dict):
            raise IntegrityError("It isn't an object.")
        report.expect("header_form", where, "its header's text", canonical(header).decode(), row.header)
    except ChainMemoryError as error:
        report.add("header_unparseable", where, error.message)
        return None
    report.expect("header_account", where, "its header's account", account, header.get("account_id"))
    report.expect("header_number", where, "its header's number", row.number, header.get("number"))
    for name in _REPEATED:
        wanted = header.get(name)
        if isinstance(wanted, str):
            wanted = wanted.replace("\0", "\ufffd")  # no column can hold U+0000
        report.expect("header_column", where, f"its {name}", wanted, getattr(row, name))
    return header


def _check_forgotten(
    report: Report, where: str, row: _Row, header: dict[str, Any] | None, entry: dict[str, Any] | None
) -> None:
    if row.content_blob is not None or row.wrapped_seed is not None:
        report.add("forgotten_kept", where, "It was forgotten, but its content or key is still here.")
    if header is not None and (left := [name for name in _GONE_WITH_FORGET if header.get(name) is not None]):
        report.add("forgotten_kept", where, f"It was forgotten, but its header still has {', '.join(left)}.")
    if entry is None:
        return
    if entry.get("op") != "forget":
        report.add("forgotten_unsealed", where, "It is marked forgotten, and no ledger entry says so.")
    elif header is not None:
        report.expect(
            "memory_sealed_header",
            where,
            "what is left of its header",
            entry.get("rest_sha256"),
            header_rest_sha256(header),
        )


def _check_content(report: Report, where: str, row: _Row, header: dict[str, Any], key: AccountKey) -> int:
    """Open the content and compare it with the header; return 1 if it could be opened, else 0."""
    blob = row.content_blob
    assert blob is not None
    if row.tags_blob is not None:
        try:
            key.open_small(row.tags_blob, "tags", number=row.number)
        except IntegrityError as error:
            report.add("tags_undecryptable", where, f"Its tags can't be opened: {error.message}.")
    if header.get("sealed_by") == "client":
        # What the client sealed is opaque; its form is all there is to see.
        report.expect("blob_form", where, "its blob's first byte", CLIENT_SEALED, blob[0] if blob else None)
        report.expect(
            "content_length", where, "its length", header.get("content_length"), len(blob) - OVERHEAD
        )
        return 0
    if row.wrapped_seed is None:
        report.add("content_undecryptable", where, "Its key is gone, though it wasn't forgotten.")
        return 0
    try:
        plaintext = key.open(blob, row.wrapped_seed, "content", number=row.number)
    except IntegrityError as error:
        report.add("content_undecryptable", where, f"Its content can't be opened: {error.message}.")
        return 0
    report.expect(
        "content_hash", where, "its content's hash", header.get("content_hash"), content_hash(plaintext)
    )
    report.expect("content_length", where, "its length", header.get("content_length"), len(plaintext))
    return 1
