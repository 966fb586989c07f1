"""Decryption as protocol §4 says it, on pycryptodome's own GCM mode: nothing of the vault is used."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from Crypto.Cipher import AES

from chainmemory.errors import ConfigurationError, IntegrityError
from chainmemory.protocol.canonical import canonical

SERVER_SEALED: Final = 0x01
CLIENT_SEALED: Final = 0x02
OVERHEAD: Final = 1 + 12 + 16
"""What a blob has beyond its plaintext: version, nonce, tag."""


class MasterKeys:
    """The deployment's master keys, by id."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_id_of(key): key for key in keys}

    @classmethod
    def read(cls, path: Path, variable: str | None = None) -> MasterKeys:
        """Read them from `master.key` (lines `id key`), or from the variable where it is set (comma between
        keys, hexadecimal).

        Raises ConfigurationError.
        """
        try:
            if variable:
                keys = [bytes.fromhex(part.strip()) for part in variable.split(",")]
            else:
                lines = path.read_text("ascii").split("\n")
                keys = [bytes.fromhex(line.split(" ")[1]) for line in lines if line]
        except FileNotFoundError:
            raise ConfigurationError(f"There is no master key at {path}, so nothing can be opened.") from None
        except (OSError, ValueError, IndexError):
            raise ConfigurationError("The master key can't be read: it isn't as it was written.") from None
        if not keys or any(len(key) != 32 for key in keys):
            raise ConfigurationError("A master key must have 64 hex digits.")
        return cls(keys)

    def account(self, account_id: str, key_id: str, wrapped: bytes) -> AccountKey:
        """Open an account's key. Raises IntegrityError."""
        master = self._keys.get(key_id)
        if master is None:
            raise IntegrityError(f"it is wrapped by the master key {key_id}, which isn't here")
        place = {"account": account_id, "role": "account_key", "key_id": key_id}
        return AccountKey(account_id, decrypt(master, wrapped, place))


class AccountKey:
    """One account's key, and what it opens."""

    def __init__(self, account_id: str, key: bytes) -> None:
        self._account_id = account_id
        self._key = key

    def open(self, blob: bytes, wrapped_seed: bytes, role: str, **ids: str | int) -> bytes:
        """Open a blob that has a data key of its own. Raises IntegrityError."""
        place = {"account": self._account_id, "role": role, **ids}
        seed = decrypt(
            self._key, wrapped_seed, {"account": self._account_id, "role": "key_seed", "of": place}
        )
        data_key = hmac.new(self._key, b"CM_DATA_KEY_V1\x00" + seed, hashlib.sha256).digest()
        return decrypt(data_key, blob, place)

    def open_small(self, blob: bytes, role: str, **ids: str | int) -> bytes:
        """Open what is under the account key itself. Raises IntegrityError."""
        return decrypt(self._key, blob, {"account": self._account_id, "role": role, **ids})


def decrypt(key: bytes, blob: bytes, place: dict[str, Any]) -> bytes:
    """Open `0x01 ‖ nonce ‖ ciphertext ‖ tag` at its place. Raises IntegrityError."""
    if not isinstance(blob, bytes) or len(blob) < OVERHEAD or blob[0] != SERVER_SEALED:
        raise IntegrityError("it doesn't have the form of something encrypted")
    cipher = AES.new(key, AES.MODE_GCM, nonce=blob[1:13])
    cipher.update(canonical(place))
    try:
        return cipher.decrypt_and_verify(blob[13:-16], blob[-16:])
    except ValueError:
        raise IntegrityError("it or its place was changed, or it is under another key") from None


def _id_of(key: bytes) -> str:
    return hashlib.sha256(b"CM_MASTER_KEY_ID_V1\x00" + key).hexdigest()[:16]
