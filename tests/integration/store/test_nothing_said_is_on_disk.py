"""Whatever a user said is in no file of the home: not in the database, nor in its write-ahead log."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

import psycopg
import pytest

from chainmemory.store.database import Database
from chainmemory.vault.master import MasterKeyring
from chainmemory.vault.places import state_doc_place, state_ops_place
from tests.support.databases import fresh_database_url
from tests.support.saving import NOW, Person, append, create_project, save, state_row

CANARIES = {
    name: f"canary-{name}-{secrets.token_hex(8)}"
    for name in (
        "content",
        "tag",
        "label",
        "display",
        "keyword",
        "agent",
        "author",
        "answer",
        "op",
        "doc",
        "long",
    )
}


def _say_everything(db: Database, person: Person) -> None:
    """Store one canary in each place that takes a user's words."""
    said, vault = CANARIES, person.vault
    save(db, person, said["content"], tags=[said["tag"]])
    save(db, person, f"{said['long']} " * 2000)
    project = create_project(db, person, "alpha")
    hashed = project.project_id
    ops = vault.seal(said["op"].encode(), state_ops_place(person.account_id, hashed, 1))
    doc = vault.seal(said["doc"].encode(), state_doc_place(person.account_id, hashed, 1))
    row = state_row(person, project, 1)._replace(
        ops_seed=ops.wrapped_seed,
        ops_blob=ops.blob,
        generated_by_blob=vault.seal_small(said["author"].encode(), "author", project_id=hashed, version=1),
    )
    profile = json.dumps({"name": said["display"], "keywords": [said["keyword"]]}).encode()
    with db.write() as tx:
        tx.projects.set_profile(
            person.account_id, "alpha", vault.seal_small(profile, "project_profile", project_id=hashed)
        )
        tx.accounts.set_profile(person.account_id, vault.seal_small(said["agent"].encode(), "profile"))
        tx.keys.create(
            "k1",
            account_id=person.account_id,
            key_hash="ab" * 32,
            scope="owner",
            label_blob=vault.seal_small(said["label"].encode(), "key_label", key_id="k1"),
            created_at=NOW,
        )
        tx.states.append(row, cited=[("dec_0001", 1)], snapshot=(doc.wrapped_seed, doc.blob))
        place = {
            "route": "POST /v1/memory",
            "key_hash": vault.keyed_hash("once_key", said["answer"].encode()),
        }
        body_hash = vault.keyed_hash("once_body", said["content"].encode())
        tx.idempotency.claim(person.account_id, **place, body_hash=body_hash, now=NOW, expired="")
        tx.idempotency.store(
            person.account_id,
            **place,
            status=201,
            answer_blob=vault.seal_small(said["answer"].encode(), "answer", key=place["key_hash"]),
        )
        append(tx, person, [said["content"]])


def _forms(canary: str) -> list[bytes]:
    """Return the ways a careless program might have written a text."""
    plain = canary.encode()
    return [
        plain,
        plain.upper(),
        canary.encode("utf-16-le"),
        plain.hex().encode(),
        *(base64.b64encode(plain[cut:])[:12] for cut in range(3)),
    ]


def _assert_absent(data: bytes, where: str) -> None:
    for name, canary in CANARIES.items():
        for form in _forms(canary):
            assert form not in data, f"{name} is in {where}"


def _create(db: Database, home: Path) -> tuple[Person, MasterKeyring]:
    ring = MasterKeyring.load(home, {})
    person = Person()
    key_id, wrapped = ring.wrap_account_key(person.account_id, person.key)
    with db.write() as tx:
        tx.accounts.create(person.account_id, created_at=NOW, key_id=key_id, wrapped_key=wrapped)
    return person, ring


def test_no_file_of_the_home_holds_a_word(tmp_path: Path) -> None:
    with Database.open(tmp_path / "store.sqlite") as db:
        person, _ = _create(db, tmp_path)
        _say_everything(db, person)
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert len(files["store.sqlite-wal"]) > 100_000
        for name, data in files.items():
            _assert_absent(data, name)
            assert person.key not in data
            assert person.key.hex().encode() not in data
        db.scrub()
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files.keys() == {"master.key", "store.sqlite", "store.sqlite-begun", "store.sqlite-turn"}
    for name, data in files.items():
        _assert_absent(data, name)


def test_the_search_for_canaries_would_find_one(tmp_path: Path) -> None:
    with Database.open(tmp_path / "store.sqlite") as db:
        person, _ = _create(db, tmp_path)
        with db.write() as tx:
            tx.accounts.set_profile(person.account_id, CANARIES["agent"].encode())
        data = (tmp_path / "store.sqlite-wal").read_bytes()
    with pytest.raises(AssertionError, match="agent is in the log"):
        _assert_absent(data, "the log")


def test_no_row_of_postgresql_holds_a_word(tmp_path: Path) -> None:
    with fresh_database_url("postgresql", tmp_path, migrated=True) as url:
        with Database.open(url) as db:
            person, _ = _create(db, tmp_path)
            _say_everything(db, person)
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
            assert len(tables) > 10
            for (table,) in tables:
                with connection.cursor().copy(f'COPY "{table}" TO STDOUT (FORMAT binary)') as copy:
                    _assert_absent(b"".join(bytes(part) for part in copy), table)


def test_what_was_said_can_be_read_back_with_the_master_key_and_only_with_it(tmp_path: Path) -> None:
    with Database.open(tmp_path / "store.sqlite") as db:
        person, ring = _create(db, tmp_path)
        _say_everything(db, person)
    with Database.open(tmp_path / "store.sqlite") as db, db.read() as tx:
        account = tx.accounts.get(person.account_id)
        key = ring.unwrap_account_key(account.account_id, account.key_id, account.wrapped_key)
        assert key == person.key
        vault = Person(person.account_id, key).vault
        assert vault.open_small(account.profile_blob or b"", "profile") == CANARIES["agent"].encode()
        ops = tx.states.ops(_project_id(tx, person), after=0, last=1)[0]
        place = state_ops_place(person.account_id, _project_id(tx, person), 1)
        assert vault.open(ops.ops_blob, ops.ops_seed, place) == CANARIES["op"].encode()


def _project_id(tx: object, person: Person) -> str:
    project = tx.projects.get(person.account_id, "alpha")  # type: ignore[attr-defined]
    return str(project.project_id)
