"""Our assembly of AES-GCM gives the bytes pycryptodome's own MODE_GCM gives, on any input."""

from __future__ import annotations

import os

import pytest
from Crypto.Cipher import AES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainmemory.errors import IntegrityError
from chainmemory.vault.cipher import Cipher, Gcm, encrypt_each
from tests.support.portable import use_portable

keys = st.sampled_from([16, 24, 32]).flatmap(lambda size: st.binary(min_size=size, max_size=size))
nonces = st.binary(min_size=12, max_size=12)
texts = st.binary(max_size=400)


def _expected(key: bytes, nonce: bytes, text: bytes, aad: bytes) -> bytes:
    other = AES.new(key, AES.MODE_GCM, nonce=nonce)
    other.update(aad)
    ciphertext, tag = other.encrypt_and_digest(text)
    return ciphertext + tag


@given(keys, nonces, texts, texts)
def test_gives_the_same_bytes(key: bytes, nonce: bytes, text: bytes, aad: bytes) -> None:
    sealed = Gcm(key).encrypt(nonce, text, aad)
    assert sealed == _expected(key, nonce, text, aad)
    assert Gcm(key).decrypt(nonce, sealed, aad) == text
    assert encrypt_each([key], [nonce], [text], [aad]) == [sealed]


@given(keys, nonces, texts, texts)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_gives_the_same_bytes_without_special_instructions(
    monkeypatch: pytest.MonkeyPatch, key: bytes, nonce: bytes, text: bytes, aad: bytes
) -> None:
    with monkeypatch.context() as patch:
        use_portable(patch)
        assert Gcm(key).encrypt(nonce, text, aad) == _expected(key, nonce, text, aad)
        assert encrypt_each([key], [nonce], [text], [aad]) == [_expected(key, nonce, text, aad)]


@given(st.integers(16 * 1024 - 40, 16 * 1024 + 70), st.sampled_from([0, 13, 16 * 1024 + 5]))
def test_gives_the_same_bytes_around_the_end_of_the_counter_table(size: int, aad_size: int) -> None:
    key, nonce, text, aad = os.urandom(32), os.urandom(12), os.urandom(size), os.urandom(aad_size)
    assert Gcm(key).encrypt(nonce, text, aad) == _expected(key, nonce, text, aad)
    assert encrypt_each([key], [nonce], [text], [aad]) == [_expected(key, nonce, text, aad)]


@given(texts, texts, st.data())
def test_any_changed_bit_is_noticed(text: bytes, aad: bytes, data: st.DataObject) -> None:
    sealing = Cipher(os.urandom(32))
    blob = sealing.encrypt(text, aad)
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    changed = bytearray(blob)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(IntegrityError):
        sealing.decrypt(bytes(changed), aad)
    with pytest.raises(IntegrityError):
        sealing.decrypt(blob, aad + b"\x00")
    assert sealing.decrypt(blob, aad) == text


@given(st.lists(st.tuples(keys, nonces, texts, texts), min_size=1, max_size=8), st.booleans())
def test_several_at_once_are_what_each_is_alone(
    messages: list[tuple[bytes, bytes, bytes, bytes]], a_long_one: bool
) -> None:
    if a_long_one:
        messages = [*messages, (bytes(32), bytes(12), bytes(17_000), b"")]
    expected = [_expected(*message) for message in messages]
    assert encrypt_each(*map(list, zip(*messages, strict=True))) == expected
    key = messages[0][0]
    _, *columns = map(list, zip(*messages, strict=True))
    assert Gcm(key).encrypt_many(*columns) == [_expected(key, *rest) for _, *rest in messages]
