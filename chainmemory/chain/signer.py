"""The worker's signing key: from an encrypted keystore file, and never in a log, a repr or an error."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainmemory.chain.fees import Fees
from chainmemory.errors import ConfigurationError
from chainmemory.folders import sync_folder

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

# scrypt's N of geth's `--lightkdf`. The password we make has 256 random bits, so stretching it adds nothing.
LIGHT_SCRYPT_N = 4096


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """The bytes to send, with the hash and nonce they have before they are sent."""

    hash: str
    raw: bytes
    nonce: int
    gas_limit: int
    fees: Fees


class Signer:
    """Signs transactions with one key."""

    def __init__(self, account: LocalAccount) -> None:
        self._account = account
        self.address: str = str(account.address)
        """Checksummed."""

    def __repr__(self) -> str:
        return f"Signer({self.address})"

    @classmethod
    def from_key(cls, key: bytes) -> Signer:
        """Take a raw 32-byte private key (tests and tools; a deployment uses a keystore)."""
        from eth_account import Account

        return cls(Account.from_key(key))

    def sign(
        self, *, chain_id: int, nonce: int, to: str | None, data: bytes, gas_limit: int, fees: Fees
    ) -> SignedTransaction:
        """Sign a call (`to` None creates a contract); legacy with EIP-155 replay protection, or EIP-1559."""
        transaction: dict[str, Any] = {
            "chainId": chain_id,
            "nonce": nonce,
            "data": data,
            "value": 0,
            "gas": gas_limit,
            **fees.fields(),
        }
        if to is not None:
            transaction["to"] = to
        signed = self._account.sign_transaction(transaction)
        return SignedTransaction(
            "0x" + bytes(signed.hash).hex(), bytes(signed.raw_transaction), nonce, gas_limit, fees
        )


def read_call(raw: bytes) -> tuple[str | None, bytes]:
    """Read back (to, data) of a transaction that `Signer.sign` made; `to` is None for a creation."""
    import rlp  # type: ignore[import-untyped]
    from eth_utils.address import to_checksum_address

    # EIP-155: nonce, gasPrice, gas, to, …; EIP-1559 (type 2): chainId, nonce, tip, max, gas, to, …
    typed = raw[:1] == b"\x02"
    fields = rlp.decode(raw[1:] if typed else raw)
    to, data = (fields[5], fields[7]) if typed else (fields[3], fields[5])
    return (str(to_checksum_address(to)) if to else None), bytes(data)


def load_signer(keystore: Path, password_file: Path) -> Signer:
    """Open an encrypted keystore (Web3 Secret Storage, version 3) with the first line of a password file.

    Raises ConfigurationError naming the file at fault, without its content.
    """
    from eth_account import Account

    encrypted, password = _read(keystore, "signer's keystore"), _read(password_file, "signer's password file")
    lines = password.splitlines()
    try:
        key = Account.decrypt(json.loads(encrypted), lines[0] if lines else "")
        return Signer(Account.from_key(key))
    except (ValueError, TypeError, KeyError):
        # Told without the cause: a library's message may quote what it read.
        raise ConfigurationError(
            f"The signer's keystore {keystore} can't be opened: it isn't a version 3 keystore, "
            f"or {password_file} doesn't hold its password."
        ) from None


def ensure_keystore(keystore: Path, password_file: Path) -> str:
    """Create a signing key where there is none, and return its address.

    Both files are made with mode 0600, the password first: a keystore that exists can always be opened.
    A file that exists is never touched. Raises ConfigurationError where the existing keystore can't be read.
    """
    if not keystore.exists():
        _create(keystore, password_file)
    try:
        address = json.loads(_read(keystore, "signer's keystore"))["address"]
    except (ValueError, TypeError, KeyError):
        return load_signer(keystore, password_file).address
    from eth_utils.address import to_checksum_address

    return str(to_checksum_address(address))


def _create(keystore: Path, password_file: Path) -> None:
    from eth_account import Account

    if not password_file.exists():
        _write_new(password_file, secrets.token_hex(32) + "\n")
    password = _read(password_file, "signer's password file").splitlines()[0]
    encrypted = Account.encrypt(secrets.token_bytes(32), password, kdf="scrypt", iterations=LIGHT_SCRYPT_N)
    _write_new(keystore, json.dumps(encrypted, indent=1) + "\n")


def _write_new(path: Path, text: str) -> None:
    """Write a new file durably; if another process made it first, theirs stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        sync_folder(path.parent)
    finally:
        temporary.unlink()


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
        raise ConfigurationError(f"The {what} {path} can't be read: {why}.") from None
