"""The end of a file tenant's ledger: what a crash may have left there, and what the next entry continues.

Protocol §5, "Torn tail". An unterminated last line that isn't JSON is what a crash left of an entry; it is
moved to `ledger.torn`. One that is JSON is whole and only lacks its newline. Anything else that is wrong with
the last line is no crash.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from chainmemory.errors import Conflict, Invalid, InvalidJson
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.tenant import LEDGER, TORN, Tenant
from chainmemory.logging import log
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import GENESIS_PREV

_BLOCK: Final = 64 * 1024


@dataclass(frozen=True)
class Tail:
    """Where the next entry goes, and what it continues."""

    seq: int
    """Of the last entry; 0 where there is none."""
    hash: str
    size: int
    """Bytes of the ledger that stay."""
    torn: bytes
    """What a crash left after them."""
    unterminated: bool
    """The last line that stays lacks its newline."""


def find_tail(tenant: Tenant, fd: int | None) -> Tail:
    """Look at the ledger's last line; `fd` is the open ledger, None where there is none.

    Raises Conflict (`ledger_broken`) where the last line is no entry: nothing can be chained to it.
    """
    size = 0 if fd is None else os.fstat(fd).st_size
    if fd is None or size == 0:
        return Tail(0, GENESIS_PREV, 0, b"", False)
    start = _line_start(fd, size)
    line, torn, unterminated = _read(fd, start, size), b"", start < size
    if unterminated and _is_fragment(line):
        torn, size, unterminated = line, start, False
        line = b""
    if not line:
        if size == 0:
            return Tail(0, GENESIS_PREV, 0, torn, False)
        start = _line_start(fd, size - 1)
        line = _read(fd, start, size)
    try:
        entry = read_file_line(line)
    except Invalid:
        entry = None
    if entry is None or entry.hash != entry.computed:
        raise broken(tenant, f"its last line, at byte {start}, is no entry")
    return Tail(entry.seq, entry.hash, size, torn, unterminated)


def mend(tenant: Tenant, fd: int, tail: Tail) -> None:
    """Move what a crash left at the end to `ledger.torn`, and cut it off.

    A crash between the two leaves it in both places, and the next write does the same again.
    """
    if not tail.torn:
        return
    path = tenant.path / LEDGER
    log.warning(
        f"{path} ended in the middle of an entry, as after a crash: {len(tail.torn)} bytes from byte "
        f"{tail.size} on are moved to {TORN}",
        action="ledger.torn",
        path=str(path),
        offset=tail.size,
    )
    torn = tenant.open(TORN, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    assert torn is not None, "O_CREAT makes it"
    try:
        write_all(torn, tail.torn + b"\n")
        os.fsync(torn)
    finally:
        os.close(torn)
    os.fsync(tenant.fd)
    os.ftruncate(fd, tail.size)
    os.fsync(fd)


def broken(tenant: Tenant, why: str) -> Conflict:
    """Say that nothing is written onto a broken ledger."""
    return Conflict(
        f"The ledger of {tenant.name} is broken ({why}), so nothing is added to it. "
        f"`chainmemory ledger verify --agent {tenant.name}` shows where.",
        code="ledger_broken",
    )


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, whatever the system takes at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _is_fragment(line: bytes) -> bool:
    try:
        parse_json(line)
    except InvalidJson:
        return True
    except Invalid:
        return False
    return False


def _line_start(fd: int, end: int) -> int:
    """Return where the line that ends before `end` starts: after the last LF before it, or 0."""
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _read(fd: int, start: int, end: int) -> bytes:
    pieces = []
    while start < end:
        piece = os.pread(fd, end - start, start)
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
