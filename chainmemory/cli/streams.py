"""The standard streams, whatever they are connected to: closed, full, of any encoding, left by the reader.

All that a command prints, help and errors too, goes through here, so no stored text reaches a terminal raw.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from chainmemory.cli.output import escaped

EXIT_NOBODY_READS = 141
"""What a shell tells of a program that SIGPIPE ended."""


class OutputLost(Exception):
    """Standard output can't take what a command has to say; the message says why.

    No ChainMemoryError: it is no outcome of the work, so no handler of one should mistake it for that.
    """


class NobodyReads(OutputLost):
    """The reader of standard output left, as `head` does when it has enough."""


class Guarded(io.TextIOBase):
    """A stream that escapes what could steer a terminal, and says in our words why it can't be written."""

    def __init__(self, stream: TextIO | None, *, must_arrive: bool) -> None:
        """Write to `stream` (None: it is closed); raise OutputLost only where the words `must_arrive`."""
        self.raw = stream
        self._must_arrive = must_arrive
        self._lost = OutputLost("it is closed") if stream is None else None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self.raw, "encoding", None) or "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.raw is not None and self.raw.isatty()

    def fileno(self) -> int:
        if self.raw is None:
            raise io.UnsupportedOperation("the stream is closed")
        return self.raw.fileno()

    def write(self, text: str) -> int:
        self._attempt(lambda stream: stream.write(escaped(text)))
        return len(text)

    def flush(self) -> None:
        self._attempt(lambda stream: stream.flush())

    def _attempt(self, work: Callable[[TextIO], object]) -> None:
        if self._lost is None and self.raw is not None:
            try:
                work(self.raw)
            except BrokenPipeError:
                self._lost = NobodyReads("its reader left")
            except (OSError, ValueError) as error:
                self._lost = OutputLost(getattr(error, "strerror", None) or "it is closed")
            if self._lost is not None:
                self._drop()
        if self._lost is not None and self._must_arrive:
            raise self._lost

    def _drop(self) -> None:
        """Let what is still buffered go to nowhere, or the interpreter would fail on it at its end."""
        try:
            number = self.fileno()
        except (OSError, ValueError):
            return
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path of a file
            os.dup2(nowhere.fileno(), number)


@contextmanager
def guarded() -> Iterator[None]:
    """Guard standard output and error while the body runs, and keep their numbers from other files."""
    _occupy()
    before = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, Guarded(sys.stdout, must_arrive=True))
    sys.stderr = cast(TextIO, Guarded(sys.stderr, must_arrive=False))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def output_is_closed() -> bool:
    """Say whether standard output was closed from the start."""
    return isinstance(sys.stdout, Guarded) and sys.stdout.raw is None


def unguarded(stream: TextIO) -> TextIO:
    """Return the stream itself, for a progress bar of our own, which steers the terminal on purpose."""
    return (stream.raw or stream) if isinstance(stream, Guarded) else stream


def _occupy() -> None:
    """Open what is closed of 0, 1 and 2 on nothing: a database that got number 1 would be written over."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, and children inherit it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
