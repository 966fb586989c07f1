"""The signing key: made once, opened from an encrypted keystore, shown nowhere."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from eth_account import Account

from chainmemory.chain.fees import Fees
from chainmemory.chain.signer import Signer, ensure_keystore, load_signer
from chainmemory.errors import ConfigurationError

KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")


def test_a_keystore_is_made_once_private_and_opens_with_its_password(tmp_path: Path) -> None:
    keystore, password = tmp_path / "signer.json", tmp_path / "signer.password"

    address = ensure_keystore(keystore, password)
    before = keystore.read_bytes()

    assert ensure_keystore(keystore, password) == address == load_signer(keystore, password).address
    assert keystore.read_bytes() == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["signer.json", "signer.password"]
    assert json.loads(before)["crypto"]["cipher"] == "aes-128-ctr"


def test_a_foreign_keystore_opens_too(tmp_path: Path) -> None:
    keystore, password = tmp_path / "k.json", tmp_path / "p"
    keystore.write_text(json.dumps(Account.encrypt(KEY, "open sesame", iterations=1024)))
    password.write_text("open sesame\n")

    assert load_signer(keystore, password).address == Account.from_key(KEY).address


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"version": 3, "crypto": {}}'])
def test_a_broken_keystore_names_the_file_and_no_content(tmp_path: Path, content: str) -> None:
    keystore, password = tmp_path / "k.json", tmp_path / "p"
    keystore.write_text(content)
    password.write_text("hunter22\n")

    with pytest.raises(ConfigurationError) as raised:
        load_signer(keystore, password)

    assert str(keystore) in raised.value.message
    assert "hunter22" not in raised.value.message


def test_a_wrong_password_or_a_missing_file_is_said(tmp_path: Path) -> None:
    keystore, password = tmp_path / "k.json", tmp_path / "p"
    ensure_keystore(keystore, password)
    password.write_text("wrong\n")

    with pytest.raises(ConfigurationError, match="doesn't hold its password"):
        load_signer(keystore, password)
    with pytest.raises(ConfigurationError, match="can't be read"):
        load_signer(keystore, tmp_path / "absent")


@pytest.mark.parametrize("fees", [Fees(10**9, None), Fees(2 * 10**9, 10**9)])
@pytest.mark.parametrize("to", [None, "0x000000000000000000000000000000000000dEaD"])
def test_a_signed_transaction_knows_its_hash_and_recovers_to_the_signer(fees: Fees, to: str | None) -> None:
    signer = Signer.from_key(KEY)

    signed = signer.sign(chain_id=20250, nonce=7, to=to, data=b"\x01", gas_limit=100_000, fees=fees)

    from eth_utils.crypto import keccak

    assert signed.hash == "0x" + keccak(signed.raw).hex()
    assert Account.recover_transaction(signed.raw) == signer.address
    assert (signed.nonce, signed.gas_limit, signed.fees) == (7, 100_000, fees)


def test_the_key_is_in_no_repr() -> None:
    signer = Signer.from_key(KEY)

    assert KEY.hex() not in repr(signer) + str(signer) + repr(vars(signer))
