"""AES-256-GCM on pycryptodome's compiled parts (protocol §4, NIST SP 800-38D); pycryptodome is used in this
file alone.

pycryptodome's own `MODE_GCM` spends 100 µs a message building Python objects around four C calls. Here the
same C code (AES with AES-NI or portable, GHASH with CLMUL or portable) is called directly: about 15 µs with a
fresh key, 7 µs with a kept one. tests/unit/test_vault_wycheproof.py and tests/property/test_vault_cipher.py
hold it against the public Wycheproof cases and against `MODE_GCM`. It needs the exact pycryptodome version of
constraints.txt.
"""

from __future__ import annotations

import hmac
import os
from typing import Any, Final

from Crypto.Cipher import AES, _mode_ecb, _mode_gcm
from Crypto.Util import _raw_api, strxor

from chainmemory.errors import ConfigurationError, IntegrityError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
VERSION: Final = b"\x01"
"""First byte of a blob the server encrypted; 0x02 marks one the client did (protocol §4)."""
MAX_PLAINTEXT: Final = 2**36 - 32
"""Bytes under one nonce (SP 800-38D, 5.2.1.1)."""

_BLOCK: Final = 16
_OVERHEAD: Final = len(VERSION) + NONCE_BYTES + TAG_BYTES
_ZERO: Final = bytes(_BLOCK)
_PADS: Final = tuple(bytes(-length % _BLOCK) for length in range(_BLOCK))
# Up to here the counter blocks come from a table; longer messages go through pycryptodome's CTR mode.
_TABLE_BLOCKS: Final = 1024
# `nonce.join(_COUNTERS[:n + 1])` is nonce‖1, nonce‖2, … nonce‖n.
_COUNTERS: Final = (b"", *(number.to_bytes(4, "big") for number in range(1, _TABLE_BLOCKS + 2)))

if _raw_api.backend != "cffi":
    raise ConfigurationError("pycryptodome must use cffi here; install cffi and don't run Python with -OO.")
# pycryptodome's stubs don't list its private parts.
_aes_parts: Any = AES
_ecb_parts: Any = _mode_ecb
_gcm_parts: Any = _mode_gcm
_xor_parts: Any = strxor
_ffi: Final = _raw_api.ffi
_ecb: Final = _ecb_parts.raw_ecb_lib
_xor: Final = _xor_parts._raw_strxor.strxor
_ghash: Final = _gcm_parts._ghash_clmul or _gcm_parts._ghash_portable
if _aes_parts._raw_aesni_lib:
    _aes_start = _aes_parts._raw_aesni_lib.AESNI_start_operation
    _aes_stop = _aes_parts._raw_aesni_lib.AESNI_stop_operation
else:
    _aes_start = _aes_parts._raw_aes_lib.AES_start_operation
    _aes_stop = _aes_parts._raw_aes_lib.AES_stop_operation


class Gcm:
    """AES-GCM under one key (16, 24 or 32 bytes) with 96-bit nonces and 128-bit tags; safe to share by
    threads.

    Nothing of the C side's state changes after the key is set up: ECB and GHASH only read it.
    """

    __slots__ = ("_aes", "_hash_key", "_key")

    def __init__(self, key: bytes) -> None:
        """Expand the key; ValueError on another length."""
        if len(key) not in (16, 24, 32):
            raise ValueError(f"an AES key has 16, 24 or 32 bytes, not {len(key)}")
        self._key = key
        self._aes = _expand_aes(key)
        self._hash_key = _expand_ghash(bytes(self._blocks(_ZERO)))

    def encrypt(self, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
        """Return ciphertext ‖ tag. A nonce is used once under one key, or the key is lost."""
        stream = self._keystream(nonce, len(plaintext))
        ciphertext = _apply(stream, plaintext)
        return ciphertext + self._tag(stream, ciphertext, aad)

    def decrypt(self, nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
        """Return the plaintext of ciphertext ‖ tag; IntegrityError unless the tag is right.

        The tag is compared in constant time, and nothing is decrypted before it was.
        """
        if len(sealed) < TAG_BYTES:
            raise _broken()
        ciphertext, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        stream = self._keystream(nonce, len(ciphertext))
        if not hmac.compare_digest(tag, self._tag(stream, ciphertext, aad)):
            raise _broken()
        return _apply(stream, ciphertext)

    def _keystream(self, nonce: bytes, length: int) -> bytearray:
        """Return E(nonce‖1), which masks the tag, then E(nonce‖2), E(nonce‖3) … for `length` bytes."""
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
        blocks = (length + _BLOCK - 1) // _BLOCK
        if blocks <= _TABLE_BLOCKS:
            return self._blocks(nonce.join(_COUNTERS[: blocks + 2]))
        if length > MAX_PLAINTEXT:
            raise ValueError("too long for one nonce")
        counter = AES.new(self._key, AES.MODE_CTR, nonce=nonce, initial_value=1)
        stream = bytearray(_BLOCK + length)
        counter.encrypt(stream, output=stream)
        return stream

    def _tag(self, stream: bytearray, ciphertext: bytes, aad: bytes) -> bytes:
        """GHASH over the padded associated data, the padded ciphertext and both lengths in bits, masked by
        the keystream's first block.
        """
        covered = b"".join(
            (
                aad,
                _PADS[len(aad) % _BLOCK],
                ciphertext,
                _PADS[len(ciphertext) % _BLOCK],
                (len(aad) << 67 | len(ciphertext) << 3).to_bytes(_BLOCK, "big"),
            )
        )
        digest = bytearray(_BLOCK)
        out = _ffi.from_buffer(digest)
        _check(_ghash.ghash(out, covered, len(covered), _ZERO, self._hash_key))
        _check(_xor(_ffi.from_buffer(stream), out, out, _BLOCK))
        return bytes(digest)

    def _blocks(self, data: bytes) -> bytearray:
        """Encrypt whole blocks, each by itself."""
        out = bytearray(len(data))
        _check(_ecb.ECB_encrypt(self._aes, data, _ffi.from_buffer(out), len(data)))
        return out


class Cipher:
    """AES-256-GCM under one key, in the stored form `0x01 ‖ nonce(12) ‖ ciphertext ‖ tag(16)` (protocol
    §4).
    """

    __slots__ = ("_gcm",)

    def __init__(self, key: bytes) -> None:
        """Take a 32-byte key; ValueError on another length."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        self._gcm = Gcm(key)

    def encrypt(self, plaintext: bytes, aad: bytes) -> bytes:
        """Encrypt under a fresh random nonce; `aad` says where the blob belongs."""
        nonce = os.urandom(NONCE_BYTES)
        return VERSION + nonce + self._gcm.encrypt(nonce, plaintext, aad)

    def decrypt(self, blob: bytes, aad: bytes) -> bytes:
        """Decrypt a stored blob; IntegrityError if it, its place or the key isn't the one it was made
        with.
        """
        if len(blob) < _OVERHEAD or blob[:1] != VERSION:
            raise _broken()
        return self._gcm.decrypt(blob[1 : 1 + NONCE_BYTES], blob[1 + NONCE_BYTES :], aad)


def _apply(stream: bytearray, data: bytes) -> bytes:
    """Return `data` XOR the keystream from its second block on; the stream is left as it is."""
    length = len(data)
    if not length:
        return b""
    out = bytearray(length)
    _check(_xor(data, _ffi.from_buffer(stream) + _BLOCK, _ffi.from_buffer(out), length))
    return bytes(out)


def _expand_aes(key: bytes) -> Any:
    """Return pycryptodome's ECB state over the expanded key; it is freed with the Python object."""
    result = _ffi.new("void *[1]")
    _check(_aes_start(key, len(key), result))
    aes = result[0]
    code = _ecb.ECB_start_operation(aes, result)
    if code:
        _aes_stop(aes)
        _check(code)
    # The ECB state owns the AES state from here on.
    return _ffi.gc(result[0], _ecb.ECB_stop_operation)


def _expand_ghash(subkey: bytes) -> Any:
    result = _ffi.new("void *[1]")
    _check(_ghash.ghash_expand(subkey, result))
    return _ffi.gc(result[0], _ghash.ghash_destroy)


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"pycryptodome answered with error {code}")


def _broken() -> IntegrityError:
    return IntegrityError(
        "The stored bytes can't be decrypted: they or their place were changed, or the key is wrong.",
        code="undecryptable",
    )
