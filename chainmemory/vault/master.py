"""The deployment's master keys: a ring in `home/master.key`, or in the environment (protocol §4).

The file holds one key a line, `<key id> <64 hex digits>`, the oldest first; the last one wraps. A key's id is
made from the key, so the same key has the same id wherever it is kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from chainmemory.errors import ConfigurationError, IntegrityError
from chainmemory.folders import sync_folder
from chainmemory.vault.cipher import KEY_BYTES, Cipher
from chainmemory.vault.places import account_key_place

FILE: Final = "master.key"
VARIABLE: Final = "CHAINMEMORY_MASTER_KEY"

_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")
_LINE: Final = re.compile(r"([0-9a-f]{16}) ([0-9a-f]{64})")


class MasterKeyring:
    """The master keys of one deployment; the newest wraps account keys, all of them unwrap."""

    def __init__(self, keys: Iterable[bytes], place: str = "the ring") -> None:
        """Take the 32-byte keys, oldest first, and where they are kept, for messages; ValueError without
        any.
        """
        self._place = place
        self._ciphers = {key_id(key): Cipher(key) for key in keys}
        if not self._ciphers:
            raise ValueError("a ring has at least one key")
        self._newest = list(self._ciphers)[-1]

    @classmethod
    def load(cls, home: Path, environ: Mapping[str, str], *, create: bool = True) -> MasterKeyring:
        """Read the ring from CHAINMEMORY_MASTER_KEY (keys of 64 hex digits, separated by commas, oldest
        first) or else from `home/master.key`, which is made where it isn't there and `create` allows it.

        Pass `create=False` for a store that has accounts: a new key couldn't open them. Raises
        ConfigurationError for a key that is missing or malformed, or a file that others may read. No error
        quotes a key.
        """
        given = environ.get(VARIABLE, "").strip()
        if given:
            return cls(_parse_variable(given), VARIABLE)
        path = home / FILE
        if create and not path.exists():
            _create(path)
        return cls(_read(path), str(path))

    @property
    def newest_id(self) -> str:
        """The id of the key that wraps."""
        return self._newest

    @property
    def key_ids(self) -> list[str]:
        """The ids of all keys, oldest first."""
        return list(self._ciphers)

    def require(self, key_ids: Iterable[str]) -> None:
        """Raise ConfigurationError where a key is missing that accounts need: what is theirs couldn't be
        read.
        """
        missing = sorted(set(key_ids) - set(self._ciphers))
        if missing:
            raise ConfigurationError(
                f"Accounts in this store are locked with master key {', '.join(missing)}, which isn't in "
                f"{self._place} (it holds {', '.join(self._ciphers)}). Put back the {FILE} this store was "
                f"made with, or give all its keys as {VARIABLE}, separated by commas, the newest last.",
                code="master_key_missing",
            )

    def wrap_account_key(self, account_id: str, account_key: bytes) -> tuple[str, bytes]:
        """Wrap an account's key under the newest master key; return (key id, blob)."""
        cipher = self._ciphers[self._newest]
        return self._newest, cipher.encrypt(account_key, account_key_place(account_id, self._newest))

    def unwrap_account_key(self, account_id: str, key_id: str, blob: bytes) -> bytes:
        """Return an account's key; IntegrityError if the ring lacks `key_id` or the blob isn't this
        account's.
        """
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise IntegrityError(
                f"The master key {key_id} is not in the ring; put back the {FILE} this store was made with.",
                code="master_key_missing",
                details={"key_id": key_id},
            )
        return cipher.decrypt(blob, account_key_place(account_id, key_id))


def rotate(home: Path) -> str:
    """Add a new master key to `home/master.key` and return its id; account keys are to be re-wrapped
    afterwards.

    The new file replaces the old in one step, so a crash leaves either. Raises ConfigurationError.
    """
    path = home / FILE
    _clear_temporaries(path)
    keys = [*_read(path), os.urandom(KEY_BYTES)]
    temporary = _write_temporary(path, keys)
    temporary.replace(path)
    sync_folder(home)
    return key_id(keys[-1])


def retire(home: Path, keep: str) -> None:
    """Drop every key but `keep` from `home/master.key`, once nothing is wrapped by the others any more.

    Raises ConfigurationError, also where `keep` isn't in the file.
    """
    path = home / FILE
    _clear_temporaries(path)
    kept = [key for key in _read(path) if key_id(key) == keep]
    if not kept:
        raise ConfigurationError(f"The master key {keep} is not in {path}.")
    temporary = _write_temporary(path, kept)
    temporary.replace(path)
    sync_folder(home)


def key_id(key: bytes) -> str:
    """Return the 16 hex digits that name a master key; nothing about the key can be learnt from them."""
    return hashlib.sha256(b"CM_MASTER_KEY_ID_V1\x00" + key).hexdigest()[:16]


def _parse_variable(given: str) -> list[bytes]:
    parts = [part.strip() for part in given.split(",")]
    if not all(_KEY.fullmatch(part) for part in parts):
        raise ConfigurationError(
            f"{VARIABLE} must be 64 hex digits, or several such keys separated by commas, the newest last."
        )
    return [bytes.fromhex(part) for part in parts]


def _read(path: Path) -> list[bytes]:
    try:
        mode = path.stat().st_mode
        lines = path.read_text("ascii").split("\n")
    except FileNotFoundError:
        raise ConfigurationError(
            f"There is no master key; put {path} back or set {VARIABLE}, or nothing can be decrypted."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is damaged; restore the file from a backup.") from None
    except OSError as error:
        raise ConfigurationError(f"The master key file {path} can't be read: {error.strerror}.") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"Others may read {path}; run: chmod 600 {path}")
    keys = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None or key_id(bytes.fromhex(match[2])) != match[1]:
            raise ConfigurationError(f"Line {number} of {path} is damaged; restore the file from a backup.")
        keys.append(bytes.fromhex(match[2]))
    if not keys:
        raise ConfigurationError(f"{path} holds no key; restore it from a backup.")
    return keys


def _create(path: Path) -> None:
    """Make the file with one random key, whole or not at all; of two processes the first one's key counts."""
    temporary = _write_temporary(path, [os.urandom(KEY_BYTES)])
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    finally:
        temporary.unlink()
    sync_folder(path.parent)


def _write_temporary(path: Path, keys: Iterable[bytes]) -> Path:
    # mkstemp makes the file 0600.
    handle, name = tempfile.mkstemp(prefix=f".{FILE}.", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(b"".join(f"{key_id(key)} {key.hex()}\n".encode("ascii") for key in keys))
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def _clear_temporaries(path: Path) -> None:
    """Remove what a rotation that was killed left: they hold keys. With the file there, nobody creates it."""
    if path.exists():
        for left in path.parent.glob(f".{FILE}.*"):
            left.unlink(missing_ok=True)
