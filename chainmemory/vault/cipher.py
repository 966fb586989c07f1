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
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final, cast

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
# pycryptodome's stubs don't list its private parts. What its C code does, as of 3.24.1: an ECB state is the
# AES state itself; neither ECB nor GHASH writes to its state; all of them take unaligned buffers.
_aes_parts: Any = AES
_gcm_parts: Any = _mode_gcm
_ffi: Final[Any] = _raw_api.ffi
_new: Final = _ffi.new
_buffer: Final = _ffi.buffer
_BYTES: Final = _ffi.typeof("uint8_t[]")
_POINTER: Final = _ffi.typeof("void *[1]")
_ecb_encrypt: Final = cast("Any", _mode_ecb).raw_ecb_lib.ECB_encrypt
_xor: Final = cast("Any", strxor)._raw_strxor.strxor


def _choose_aes(accelerated: bool) -> tuple[Any, Any]:
    """Return pycryptodome's functions that expand an AES key and free it."""
    if accelerated:
        library = _aes_parts._raw_aesni_lib
        return library.AESNI_start_operation, library.AESNI_stop_operation
    library = _aes_parts._raw_aes_lib
    return library.AES_start_operation, library.AES_stop_operation


def _choose_ghash(accelerated: bool) -> tuple[Any, Any, Any]:
    """Return pycryptodome's GHASH, and the functions that expand its key and free it."""
    library = _gcm_parts._ghash_clmul if accelerated else _gcm_parts._ghash_portable
    return library.ghash, library.ghash_expand, library.ghash_destroy


_aes_start, _aes_stop = _choose_aes(_aes_parts._raw_aesni_lib is not None)
_ghash, _ghash_expand, _ghash_destroy = _choose_ghash(_gcm_parts._ghash_clmul is not None)


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
        result = _new(_POINTER)
        _check(_aes_start(key, len(key), result))
        self._aes = _ffi.gc(result[0], _aes_stop)
        subkey = _new(_BYTES, _BLOCK)
        _check(_ecb_encrypt(self._aes, _ZERO, subkey, _BLOCK))
        _check(_ghash_expand(subkey, result))
        self._hash_key = _ffi.gc(result[0], _ghash_destroy)

    def encrypt(self, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
        """Return ciphertext ‖ tag. A nonce is used once under one key, or the key is lost."""
        length = len(plaintext)
        stream = self._keystream(nonce, length)
        body = stream + _BLOCK
        _xor(plaintext, body, body, length)
        self._write_tag(stream, body + length, _buffer(body, length)[:], aad)
        return bytes(_buffer(body, length + TAG_BYTES))

    def encrypt_many(
        self, nonces: Sequence[bytes], plaintexts: Sequence[bytes], aads: Sequence[bytes]
    ) -> list[bytes]:
        """Return ciphertext ‖ tag of each message, in fewer steps than `encrypt` one by one."""
        if len(plaintexts) == 1 or not _all_fit_the_table(nonces, plaintexts):
            return list(map(self.encrypt, nonces, plaintexts, aads))
        counters = b"".join(
            [
                nonce.join(_COUNTERS[: 2 + (len(plaintext) + _BLOCK - 1) // _BLOCK])
                for nonce, plaintext in zip(nonces, plaintexts, strict=True)
            ]
        )
        stream = _new(_BYTES, len(counters))
        _check(_ecb_encrypt(self._aes, counters, stream, len(counters)))
        return _mask(stream, _BLOCK, repeat(self._hash_key), plaintexts, aads)

    def decrypt(self, nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
        """Return the plaintext of ciphertext ‖ tag; IntegrityError unless the tag is right.

        The tag is compared in constant time, and nothing is decrypted before it was.
        """
        length = len(sealed) - TAG_BYTES
        if length < 0:
            raise _broken()
        ciphertext = sealed[:length]
        stream = self._keystream(nonce, length)
        expected = _new(_BYTES, TAG_BYTES)
        self._write_tag(stream, expected, ciphertext, aad)
        if not hmac.compare_digest(sealed[length:], bytes(_buffer(expected))):
            raise _broken()
        body = stream + _BLOCK
        _xor(ciphertext, body, body, length)
        return bytes(_buffer(body, length))

    def _keystream(self, nonce: bytes, length: int) -> Any:
        """Return E(nonce‖1), which masks the tag, then E(nonce‖2), E(nonce‖3) … for `length` bytes, in a
        buffer with room for a tag after those.
        """
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
        if length > MAX_PLAINTEXT:
            raise ValueError("too long for one nonce")
        blocks = 1 + (length + _BLOCK - 1) // _BLOCK
        stream = _new(_BYTES, (blocks + 1) * _BLOCK)
        if blocks <= _TABLE_BLOCKS:
            _check(_ecb_encrypt(self._aes, nonce.join(_COUNTERS[: blocks + 1]), stream, blocks * _BLOCK))
        else:
            counter = AES.new(self._key, AES.MODE_CTR, nonce=nonce, initial_value=1)
            counter.encrypt(bytes(blocks * _BLOCK), output=memoryview(_buffer(stream, blocks * _BLOCK)))
        return stream

    def _write_tag(self, mask: Any, tag: Any, ciphertext: bytes, aad: bytes) -> None:
        """Write to `tag` the GHASH of both, XOR the first block of `mask`."""
        covered = _covered(ciphertext, aad)
        _check(_ghash(tag, covered, len(covered), _ZERO, self._hash_key))
        _xor(mask, tag, tag, _BLOCK)


def encrypt_each(
    keys: Sequence[bytes], nonces: Sequence[bytes], plaintexts: Sequence[bytes], aads: Sequence[bytes]
) -> list[bytes]:
    """Return ciphertext ‖ tag of each message under a key that encrypts this one message: `Gcm(key).encrypt`,
    in fewer steps.

    One pass of AES gives GHASH's key, the tag's mask and the keystream. ValueError on a nonce of another
    length.
    """
    if len(keys) == 1 or not _all_fit_the_table(nonces, plaintexts):
        return [Gcm(key).encrypt(*rest) for key, *rest in zip(keys, nonces, plaintexts, aads, strict=True)]
    sizes = [2 * _BLOCK + len(plaintext) + -len(plaintext) % _BLOCK for plaintext in plaintexts]
    stream, state = _new(_BYTES, sum(sizes)), _new(_POINTER)
    hash_keys: list[Any] = []
    try:
        at = 0
        for key, nonce, size in zip(keys, nonces, sizes, strict=True):
            _check(_aes_start(key, len(key), state))
            aes, subkey = state[0], stream + at
            try:
                _check(_ecb_encrypt(aes, _ZERO + nonce.join(_COUNTERS[: size // _BLOCK]), subkey, size))
            finally:
                _aes_stop(aes)
            _check(_ghash_expand(subkey, state))
            hash_keys.append(state[0])
            at += size
        return _mask(stream, 2 * _BLOCK, hash_keys, plaintexts, aads)
    finally:
        for hash_key in hash_keys:
            _ghash_destroy(hash_key)


def _all_fit_the_table(nonces: Sequence[bytes], plaintexts: Sequence[bytes]) -> bool:
    """Tell whether the table has counter blocks enough for each of the messages; ValueError on a nonce of
    another length.
    """
    for nonce in nonces:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    return max(map(len, plaintexts), default=0) <= (_TABLE_BLOCKS - 2) * _BLOCK


def _mask(
    stream: Any, lead: int, hash_keys: Iterable[Any], plaintexts: Sequence[bytes], aads: Sequence[bytes]
) -> list[bytes]:
    """Return ciphertext ‖ tag of several messages whose keystreams lie one behind the other in `stream`.

    Each has `lead` bytes in front, the last block of which masks its tag, and is padded to a whole block.
    Step by step for all messages, not message by message: one XOR does for all of them, and each step finds
    its code and data in the processor's caches.
    """
    front = bytes(lead)
    laid_out = b"".join([part for text in plaintexts for part in (front, text, _PADS[len(text) % _BLOCK])])
    _xor(laid_out, stream, stream, len(laid_out))
    masked = _buffer(stream, len(laid_out))[:]
    ciphertexts: list[bytes] = []
    masks: list[bytes] = []
    at = lead
    for plaintext in plaintexts:
        end = at + len(plaintext)
        ciphertexts.append(masked[at:end])
        masks.append(masked[at - _BLOCK : at])
        at = end + -len(plaintext) % _BLOCK + lead
    tags = _new(_BYTES, len(masks) * TAG_BYTES)
    at = 0
    for hash_key, ciphertext, aad in zip(hash_keys, ciphertexts, aads, strict=False):
        covered = _covered(ciphertext, aad)
        _check(_ghash(tags + at, covered, len(covered), _ZERO, hash_key))
        at += TAG_BYTES
    _xor(b"".join(masks), tags, tags, at)
    tag_bytes = _buffer(tags)[:]
    return [
        ciphertext + tag_bytes[at : at + TAG_BYTES]
        for ciphertext, at in zip(ciphertexts, range(0, at, TAG_BYTES), strict=True)
    ]


def _covered(ciphertext: bytes, aad: bytes) -> bytes:
    """Return what GHASH covers: the padded associated data, the padded ciphertext, and both lengths in
    bits.
    """
    return b"".join(
        (
            aad,
            _PADS[len(aad) % _BLOCK],
            ciphertext,
            _PADS[len(ciphertext) % _BLOCK],
            (len(aad) << 67 | len(ciphertext) << 3).to_bytes(_BLOCK, "big"),
        )
    )


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

    def encrypt_many(
        self, nonces: Sequence[bytes], plaintexts: Sequence[bytes], aads: Sequence[bytes]
    ) -> list[bytes]:
        """Encrypt several blobs, each as `encrypt` does, under fresh random nonces (`fresh`)."""
        sealed = self._gcm.encrypt_many(nonces, plaintexts, aads)
        return [VERSION + nonce + rest for nonce, rest in zip(nonces, sealed, strict=True)]

    @staticmethod
    def encrypt_each(
        keys: Sequence[bytes], nonces: Sequence[bytes], plaintexts: Sequence[bytes], aads: Sequence[bytes]
    ) -> list[bytes]:
        """Encrypt blobs, each under the key made for it alone; ValueError unless a key has 32 bytes."""
        for key in keys:
            if len(key) != KEY_BYTES:
                raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        sealed = encrypt_each(keys, nonces, plaintexts, aads)
        return [VERSION + nonce + rest for nonce, rest in zip(nonces, sealed, strict=True)]

    def decrypt(self, blob: bytes, aad: bytes) -> bytes:
        """Decrypt a stored blob; IntegrityError if it, its place or the key isn't the one it was made
        with.
        """
        if len(blob) < _OVERHEAD or blob[:1] != VERSION:
            raise _broken()
        return self._gcm.decrypt(blob[1 : 1 + NONCE_BYTES], blob[1 + NONCE_BYTES :], aad)


def fresh(count: int, *sizes: int) -> list[list[bytes]]:
    """Return, for each of `sizes`, `count` random strings of so many bytes, from one call to the kernel."""
    random, at = os.urandom(count * sum(sizes)), 0
    made = []
    for size in sizes:
        end = at + size * count
        made.append([random[start : start + size] for start in range(at, end, size)])
        at = end
    return made


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"pycryptodome answered with error {code}")


def _broken() -> IntegrityError:
    return IntegrityError(
        "The stored bytes can't be decrypted: they or their place were changed, or the key is wrong.",
        code="undecryptable",
    )
