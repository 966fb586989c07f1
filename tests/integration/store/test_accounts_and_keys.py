"""Accounts, their keys, and the wrapping of account keys."""

from __future__ import annotations

import hashlib

import pytest

from chainmemory.errors import Conflict, NotFound
from chainmemory.store.accounts import Account, Head
from chainmemory.store.database import Database
from chainmemory.vault.master import MasterKeyring
from tests.support.saving import NOW, RING, at, create_account, save

SECRET = "aic_" + "5" * 40
HASH = hashlib.sha256(SECRET.encode()).hexdigest()


def test_a_new_account_is_empty(db: Database) -> None:
    with db.write() as tx:
        tx.accounts.create("ab" * 16, created_at=NOW, key_id="k", wrapped_key=b"w")
    with db.read() as tx:
        assert tx.accounts.get("ab" * 16) == Account("ab" * 16, NOW, "k", b"w", 0, 0, "0" * 64, None)


def test_an_account_id_is_taken_once(db: Database) -> None:
    person = create_account(db)
    with pytest.raises(Conflict) as caught, db.write() as tx:
        tx.accounts.create(person.account_id, created_at=NOW, key_id="k", wrapped_key=b"w")
    assert caught.value.code == "account_exists"


def test_what_is_not_there_is_not_found(db: Database) -> None:
    with db.write() as tx:
        for call in (
            lambda: tx.accounts.get("none"),
            lambda: tx.accounts.set_profile("none", b"x"),
            lambda: tx.accounts.lock("none"),
            lambda: tx.memories.highest_number("none"),
        ):
            with pytest.raises(NotFound):
                call()


def test_the_head_moves_only_from_where_it_is(db: Database) -> None:
    person = create_account(db)
    with db.write() as tx:
        old = tx.accounts.lock(person.account_id)
        assert old == Head(0, 0, "0" * 64)
        tx.accounts.advance(person.account_id, old=old, new=Head(0, 1, "a" * 64))
    for stale in (old, Head(0, 1, "b" * 64), Head(0, 0, "a" * 64)):
        with pytest.raises(Conflict) as caught, db.write() as tx:
            tx.accounts.advance(person.account_id, old=stale, new=Head(0, 2, "c" * 64))
        assert caught.value.code == "ledger_moved"
    with db.read() as tx:
        account = tx.accounts.get(person.account_id)
        assert (account.ledger_seq, account.ledger_hash) == (1, "a" * 64)


def test_totals_count_accounts_and_memories(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    save(db, one, "a", "b")
    save(db, two, "c")
    with db.read() as tx:
        assert tx.accounts.totals() == (2, 3)


def test_rotation_rewraps_account_keys_and_touches_nothing_else(db: Database) -> None:
    people = [create_account(db) for _ in range(5)]
    rows = [save(db, person, "said before")[0] for person in people]
    with db.read() as tx:
        before = [tx.memories.get(person.account_id, 1) for person in people]
    ring = MasterKeyring([bytes(range(32)), b"n" * 32])
    seen = []
    while True:
        with db.write() as tx:
            batch = tx.accounts.not_wrapped_by(ring.newest_id, limit=2)
            for account in batch:
                key = ring.unwrap_account_key(account.account_id, account.key_id, account.wrapped_key)
                key_id, wrapped = ring.wrap_account_key(account.account_id, key)
                assert tx.accounts.rewrap(
                    account.account_id, old_key_id=account.key_id, key_id=key_id, wrapped_key=wrapped
                )
        if not batch:
            break
        seen += [account.account_id for account in batch]
    assert seen == sorted(person.account_id for person in people)
    newest_alone = MasterKeyring([b"n" * 32])
    with db.read() as tx:
        assert [tx.memories.get(person.account_id, 1) for person in people] == before
        for person, row in zip(people, rows, strict=True):
            account = tx.accounts.get(person.account_id)
            assert (
                newest_alone.unwrap_account_key(*account[:1], account.key_id, account.wrapped_key)
                == person.key
            )
            assert tx.memories.get(person.account_id, 1).wrapped_seed == row.wrapped_seed


def test_a_key_is_rewrapped_only_from_the_master_key_it_is_under(db: Database) -> None:
    person = create_account(db)
    with db.write() as tx:
        assert not tx.accounts.rewrap(person.account_id, old_key_id="other", key_id="x", wrapped_key=b"x")
    with db.read() as tx:
        assert tx.accounts.get(person.account_id).key_id == RING.newest_id


def _create_key(
    db: Database, account_id: str, key_id: str = "k1", key_hash: str = HASH, now: str = NOW
) -> None:
    with db.write() as tx:
        tx.keys.create(
            key_id, account_id=account_id, key_hash=key_hash, scope="owner", label_blob=b"l", created_at=now
        )


def test_a_key_is_found_by_its_hash_alone(db: Database) -> None:
    person = create_account(db)
    _create_key(db, person.account_id)
    with db.read() as tx:
        found = tx.keys.by_hash(HASH)
        assert found is not None
        assert (found.account_id, found.scope, found.label_blob) == (person.account_id, "owner", b"l")
        for other in (SECRET, HASH.upper(), HASH[:-1], "", "%"):
            assert tx.keys.by_hash(other) is None


def test_key_ids_and_hashes_are_taken_once(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    _create_key(db, person.account_id)
    for key_id, key_hash in (("k1", "b" * 64), ("k2", HASH)):
        with pytest.raises(Conflict) as caught:
            _create_key(db, other.account_id, key_id, key_hash)
        assert caught.value.code == "key_exists"


def test_keys_are_listed_by_account_oldest_first(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    _create_key(db, person.account_id, "k2", "2" * 64, at(2))
    _create_key(db, person.account_id, "k1", "1" * 64, at(1))
    _create_key(db, other.account_id, "k3", "3" * 64, at(0))
    with db.read() as tx:
        assert [key.key_id for key in tx.keys.list(person.account_id)] == ["k1", "k2"]


def test_a_revoked_key_opens_nothing_and_stays_in_the_list(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    _create_key(db, person.account_id)
    with pytest.raises(NotFound), db.write() as tx:
        tx.keys.revoke(other.account_id, "k1", now=NOW)
    with db.write() as tx:
        tx.keys.revoke(person.account_id, "k1", now=at(5))
    with db.read() as tx:
        assert tx.keys.by_hash(HASH) is None
        assert [key.revoked_at for key in tx.keys.list(person.account_id)] == [at(5)]
    with pytest.raises(NotFound), db.write() as tx:
        tx.keys.revoke(person.account_id, "k1", now=at(6))
