"""A file tenant's folder: `memory/*.json`, `ledger.jsonl` and the lock between its writers (protocol §5).

Everything is opened relative to the folder's own descriptor and never through a link, so what was checked is
what is read, whoever renames folders meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chainmemory.errors import Conflict, Invalid, NotFound, Unavailable
from chainmemory.ledger.file_tenant import UNREADABLE, read_record
from chainmemory.ledger.verdicts import Record

LEDGER: Final = "ledger.jsonl"
TORN: Final = "ledger.torn"
LOCK: Final = "ledger.lock"
MEMORY: Final = "memory"
SUFFIX: Final = ".json"

PATIENCE_S: Final = 30.0
"""How long a verify or a write waits for another one to end."""
_POLL_S: Final = 0.05
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SAFELY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO in a file's place mustn't block us


def agents_in(root: Path) -> list[str]:
    """Name the tenants of a root, sorted: each direct sub-folder, or link, that looks like one.

    Raises NotFound where the root isn't there, Unavailable where it can't be read.
    """
    try:
        with os.scandir(root) as found:
            return sorted(entry.name for entry in found if _looks_like_one(Path(entry.path)))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no folder {root}; name the agents' folder.", code="no_agents") from None
    except OSError as error:
        raise unreadable(root, error) from None


def _looks_like_one(path: Path) -> bool:
    # A link is named too: opening it is refused, and leaving it out would hide a tenant that was replaced.
    return path.is_dir() and ((path / LEDGER).exists() or (path / MEMORY).exists())


@dataclass(frozen=True)
class Tenant:
    """One tenant's folder, open and locked."""

    name: str
    path: Path
    fd: int

    def lines(self) -> Iterator[bytes]:
        """Yield the ledger's lines with their LF, the last one maybe without."""
        fd = self.open(LEDGER, os.O_RDONLY)
        if fd is None:
            return
        with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            try:
                yield from file
            except OSError as error:
                raise unreadable(self.path / LEDGER, error) from None

    def records(self) -> Iterator[tuple[str, Record]]:
        """Yield each record's id and what it holds, by file name; an id that two files claim can't be read.

        What is no file, or a link to one, can't be read either.
        """
        seen: dict[str, Record] = {}
        for stem, data in self.files():
            name, record = (stem, UNREADABLE) if data is None else read_record(stem, data)
            seen[name] = UNREADABLE if name in seen else record
        yield from seen.items()

    def files(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield each `memory/*.json`'s name without the ending, and its bytes, None for what is no file."""
        folder = self.memory()
        if folder is None:
            return
        try:
            for name in sorted(os.listdir(folder), key=os.fsencode):  # noqa: PTH208 - of a descriptor
                if name.endswith(SUFFIX):
                    # A name that isn't UTF-8 must still be told.
                    shown = os.fsencode(name.removesuffix(SUFFIX)).decode("utf-8", "backslashreplace")
                    yield shown, read_file(folder, name, self.path / MEMORY / name)
        except OSError as error:
            raise unreadable(self.path / MEMORY, error) from None
        finally:
            os.close(folder)

    def memory(self) -> int | None:
        """Open the folder with the records; None where there is none. Raises Conflict for a link."""
        try:
            return os.open(
                MEMORY, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _not_ours(self.path / MEMORY, error) from None

    def open(self, name: str, flags: int) -> int | None:
        """Open a plain file of the folder itself; None where it isn't there.

        Raises Conflict where it is a link or no file, Unavailable where it can't be opened.
        """
        try:
            fd = os.open(name, flags | _SAFELY, 0o600, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _not_ours(self.path / name, error) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Conflict(f"{self.path / name} is no plain file; put it right first.", code="no_plain_file")
        return fd


def read_file(folder: int, name: str, path: Path) -> bytes | None:
    """Read a plain file of an open folder; None where it is a link or anything else.

    Raises Unavailable where it can't be read.
    """
    try:
        fd = os.open(name, os.O_RDONLY | _SAFELY, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            with open(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):  # a link; a socket or device
            return None
        raise unreadable(path, error) from None


@contextmanager
def held(root: Path, name: str, *, patience_s: float = PATIENCE_S) -> Iterator[Tenant]:
    """Open the tenant `name` of a root and hold its lock: one writer, or one verify, at a time.

    Raises NotFound, Invalid for a name that is no direct sub-folder's, Conflict where it is a link, and
    Unavailable where it can't be opened or somebody else holds it for `patience_s` seconds.
    """
    path = root / _direct(name)
    try:
        fd = os.open(path, _FOLDER)
    except FileNotFoundError:
        raise NotFound(f"There is no agent {name} in {root}.", code="no_agent") from None
    except OSError as error:
        raise _not_ours(path, error) from None
    try:
        tenant = Tenant(name, path, fd)
        lock = _lock_file(tenant)
        try:
            if lock is not None:
                _take(lock, path, patience_s)
            yield tenant
        finally:
            if lock is not None:
                os.close(lock)  # lets go of the lock; so does the end of the process, however it comes
    finally:
        os.close(fd)


def _direct(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise Invalid("An agent is named by its folder: one name, without a slash.", field="agent_id")
    return name


def _lock_file(tenant: Tenant) -> int | None:
    try:
        fd = tenant.open(LOCK, os.O_RDWR | os.O_CREAT)
    except Unavailable as error:
        # To lock, reading it is enough. On a disk that nobody can write to there is nothing to lock.
        fd = tenant.open(LOCK, os.O_RDONLY)
        if fd is None and error.details.get("errno") != "EROFS":
            raise
    return fd


def _take(lock: int, path: Path, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Another process has held {path / LOCK} for {patience_s:.0f} s; try again later.",
                    code="ledger_busy",
                ) from None
            time.sleep(_POLL_S)
        except OSError as error:
            raise unreadable(path / LOCK, error) from None
        else:
            return


def _not_ours(path: Path, error: OSError) -> Conflict | Unavailable:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        return Conflict(
            f"{path} is a link, or not what belongs there; it isn't followed. Put it right first.",
            code="no_plain_file",
        )
    return unreadable(path, error)


def unreadable(path: Path, error: OSError) -> Unavailable:
    """Say which file the system refuses, and why."""
    number = errno.errorcode.get(error.errno or 0, "?")
    return Unavailable(
        f"{path} can't be used: {error.strerror or type(error).__name__}.",
        code="file_unavailable",
        details={"errno": number},
    )
