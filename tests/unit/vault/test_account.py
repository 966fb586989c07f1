"""An account's vault: keys, places and tokens as protocol §4 writes them."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from chainmemory.errors import IntegrityError
from chainmemory.protocol.canonical import canonical
from chainmemory.vault.account import AccountVault
from chainmemory.vault.cipher import Cipher
from chainmemory.vault.places import (
    account_key_place,
    content_place,
    key_seed_place,
    small_place,
    state_doc_place,
    state_ops_place,
)

ACCOUNT = "0123456789abcdef" * 2
PROJECT = "0x" + "ab" * 32
KEY = bytes(range(32))


@pytest.fixture
def vault() -> AccountVault:
    return AccountVault(ACCOUNT, KEY)


def test_a_sealed_blob_is_under_the_key_the_protocol_derives(vault: AccountVault) -> None:
    place = b'{"account":"0123456789abcdef0123456789abcdef","number":7,"role":"content"}'
    sealed = vault.seal(b"hello", place)
    wrap_place = b'{"account":"0123456789abcdef0123456789abcdef","of":' + place + b',"role":"key_seed"}'
    seed = Cipher(KEY).decrypt(sealed.wrapped_seed, wrap_place)
    assert len(seed) == 32
    data_key = hmac.new(KEY, b"CM_DATA_KEY_V1\x00" + seed, hashlib.sha256).digest()
    assert Cipher(data_key).decrypt(sealed.blob, place) == b"hello"
    assert vault.open(sealed.blob, sealed.wrapped_seed, place) == b"hello"


def test_places_are_the_canonical_json_of_the_protocol() -> None:
    place = {"account": ACCOUNT, "role": "content", "number": 7}
    assert content_place(ACCOUNT, 7) == canonical(place)
    state = {"account": ACCOUNT, "project_id": PROJECT, "version": 3}
    assert state_ops_place(ACCOUNT, PROJECT, 3) == canonical({**state, "role": "state_ops"})
    assert state_doc_place(ACCOUNT, PROJECT, 3) == canonical({**state, "role": "state_doc"})
    assert account_key_place(ACCOUNT, "k1") == canonical(
        {"account": ACCOUNT, "role": "account_key", "key_id": "k1"}
    )
    assert key_seed_place(ACCOUNT, content_place(ACCOUNT, 7)) == canonical(
        {"account": ACCOUNT, "role": "key_seed", "of": place}
    )


def test_ids_of_a_small_place_cannot_hide_the_account() -> None:
    with pytest.raises(ValueError, match="given already"):
        small_place(ACCOUNT, "tags", {"role": "answer"})


def test_every_blob_has_a_seed_of_its_own(vault: AccountVault) -> None:
    place = content_place(ACCOUNT, 1)
    one, two = vault.seal(b"hello", place), vault.seal(b"hello", place)
    with pytest.raises(IntegrityError):
        vault.open(one.blob, two.wrapped_seed, place)


def test_blobs_cannot_be_swapped(vault: AccountVault) -> None:
    sealed = vault.seal(b"hello", content_place(ACCOUNT, 1))
    for place in (
        content_place(ACCOUNT, 2),
        content_place("f" * 32, 1),
        state_ops_place(ACCOUNT, PROJECT, 1),
    ):
        with pytest.raises(IntegrityError):
            vault.open(*sealed, place)
    ops = vault.seal(b"[]", state_ops_place(ACCOUNT, PROJECT, 1))
    with pytest.raises(IntegrityError):
        vault.open(*ops, state_doc_place(ACCOUNT, PROJECT, 1))


def test_another_account_opens_nothing(vault: AccountVault) -> None:
    other = AccountVault("f" * 32, AccountVault.new_key())
    sealed = vault.seal(b"hello", content_place(ACCOUNT, 1))
    with pytest.raises(IntegrityError):
        other.open(*sealed, content_place(ACCOUNT, 1))
    with pytest.raises(IntegrityError):
        other.open_small(vault.seal_small(b"hello", "tags", number=1), "tags", number=1)


def test_small_things_belong_to_one_row_and_role(vault: AccountVault) -> None:
    blob = vault.seal_small(b"hello", "tags", number=1)
    assert vault.open_small(blob, "tags", number=1) == b"hello"
    for role, ids in (("tags", {"number": 2}), ("label", {"number": 1}), ("tags", {"number": "1"})):
        with pytest.raises(IntegrityError):
            vault.open_small(blob, role, **ids)


def test_new_keys_are_random_and_have_32_bytes() -> None:
    keys = {AccountVault.new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {32}


def test_keyed_hashes_differ_by_role_data_and_account(vault: AccountVault) -> None:
    other = AccountVault(ACCOUNT, bytes(32))
    hashes = {
        vault.keyed_hash("a", b"x"),
        vault.keyed_hash("b", b"x"),
        vault.keyed_hash("a", b"y"),
        other.keyed_hash("a", b"x"),
    }
    assert len(hashes) == 4
    assert {len(value) for value in hashes} == {64}
    assert hashlib.sha256(b"x").hexdigest() not in hashes
    assert AccountVault(ACCOUNT, KEY).keyed_hash("a", b"x") == vault.keyed_hash("a", b"x")


def test_tokens_are_keyed_by_account_and_kind(vault: AccountVault) -> None:
    other = AccountVault(ACCOUNT, bytes(32))
    assert len(vault.tag_token("rust")) == 8
    assert vault.tag_token("rust") == AccountVault(ACCOUNT, KEY).tag_token("rust")
    assert len({vault.tag_token("rust"), other.tag_token("rust"), *vault.query_tokens("rust")}) == 3


def test_tags_are_exact_and_in_no_order_of_their_own(vault: AccountVault) -> None:
    tokens = vault.tag_tokens(["b", "a", "A", "a"])
    assert tokens == b"".join(sorted(vault.tag_token(tag) for tag in ("a", "b", "A")))
    assert vault.tag_tokens([]) == b""


def test_the_search_index_counts_words_and_hides_their_order(vault: AccountVault) -> None:
    index = vault.search_tokens("Go, go, GO! then stop")
    go, then, stop = vault.query_tokens("go then stop")
    assert [index[at : at + 8] for at in range(0, len(index), 8)] == sorted([go, go, go, then, stop])
    assert index == vault.search_tokens("stop go then go go")


def test_a_long_text_repeats_a_word_at_most_16_times(vault: AccountVault) -> None:
    common, rare = vault.query_tokens("common rare")
    assert vault.search_tokens("common " * 999 + "rare").count(common) == 999
    long = vault.search_tokens("common " * 1_000 + "rare")
    assert sorted(long[at : at + 8] for at in range(0, len(long), 8)) == sorted([common] * 16 + [rare])


@pytest.mark.parametrize("text", ["", "   ", "!?…"])
def test_a_text_without_words_has_an_empty_index(vault: AccountVault, text: str) -> None:
    assert vault.search_tokens(text) == b""
    assert vault.query_tokens(text) == []


def test_more_words_than_are_kept_in_memory_change_nothing(vault: AccountVault) -> None:
    before = vault.search_tokens("alpha beta")
    vault.search_tokens(" ".join(f"w{number}" for number in range(5_000)))
    assert len(vault._search_tokens) <= 2_000
    assert vault.search_tokens("alpha beta") == before
