"""The authority's private key: an encrypted keystore file (Web3 Secret Storage v3) and its password file."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from eth_keyfile.keyfile import create_keyfile_json, decode_keyfile_json
from eth_keys.datatypes import PrivateKey

from chainmemory.errors import ConfigurationError
from chainmemory.folders import sync_folder

STRONG_SCRYPT_N = 2**17
"""For a password a person chose (OWASP's figure): about 0.4 s and 128 MB, paid once per creation or start."""

RANDOM_PASSWORD_SCRYPT_N = 2**12
"""For our own 256-bit random password, which no guessing reaches whatever the derivation costs."""


def create_authority(keystore: Path, password_file: Path) -> PrivateKey:
    """Make a new key and store it encrypted.

    Where `password_file` exists its content is the password; otherwise a random one is written there. Both
    files get mode 0600. An existing keystore is never overwritten (ConfigurationError).
    """
    if password_file.exists():
        password, work = _read_password(password_file), STRONG_SCRYPT_N
    else:
        password, work = secrets.token_hex(32).encode(), RANDOM_PASSWORD_SCRYPT_N
        _write_private(password_file, password + b"\n")
    key = PrivateKey(secrets.token_bytes(32))
    document = create_keyfile_json(key.to_bytes(), password, kdf="scrypt", iterations=work)
    _write_private(keystore, json.dumps(document).encode() + b"\n")
    return key


def load_authority(keystore: Path, password_file: Path) -> PrivateKey:
    """Decrypt the authority's key.

    Raises ConfigurationError, which never holds the key or the password, when a file is missing or the
    password is wrong.
    """
    password = _read_password(password_file)
    try:
        document = json.loads(keystore.read_bytes())
        return PrivateKey(decode_keyfile_json(document, password))
    except OSError as error:
        raise ConfigurationError(f"The keystore {keystore} can't be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(
            f"The keystore {keystore} can't be decrypted: it is damaged, or {password_file} holds another "
            "password."
        ) from None


def _read_password(path: Path) -> bytes:
    try:
        password = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigurationError(f"The password file {path} can't be read: {error.strerror}.") from None
    if not password:
        raise ConfigurationError(f"The password file {path} is empty.")
    return password


def _write_private(path: Path, data: bytes) -> None:
    """Create `path` with mode 0600 from the first moment; it is on disk when this returns."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists already and is not overwritten.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
