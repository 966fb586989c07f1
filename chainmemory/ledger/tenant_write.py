"""Writing to a file tenant: records and the entries that seal them (protocol §5).

What a crash leaves, step by step. A save puts the record's bytes into a temporary file (a crash leaves that,
which is no record, and the next save overwrites it), then renames it into place: from here on the record is
there and unsealed. Then one write appends its line: a part of it is a torn tail, which the next write takes
away, and the record is still unsealed; all of it seals the record. Repeating the save, or `seal`, ends what
was begun. Nothing is acknowledged before record, line and both folders are synced.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import orjson

from chainmemory.errors import Conflict, Invalid
from chainmemory.ledger.entries import Entry, read_file_line
from chainmemory.ledger.file_tenant import read_record
from chainmemory.ledger.tenant import LEDGER, MEMORY, SUFFIX, Tenant, read_file, unreadable
from chainmemory.ledger.tenant_check import NO_HEADS, as_json, check
from chainmemory.ledger.tenant_tail import Tail, broken, find_tail, mend, write_all
from chainmemory.ledger.verdicts import Report
from chainmemory.protocol.ledger_entry import ledger_form, make_entry

TEMPORARY: Final = ".record.tmp"  # doesn't end in .json, so it is no record
_LONGEST: Final = 200
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Saved:
    """What a save did: the record's id, and the entry that seals it."""

    record: str
    seq: int
    hash: str
    known: bool
    """It was there and sealed already, so nothing was added."""


def save(tenant: Tenant, data: bytes, *, stem: str, now: float) -> Saved:
    """Save one record, a JSON object, under its `id` or else `stem`; `now` in Unix seconds.

    Saving the very same record again changes nothing.
    Raises Invalid for what is no record, Conflict where another record has its id (`record_exists`) or the
    ledger is broken, Unavailable where the system refuses.
    """
    record, held = read_record(stem, data)
    if held.seals is None or not record:
        raise Invalid("A record is a JSON object, and its id, where it has one, a string.", field="id")
    digest = held.seals["content_sha256"]
    with _system(tenant), _ledger(tenant) as fd:
        tail = find_tail(tenant, fd)
        there = _same_record_is_there(tenant, record, _file_name(record, stem), digest)
        sealed = _latest_entry(tenant, record)
        if sealed is not None and (not there or sealed.op == "forget" or sealed.seals != held.seals):
            raise _exists(tenant, record)
        if not there:
            _put(tenant, _file_name(record, stem), data)
        if sealed is not None:
            _sync(tenant, fd)
            return Saved(record, sealed.seq, sealed.hash, known=True)
        [entry] = _append(tenant, fd, tail, "save", {record: digest}, now)
        _sync(tenant, fd)
        return Saved(record, entry["seq"], entry["hash"], known=False)


def adopt(
    tenant: Tenant, *, now: float, heads: Mapping[int, str] | None = NO_HEADS
) -> tuple[list[str], Report]:
    """Seal every unsealed record; return their ids and the report afterwards. Mends a torn tail.

    Never an altered one. Raises Conflict, with the report in its details, where the chain is broken
    (`ledger_broken`) or an anchored head is missing (`head_missing`), Unavailable where the system refuses.
    """
    with _system(tenant), _ledger(tenant) as fd:
        try:
            mend(tenant, fd, find_tail(tenant, fd))
        except Conflict as no_end:
            raise _with_report(no_end, tenant, check(tenant, heads=heads), heads) from None
        before = check(tenant, heads=heads)
        if before.walk.chain == "broken":
            why = broken(tenant, f"line {before.walk.broken_at}: {before.walk.reason}")
            raise _with_report(why, tenant, before, heads)
        if before.walk.heads_missing:
            why = Conflict(
                f"The ledger of {tenant.name} lacks the anchored head at {before.walk.heads_missing[0]}: it "
                "was cut or rewritten, so nothing is added to it.",
                code="head_missing",
            )
            raise _with_report(why, tenant, before, heads)
        if not before.unsealed:
            _sync(tenant, fd)
            return [], before
        wanted = set(before.unsealed)
        digests = {
            name: record.seals["content_sha256"]
            for name, record in tenant.records()
            if name in wanted and record.seals is not None
        }
        _append(tenant, fd, find_tail(tenant, fd), "adopt", digests, now)
        _sync(tenant, fd)
        return list(digests), check(tenant, heads=heads)


def _append(
    tenant: Tenant, fd: int, tail: Tail, op: str, digests: Mapping[str, str], now: float
) -> list[dict[str, Any]]:
    """Write one entry per record in one piece, after what is whole."""
    mend(tenant, fd, tail)
    seq, prev = tail.seq, tail.hash
    entries = []
    for record, digest in digests.items():
        seq += 1
        entry = make_entry(prev, seq, now, op, memory_id=record, content_sha256=digest)
        prev = entry["hash"]
        entries.append(entry)
    lines = b"".join(ledger_form(entry) + b"\n" for entry in entries)
    write_all(fd, (b"\n" if tail.unterminated else b"") + lines)
    return entries


def _put(tenant: Tenant, name: str, data: bytes) -> None:
    """Put a record's file in place at once, and for good."""
    folder = tenant.memory()
    if folder is None:
        os.mkdir(MEMORY, 0o700, dir_fd=tenant.fd)
        os.fsync(tenant.fd)
        folder = tenant.memory()
        assert folder is not None, "it was just made"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(TEMPORARY, flags, 0o600, dir_fd=folder)
        try:
            write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)


def _same_record_is_there(tenant: Tenant, record: str, name: str, digest: str) -> bool:
    """Say whether the file is there with this very record. Raises Conflict where it holds another one."""
    folder = tenant.memory()
    if folder is None:
        return False
    try:
        if not _exists_in(folder, name):
            return False
        data = read_file(folder, name, tenant.path / MEMORY / name)
        found = None if data is None else read_record(name.removesuffix(SUFFIX), data)
        if found is None or found[0] != record or found[1].seals != {"content_sha256": digest}:
            raise _exists(tenant, record)
        return True
    finally:
        os.close(folder)


def _exists_in(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _latest_entry(tenant: Tenant, record: str) -> Entry | None:
    """Find a record's latest entry; only lines that hold its id are parsed."""
    plain, escaped = orjson.dumps(record), _escaped(record)
    found = None
    for line in tenant.lines():
        if plain in line or escaped in line:
            try:
                entry = read_file_line(line)
            except Invalid:
                continue  # a bad line is verify's to tell
            found = entry if entry.record == record else found
    return found


def _escaped(text: str) -> bytes:
    """Return a string as JSON that keeps to ASCII, as other tools write it."""
    return json.dumps(text).encode()


def _file_name(record: str, stem: str) -> str:
    """Name a record's file: by its id, as it is where every file system takes that."""
    if record == stem or (_PLAIN_NAME.fullmatch(record) and len(record) <= _LONGEST):
        return record + SUFFIX
    quoted = quote(record, safe=" ")
    if len(quoted) > _LONGEST or quoted.startswith((".", " ")):
        quoted = hashlib.sha256(record.encode()).hexdigest()
    return quoted + SUFFIX


def _sync(tenant: Tenant, fd: int) -> None:
    """Make the ledger, its name and the records' names last."""
    os.fsync(fd)
    os.fsync(tenant.fd)
    folder = tenant.memory()
    if folder is not None:
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _with_report(
    error: Conflict, tenant: Tenant, report: Report, heads: Mapping[int, str] | None
) -> Conflict:
    return Conflict(error.message, code=error.code, details={"report": as_json(tenant.name, report, heads)})


def _exists(tenant: Tenant, record: str) -> Conflict:
    return Conflict(
        f"{tenant.name} has another record {record!r} already, and a record never changes; give this one "
        "an id of its own.",
        code="record_exists",
        field="id",
    )


@contextmanager
def _ledger(tenant: Tenant) -> Iterator[int]:
    fd = tenant.open(LEDGER, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    assert fd is not None, "O_CREAT makes it"
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _system(tenant: Tenant) -> Iterator[None]:
    """Tell what the system refuses as an error of ours."""
    try:
        yield
    except OSError as error:
        raise unreadable(tenant.path, error) from None
