"""The authority's key on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from eth_account import Account

from chainmemory.errors import ConfigurationError
from chainmemory.node import keystore
from chainmemory.node.keystore import create_authority, load_authority


def test_a_new_key_is_encrypted_private_and_loads_again(tmp_path: Path) -> None:
    file, password = tmp_path / "key.json", tmp_path / "password"
    key = create_authority(file, password)
    assert load_authority(file, password) == key
    for path in (file, password):
        assert path.stat().st_mode & 0o777 == 0o600
        assert key.to_hex()[2:] not in path.read_text()
    assert len(password.read_text().strip()) == 64


def test_the_file_is_what_other_wallets_read(tmp_path: Path) -> None:
    file, password = tmp_path / "key.json", tmp_path / "password"
    key = create_authority(file, password)
    assert (
        bytes(Account.decrypt(json.loads(file.read_text()), password.read_text().strip())) == key.to_bytes()
    )


def test_a_chosen_password_costs_full_strength(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, password = tmp_path / "key.json", tmp_path / "password"
    password.write_text("correct horse\n")
    work: list[int] = []
    original = keystore.create_keyfile_json

    def cheaper(private: bytes, secret: bytes, *, kdf: str, iterations: int) -> object:
        work.append(iterations)
        assert secret == b"correct horse"
        return original(private, secret, kdf="scrypt", iterations=2)

    monkeypatch.setattr(keystore, "create_keyfile_json", cheaper)
    key = create_authority(file, password)
    assert work == [keystore.STRONG_SCRYPT_N]
    assert load_authority(file, password) == key


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file, password = tmp_path / "key.json", tmp_path / "password"
    create_authority(file, password)
    before = file.read_bytes(), password.read_bytes()
    with pytest.raises(ConfigurationError, match="not overwritten"):
        create_authority(file, tmp_path / "other")
    assert (file.read_bytes(), password.read_bytes()) == before


def test_what_cannot_be_read_is_said_without_the_secret(tmp_path: Path) -> None:
    file, password = tmp_path / "key.json", tmp_path / "password"
    create_authority(file, password)
    wrong = tmp_path / "wrong"
    wrong.write_text("my other secret")
    with pytest.raises(ConfigurationError, match="can't be decrypted") as refusal:
        load_authority(file, wrong)
    assert "my other secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    with pytest.raises(ConfigurationError, match="can't be read"):
        load_authority(tmp_path / "nowhere", password)
    with pytest.raises(ConfigurationError, match=r"password file .* can't be read"):
        load_authority(file, tmp_path / "nowhere")
    wrong.write_text("\n")
    with pytest.raises(ConfigurationError, match="is empty"):
        load_authority(file, wrong)
    file.write_text("{}")
    with pytest.raises(ConfigurationError, match="can't be decrypted"):
        load_authority(file, password)
