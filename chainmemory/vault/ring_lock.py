"""Who uses the ring in `home/master.key`: a process that read the old ring may go on to wrap with its key.

So a key may leave the file only while no process holds the ring. Locks are flock's: they end with a process,
however it ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from chainmemory.errors import ConfigurationError, Conflict

LOCK: Final = "master.key.lock"


def hold_ring(home: Path) -> int:
    """Say, until the returned descriptor is closed, that this process uses the ring of `home`.

    Raises ConfigurationError where the lock's file can't be used.
    """
    handle = _open(home)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def ring_to_itself(home: Path) -> AbstractContextManager[bool]:
    """Yield whether no process uses the ring of `home`; none can begin to inside. Raises as `hold_ring`."""
    return _alone(_open(home))


@contextmanager
def one_rotation(home: Path) -> Iterator[None]:
    """Let one process at a time change the ring's file. Raises Conflict (`rotation_runs`)."""
    with _alone(os.open(home, os.O_RDONLY | os.O_CLOEXEC)) as alone:
        if not alone:
            raise Conflict(
                f"Another process is rotating the master key of {home}; wait until it has ended.",
                code="rotation_runs",
            )
        yield


@contextmanager
def _alone(handle: int) -> Iterator[bool]:
    """Yield whether nobody else holds the lock of an open file or folder; it is ours until the block ends,
    and `handle` is closed.
    """
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        else:
            alone = True
        yield alone
    finally:
        os.close(handle)


def _open(home: Path) -> int:
    try:
        return os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{home / LOCK} can't be used: {error.strerror}.") from None
