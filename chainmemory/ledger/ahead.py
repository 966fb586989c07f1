"""Reading a long file ledger on two cores: this process the first half, another one the second.

`python -m chainmemory.ledger.ahead FD START` is that other process; it reads the open file FD from START on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.stretch import Stretch, decode, encode, read_stretch

WORTH_IT: Final = 48 << 20
"""Bytes of a ledger from which on another process saves time; below, its start costs more."""

_BLOCK: Final = 1 << 20


class AheadProcess:
    """The other process, and the first half's lines for this one."""

    def __init__(self, fd: int, middle: int, positions: Collection[int]) -> None:
        """Start it on the open file `fd` at the line that begins at `middle`."""
        self._fd = fd
        self._middle = middle
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chainmemory.ledger.ahead", str(fd), str(middle)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[fd],
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(positions)).encode())
        self._process.stdin.close()

    def first_lines(self) -> Iterator[bytes]:
        """Yield the lines of the first half."""
        return lines_of(self._fd, 0, self._middle)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the second half."""
        return lines_of(self._fd, self._middle, None)

    def stretch(self) -> Stretch | None:
        """Wait for what the process found; None where it found none, or failed: then it is read here."""
        assert self._process.stdout is not None
        data = self._process.stdout.read()
        return decode(data) if self._process.wait() == 0 else None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def reading_ahead(
    fd: int, positions: Collection[int], *, worth_it: int = WORTH_IT
) -> Iterator[AheadProcess | None]:
    """Read the open ledger `fd` on two cores, for as long as the block runs; None where it isn't worth it.

    `positions`: where heads are anchored.
    """
    size = os.fstat(fd).st_size
    middle = _line_after(fd, size // 2) if size >= worth_it and len(os.sched_getaffinity(0)) > 1 else size
    if middle >= size:
        yield None
        return
    process = AheadProcess(fd, middle, positions)
    try:
        yield process
    finally:
        process.close()


def lines_of(fd: int, start: int, end: int | None) -> Iterator[bytes]:
    """Yield an open file's lines from byte `start` up to `end`, whatever its own position is."""
    rest = b""
    while block := os.pread(fd, _BLOCK if end is None else min(_BLOCK, end - start), start):
        start += len(block)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _line_after(fd: int, at: int) -> int:
    """Return where the first line behind byte `at` begins."""
    while block := os.pread(fd, 4_096, at):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return at


def main() -> None:
    """Read a stretch as asked and write it to standard output."""
    fd, start = int(sys.argv[1]), int(sys.argv[2])
    positions = frozenset(json.load(sys.stdin))
    for piece in encode(read_stretch(lines_of(fd, start, None), read_file_line, positions)):
        sys.stdout.buffer.write(piece)


if __name__ == "__main__":
    main()
