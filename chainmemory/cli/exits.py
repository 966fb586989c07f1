"""The one place that turns an error into a sentence on stderr and an exit code (docs/operating.md)."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from chainmemory.cli.output import printable, say
from chainmemory.cli.streams import EXIT_NOBODY_READS, NobodyReads, OutputLost
from chainmemory.cli.supervisor import EXIT_CONFIGURATION, LIFELINE_VARIABLE
from chainmemory.errors import ChainMemoryError, ConfigurationError, IntegrityError
from chainmemory.logging import log

EXIT_WRONG = 1
"""What was checked is wrong."""
EXIT_UNCHECKED = 2
"""It couldn't be done or checked: wrong use, a refusal, a server or a chain that isn't there."""
EXIT_INTERRUPTED = 130
"""Ctrl-C, as a shell tells it."""
RAN_OUT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@contextmanager
def ending() -> Iterator[None]:
    """Run the body; end the process with a sentence and an exit code where it raises."""
    try:
        yield
    except ChainMemoryError as error:
        _tell(error.message)
        if LIFELINE_VARIABLE in os.environ:
            log.error(error.message, action="process.failed", code=error.code)
        sys.exit(exit_code(error))
    except NobodyReads:
        sys.exit(EXIT_NOBODY_READS)
    except OutputLost as error:
        _tell(
            f"standard output can't be written: {error}. What the command did is done, but not told; "
            "give it a file or a pipe that takes it."
        )
        sys.exit(EXIT_UNCHECKED)
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            interrupted()
        raise
    except KeyboardInterrupt:
        interrupted()
    except Exception as error:
        if LIFELINE_VARIABLE in os.environ:
            raise  # the log's hook writes it down, without its text
        _tell(_of_the_system(error) or _of_ours(error))
        if os.environ.get("CHAINMEMORY_LOG_LEVEL") == "debug":
            traceback.print_exc()
        sys.exit(EXIT_UNCHECKED)


def interrupted() -> NoReturn:
    """End the process as one that Ctrl-C broke off."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would end the ending
    _tell("interrupted.")
    sys.exit(EXIT_INTERRUPTED)


def exit_code(error: ChainMemoryError) -> int:
    """Return 1 where something checked is wrong, else 2; a supervisor is told of wrong settings."""
    if isinstance(error, ConfigurationError) and LIFELINE_VARIABLE in os.environ:
        return EXIT_CONFIGURATION
    return EXIT_WRONG if isinstance(error, IntegrityError) else EXIT_UNCHECKED


def _tell(sentence: str) -> None:
    with suppress(OSError, ValueError):  # a process's own stderr may be gone; there is no other place
        say(f"chainmemory: {printable(sentence)}", err=True)


def _of_the_system(error: Exception) -> str | None:
    """Return what the system refused, where it says so: a file it names, or something that ran out."""
    if not isinstance(error, OSError) or error.strerror is None:
        return None
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)} can't be used: {error.strerror}."
    if error.errno in RAN_OUT:
        return f"the system can't go on: {error.strerror}. Make room, and run it again."
    return None


def _of_ours(error: Exception) -> str:
    """Return what tells a defect of ours in short."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"an error in chainmemory itself: {type(error).__name__} at {place.filename}:{place.lineno}. "
        "CHAINMEMORY_LOG_LEVEL=debug shows more."
    )
