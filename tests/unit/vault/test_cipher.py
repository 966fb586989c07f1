"""The stored form of a blob, and what its wrapper refuses."""

from __future__ import annotations

import gc
import hashlib
import resource
import threading

import pytest

from chainmemory.errors import IntegrityError
from chainmemory.vault.cipher import NONCE_BYTES, TAG_BYTES, Cipher, Gcm, encrypt_each, fresh

KEY = bytes(range(32))
NONCE = bytes(range(NONCE_BYTES))


def test_a_blob_is_version_nonce_ciphertext_tag() -> None:
    blob = Cipher(KEY).encrypt(b"hello", b"place")
    assert blob[:1] == b"\x01"
    assert len(blob) == 1 + NONCE_BYTES + 5 + TAG_BYTES
    assert Gcm(KEY).decrypt(blob[1:13], blob[13:], b"place") == b"hello"


def test_every_blob_has_a_nonce_of_its_own() -> None:
    cipher = Cipher(KEY)
    assert len({cipher.encrypt(b"hello", b"")[1:13] for _ in range(1000)}) == 1000


def test_what_is_fresh_repeats_nowhere() -> None:
    made = fresh(500, 32, 12, 12)
    assert [{len(one) for one in column} for column in made] == [{32}, {12}, {12}]
    pieces = [column[at][:12] for column in made for at in range(500)]
    assert len(set(pieces)) == len(pieces) == 1500
    assert fresh(0, 32, 12) == [[], []]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 16 * 1024, 16 * 1024 + 1, 3_000_000])
def test_any_length_comes_back(size: int) -> None:
    text = hashlib.shake_128(b"text").digest(size)
    cipher = Cipher(KEY)
    assert cipher.decrypt(cipher.encrypt(text, b"place"), b"place") == text
    assert cipher.decrypt(Cipher.encrypt_each([KEY], [NONCE], [text], [b"place"])[0], b"place") == text


def test_another_key_or_place_is_refused() -> None:
    blob = Cipher(KEY).encrypt(b"hello", b"place")
    with pytest.raises(IntegrityError):
        Cipher(bytes(32)).decrypt(blob, b"place")
    with pytest.raises(IntegrityError):
        Cipher(KEY).decrypt(blob, b"elsewhere")


@pytest.mark.parametrize("length", [0, 1, 12, 13, 28])
def test_a_blob_too_short_is_refused(length: int) -> None:
    blob = Cipher(KEY).encrypt(b"", b"")
    with pytest.raises(IntegrityError):
        Cipher(KEY).decrypt(blob[:length], b"")


@pytest.mark.parametrize("version", [0x00, 0x02, 0xFF])
def test_another_version_is_refused(version: int) -> None:
    blob = Cipher(KEY).encrypt(b"hello", b"")
    with pytest.raises(IntegrityError):
        Cipher(KEY).decrypt(bytes([version]) + blob[1:], b"")


@pytest.mark.parametrize("length", [0, 16, 24, 31, 33])
def test_a_key_has_32_bytes(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Cipher(bytes(length))
    with pytest.raises(ValueError, match="32 bytes"):
        Cipher.encrypt_each([bytes(length)], [NONCE], [b"hello"], [b""])


@pytest.mark.parametrize("length", [0, 11, 13, 16])
def test_a_nonce_has_12_bytes(length: int) -> None:
    with pytest.raises(ValueError, match="12 bytes"):
        Gcm(KEY).encrypt(bytes(length), b"hello", b"")
    with pytest.raises(ValueError, match="12 bytes"):
        encrypt_each([KEY], [bytes(length)], [b"hello"], [b""])


def test_threads_share_one_cipher() -> None:
    cipher = Cipher(KEY)
    texts = [bytes([number]) * (number * 37) for number in range(64)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                for text in texts:
                    assert cipher.decrypt(cipher.encrypt(text, text[:9]), text[:9]) == text
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_expanded_keys_are_freed() -> None:
    for _ in range(2_000):
        Cipher(KEY)
        Cipher.encrypt_each([KEY], [NONCE], [b""], [b""])
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(40_000):
        Cipher(KEY)
        Cipher.encrypt_each([KEY], [NONCE], [b""], [b""])
    # The least of them, GHASH's powers of a key, has above 100 bytes: 40,000 leaked ones would be 4 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2_000
