"""One account's vault: everything it said is sealed under its account key (protocol §4)."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from chainmemory.errors import IntegrityError
from chainmemory.vault.cipher import KEY_BYTES, NONCE_BYTES, Cipher, fresh
from chainmemory.vault.places import key_seed_place, small_place
from chainmemory.vault.words import words

TOKEN_BYTES: Final = 8
"""Bytes of a keyed token in the tag and search indexes."""

_DATA_KEY: Final = b"CM_DATA_KEY_V1\x00"
_INDEX_KEY: Final = b"CM_INDEX_KEY_V1\x00"
_LONG_TEXT: Final = 1_000
# Ranking hardly tells 16 occurrences from more, and the index of a long text stays short.
_MOST_REPEATS: Final = 16
# The words said first are the common ones; what an account says beyond them is hashed each time (1 µs).
_MOST_KNOWN_WORDS: Final = 2_000


class Sealed(NamedTuple):
    """A blob under its own data key, and the seed of that key wrapped by the account key."""

    blob: bytes
    wrapped_seed: bytes


class AccountVault:
    """Seals and opens what belongs to one account; safe to share between threads.

    Big things (memories, state blobs) each have a data key of their own, so that destroying one seed destroys
    one thing. Small ones (tags, labels, names, stored answers, project secrets) are under the account key
    itself.
    """

    def __init__(self, account_id: str, account_key: bytes) -> None:
        """Take the account's unwrapped 32-byte key; ValueError on another length."""
        self.account_id = account_id
        self._key = account_key
        self._cipher = Cipher(account_key)
        # HMAC-SHA-256 (RFC 2104) up to where the seed comes in: every save derives a data key.
        padded = account_key.ljust(hashlib.sha256().block_size, b"\0")
        self._data_key_inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + _DATA_KEY)
        self._data_key_outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))
        self._tag_tokens = _Tokens(self._derive(b"tags"))
        self._search_tokens = _Tokens(self._derive(b"search"))
        self._hash_key = self._derive(b"hashes")

    @staticmethod
    def new_key() -> bytes:
        """Make a random 32-byte account key."""
        return os.urandom(KEY_BYTES)

    def seal(self, plaintext: bytes, place: bytes) -> Sealed:
        """Seal a blob under a fresh data key of its own; `place` is from `chainmemory.vault.places`."""
        return self.seal_each([plaintext], [place])[0]

    def seal_each(self, plaintexts: Sequence[bytes], places: Sequence[bytes]) -> list[Sealed]:
        """Seal several blobs as `seal` does, in fewer steps."""
        seeds, nonces, seed_nonces = fresh(len(plaintexts), KEY_BYTES, NONCE_BYTES, NONCE_BYTES)
        blobs = Cipher.encrypt_each(list(map(self._data_key, seeds)), nonces, plaintexts, places)
        wrapped = self._cipher.encrypt_many(
            seed_nonces, seeds, [key_seed_place(self.account_id, place) for place in places]
        )
        return list(map(Sealed, blobs, wrapped))

    def open(self, blob: bytes, wrapped_seed: bytes, place: bytes) -> bytes:
        """Open a sealed blob; IntegrityError if it or its seed was changed or belongs to another place."""
        seed = self._cipher.decrypt(wrapped_seed, key_seed_place(self.account_id, place))
        return Cipher(self._data_key(seed)).decrypt(blob, place)

    def seal_small(self, data: bytes, role: str, **ids: str | int) -> bytes:
        """Seal a small thing under the account key; `role` and `ids` name the one row and column it
        belongs to.
        """
        return self._cipher.encrypt(data, small_place(self.account_id, role, ids))

    def open_small(self, blob: bytes, role: str, **ids: str | int) -> bytes:
        """Open what `seal_small` made; IntegrityError if it was changed or belongs elsewhere."""
        return self._cipher.decrypt(blob, small_place(self.account_id, role, ids))

    def keyed_hash(self, role: str, data: bytes) -> str:
        """Return 64 hex digits that only this account's key can make, for comparing without keeping the
        data.
        """
        return hmac.digest(self._hash_key, role.encode() + b"\x00" + data, "sha256").hex()

    def tag_token(self, tag: str) -> bytes:
        """Return the 8-byte token that stands for a tag, exactly as it is written, in
        `memories.tag_tokens`.
        """
        return self._tag_tokens[tag]

    def tag_tokens(self, tags: Iterable[str]) -> bytes:
        """Return the tokens of all tags, one after another, ascending."""
        return b"".join(sorted({self.tag_token(tag) for tag in tags}))

    def search_tokens(self, text: str) -> bytes:
        """Return the index of a text: its words' 8-byte tokens ascending, each as often as its word occurs
        (in a text of more than 1,000 words at most 16 times). Neither the words nor their order can be
        read from it.
        """
        found = words(text)
        if len(found) > _LONG_TEXT:
            found = [word for word, count in Counter(found).items() for _ in range(min(count, _MOST_REPEATS))]
        return b"".join(sorted(map(self._search_tokens.__getitem__, found)))

    def query_tokens(self, text: str) -> list[bytes]:
        """Return the tokens of a search's words, each once, in order."""
        return [self._search_tokens[word] for word in dict.fromkeys(words(text))]

    def _data_key(self, seed: bytes) -> bytes:
        if len(seed) != KEY_BYTES:
            raise IntegrityError(f"A key seed has {KEY_BYTES} bytes, not {len(seed)}.", code="undecryptable")
        inner, outer = self._data_key_inner.copy(), self._data_key_outer.copy()
        inner.update(seed)
        outer.update(inner.digest())
        return outer.digest()

    def _derive(self, purpose: bytes) -> bytes:
        return hmac.digest(self._key, _INDEX_KEY + purpose, "sha256")


class _Tokens(dict[str, bytes]):
    """The tokens of words under one key: looked up, made where they aren't known yet."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, word: str) -> bytes:
        token = _token(self._key, word)
        if len(self) < _MOST_KNOWN_WORDS:
            self[word] = token
        return token


def _token(key: bytes, text: str) -> bytes:
    # Lone surrogates never get here (protocol §1), but a token of one is no reason to fail.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=TOKEN_BYTES, key=key).digest()
