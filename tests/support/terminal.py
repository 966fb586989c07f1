"""Commands on a real pseudo-terminal: what they print there is what a terminal would obey."""

from __future__ import annotations

import contextlib
import os
import pty
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

from chainmemory import logging
from chainmemory.cli import main
from tests.support.server import environment


def cli_on_terminal(home: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    """Run a command in this process with output and errors on a terminal; return exit code and what came."""
    with _terminal() as (stream, shown):
        code = cli_into(stream, stream, home, *arguments, **environ)
        stream.close()
    return code, b"".join(shown).decode().replace("\r\n", "\n")


def cli_into(output: TextIO, errors: TextIO, home: Path, *arguments: str, **environ: str) -> int:
    """Run a command in this process, writing to these streams; return its exit code."""
    umask = os.umask(0o022)
    try:
        with (
            mock.patch.dict(os.environ, environment(home, **environ), clear=True),
            mock.patch.object(sys, "argv", ["chainmemory", *arguments]),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            return _exit_code(main)
    finally:
        os.umask(umask)
        logging.unconfigure()


def _exit_code(work: Any) -> int:
    try:
        work()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@contextlib.contextmanager
def _terminal() -> Iterator[tuple[TextIO, Sequence[bytes]]]:
    """Yield the end that a program writes to, and the bytes that came out at the other, at the end."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # EIO: the program's end is closed
            while piece := os.read(ours, 65536):
                shown.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with os.fdopen(theirs, "w", encoding="utf-8") as stream:
            yield stream, shown
    finally:
        reader.join()
        os.close(ours)
