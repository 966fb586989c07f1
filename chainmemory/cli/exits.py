"""The one place that turns an error into a sentence on stderr and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from chainmemory.cli.supervisor import EXIT_CONFIGURATION, LIFELINE_VARIABLE
from chainmemory.errors import ChainMemoryError, ConfigurationError, IntegrityError
from chainmemory.logging import log

EXIT_WRONG = 1
"""What was checked is wrong."""
EXIT_UNCHECKED = 2
"""It couldn't be done or checked: wrong use, a refusal, a server or a chain that isn't there."""


@contextmanager
def ending() -> Iterator[None]:
    """Run the body; end the process with a sentence and an exit code where it raises."""
    try:
        yield
    except ChainMemoryError as error:
        print(f"chainmemory: {error.message}", file=sys.stderr)
        if LIFELINE_VARIABLE in os.environ:
            log.error(error.message, action="process.failed", code=error.code)
        sys.exit(exit_code(error))
    except Exception as error:
        if LIFELINE_VARIABLE in os.environ:
            raise  # the log's hook writes it down, without its text
        # A defect of ours: told in short, and not with the exit code of a failed verification.
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"chainmemory: an error in chainmemory itself: {type(error).__name__} "
            f"at {place.filename}:{place.lineno}. CHAINMEMORY_LOG_LEVEL=debug shows more.",
            file=sys.stderr,
        )
        if os.environ.get("CHAINMEMORY_LOG_LEVEL") == "debug":
            traceback.print_exc()
        sys.exit(EXIT_UNCHECKED)


def exit_code(error: ChainMemoryError) -> int:
    """Return 1 where something checked is wrong, else 2; a supervisor is told of wrong settings."""
    if isinstance(error, ConfigurationError) and LIFELINE_VARIABLE in os.environ:
        return EXIT_CONFIGURATION
    return EXIT_WRONG if isinstance(error, IntegrityError) else EXIT_UNCHECKED
