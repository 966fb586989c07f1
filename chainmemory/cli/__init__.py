"""The command line; `main` is the console script."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType


def main() -> None:
    """Run a command."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = ours and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, _leave)
    # Imported here, for a server's processes import this package and need none of the commands.
    from chainmemory.cli.app import run

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:  # between the command's end and here
        from chainmemory.cli.exits import interrupted

        interrupted()


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End at once: while modules load nothing is begun, and an exception there may end up anywhere."""
    try:
        os.write(2, b"chainmemory: interrupted.\n")
    finally:
        os._exit(130)
