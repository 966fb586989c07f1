"""The home: one private folder with all data, one server at a time, and a note of where that server is."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from chainmemory.errors import ConfigurationError
from chainmemory.logging import log
from chainmemory.settings import SETTINGS_FILE, Settings
from chainmemory.store_file import has_room

# A folder that holds something, but nothing of this, isn't a home: `--home ~` must not change its mode.
HOME_ENTRIES = frozenset(
    {SETTINGS_FILE, "home.lock", "store.sqlite", "chain", "logs", "master.key", "signer.json", "client.json"}
)
# Key files at the top of a home; others may not even be read by the owner's group.
KEY_FILES = ("master.key", "signer.json", "signer.password", "client.json", SETTINGS_FILE)


def prepare_home(home: Path) -> None:
    """Create `home` with mode 0700, or tighten one that others can read, and its key files to 0600.

    Raises ConfigurationError where it can't be made private, or isn't a home of ours.
    """
    os.umask(0o077)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
        if found.st_uid != os.geteuid():
            raise ConfigurationError(f"The home {home} belongs to another user (uid {found.st_uid}).")
        names = {entry.name for entry in home.iterdir()}
        if names and not names & HOME_ENTRIES:
            raise ConfigurationError(
                f"{home} holds other things, so it isn't taken as a home; name an empty or a new folder."
            )
        if not os.access(home, os.W_OK | os.X_OK):
            raise ConfigurationError(f"Nothing can be written to the home {home}; run: chmod u+rwx {home}")
        _tighten(home, 0o700)
        for key_file in (home / name for name in KEY_FILES if name in names):
            _tighten(key_file, 0o600)
        for folder in ("logs", "chain"):
            (home / folder).mkdir(mode=0o700, exist_ok=True)
        room = has_room(home)
    except OSError as error:
        raise ConfigurationError(f"The home {home} can't be used: {error.strerror or error}.") from error
    if not room:
        raise ConfigurationError(
            f"The disk that the home {home} is on is full; make room on it, then start again."
        )


def _tighten(path: Path, mode: int) -> None:
    """Take from `path` every right beyond `mode`; refuse a key file that is a link to elsewhere."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        if mode == 0o700:
            found = path.stat()
        else:
            raise ConfigurationError(f"{path} is a link; a key file must lie in the home itself.")
    if stat.S_IMODE(found.st_mode) & ~mode:
        log.warning(
            f"Others could read {path}; its rights are now {mode:o}. Change its keys if others had access",
            action="home.tighten",
        )
        path.chmod(stat.S_IMODE(found.st_mode) & mode)


class HomeLock:
    """Held by a server, and inherited by its children, so that it lasts until the last of them has ended."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def take(cls, settings: Settings) -> HomeLock:
        """Lock the home, waiting for children of a server that was killed to end.

        Raises ConfigurationError where another server runs on it.
        """
        fd = os.open(settings.home / "home.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + settings.grace_s + 5
        told = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                running = RunNote.read(settings)
                alive = running is None or _alive(running.pid)
                if alive or time.monotonic() > deadline:
                    os.close(fd)
                    raise ConfigurationError(_taken(settings.home, running)) from None
                if not told:
                    log.warning("Waiting for the processes of a killed server to end", action="home.wait")
                    told = True
                time.sleep(0.1)
            else:
                return cls(fd)

    def release(self) -> None:
        """Let go of the home; children that still run keep it."""
        os.close(self.fd)


def _taken(home: Path, running: RunNote | None) -> str:
    where = f" (process {running.pid}, {running.url})" if running else ""
    return f"A server already runs on the home {home}{where}. Stop it first, or choose another with --home."


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True)
class RunNote:
    """`run.json`: where the server on this home is; no secret in it."""

    pid: int
    url: str
    chain_url: str | None
    """The embedded chain's RPC; None where another chain is used (its URL may hold credentials)."""
    children: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, settings: Settings) -> RunNote | None:
        """Return the note, or None where there is none that can be read."""
        try:
            found: Any = orjson.loads(settings.run_file.read_bytes())
            note = cls(**found)
        except (OSError, orjson.JSONDecodeError, TypeError):
            return None
        return note if isinstance(note.pid, int) and isinstance(note.url, str) else None

    def write(self, settings: Settings) -> None:
        """Put the note in place at once; readers see the old one or the new one."""
        new = settings.run_file.with_suffix(".new")
        new.write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))
        new.replace(settings.run_file)

    @staticmethod
    def remove(settings: Settings) -> None:
        settings.run_file.unlink(missing_ok=True)


def running_note(settings: Settings) -> RunNote | None:
    """Return what the server that runs on this home says of itself, or None where none does."""
    note = RunNote.read(settings)
    return note if note and _alive(note.pid) else None


def running_url(settings: Settings) -> str:
    """Return the address of the server on this home: as it says in `run.json`, else as the settings say."""
    note = running_note(settings)
    return note.url if note else address(settings.host, settings.port)


def address(host: str, port: int) -> str:
    """Return the URL that reaches a server listening on `host` and `port` from this machine."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}"
