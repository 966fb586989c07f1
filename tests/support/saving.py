"""Accounts, memories and states written through the vault and the store, as the engine does it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import build_header, content_hash, event_hash
from chainmemory.protocol.hashing import hex32
from chainmemory.protocol.identity import project_id
from chainmemory.protocol.ledger_entry import ledger_form, make_entry
from chainmemory.store.accounts import Head
from chainmemory.store.database import Database
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import MemoryRow
from chainmemory.store.projects import NewProject, Project
from chainmemory.store.states import StateRow
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault
from chainmemory.vault.master import MasterKeyring
from chainmemory.vault.places import content_place, state_ops_place

NOW = "2026-09-13T22:02:35.000000Z"
RING = MasterKeyring([bytes(range(32))])


def at(second: int) -> str:
    """Return a time `second` (0–86,399) seconds into a day."""
    return f"2026-09-13T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000000Z"


@dataclass
class Person:
    """An account with its vault."""

    account_id: str = field(default_factory=lambda: secrets.token_hex(16))
    key: bytes = field(default_factory=AccountVault.new_key)

    @property
    def vault(self) -> AccountVault:
        return AccountVault(self.account_id, self.key)


def create_account(db: Database) -> Person:
    """Create an account with a key wrapped by RING."""
    person = Person()
    key_id, wrapped = RING.wrap_account_key(person.account_id, person.key)
    with db.write() as tx:
        tx.accounts.create(person.account_id, created_at=NOW, key_id=key_id, wrapped_key=wrapped)
    return person


def build_pair(
    person: Person,
    vault: AccountVault,
    head: Head,
    text: str,
    *,
    offset: int = 1,
    prev: str | None = None,
    project: str | None = None,
    tags: Sequence[str] = (),
    category: str = "CUSTOM",
    now: str = NOW,
) -> tuple[MemoryRow, LedgerRow]:
    """Make one memory and its ledger entry, `offset` after `head`."""
    number = head.memory_count + offset
    plaintext = text.encode()
    header = build_header(
        account_id=person.account_id,
        number=number,
        project=project,
        kind="memory.note",
        category=category,
        importance=5,
        source="api",
        subject=None,
        provenance=None,
        occurred_at=now,
        recorded_at=now,
        content_type="text/plain",
        content_length=len(plaintext),
        content_hash=content_hash(plaintext),
        sealed_by="server",
        salt=hex32(secrets.token_bytes(32)),
    )
    sealed = vault.seal(plaintext, content_place(person.account_id, number))
    text_of_header = canonical(header)
    row = MemoryRow(
        account_id=person.account_id,
        number=number,
        event_hash=event_hash(header),
        project=project,
        category=category,
        importance=5,
        source="api",
        kind="memory.note",
        occurred_at=now,
        recorded_at=now,
        header=text_of_header.decode(),
        content_blob=sealed.blob,
        wrapped_seed=sealed.wrapped_seed,
        tags_blob=vault.seal_small(canonical(list(tags)), "tags", number=number) if tags else None,
        tag_tokens=vault.tag_tokens(tags) if tags else None,
        search_tokens=vault.search_tokens(text),
    )
    entry = make_entry(
        head.ledger_hash if prev is None else prev,
        head.ledger_seq + offset,
        now,
        "save",
        memory_id=str(number),
        content_sha256=hashlib.sha256(text_of_header).hexdigest(),
        blob_sha256=hashlib.sha256(sealed.blob).hexdigest(),
    )
    return row, LedgerRow(person.account_id, entry["seq"], entry["hash"], ledger_form(entry).decode())


def append(tx: Tx, person: Person, texts: Sequence[str], **fields: object) -> list[MemoryRow]:
    """Save the texts in an open transaction; `fields` as in `build_pair`."""
    vault = person.vault

    def build(head: Head) -> list[tuple[MemoryRow, LedgerRow]]:
        pairs: list[tuple[MemoryRow, LedgerRow]] = []
        prev = head.ledger_hash
        for offset, text in enumerate(texts, start=1):
            pair = build_pair(person, vault, head, text, offset=offset, prev=prev, **fields)  # type: ignore[arg-type]
            prev = pair[1].hash
            pairs.append(pair)
        return pairs

    return [row for row, _ in tx.memories.append_batch(person.account_id, len(texts), build)]


def save(db: Database, person: Person, *texts: str, **fields: object) -> list[MemoryRow]:
    """Save the texts in one transaction of their own."""
    return db.transact(lambda tx: append(tx, person, texts, **fields))


def new_project(person: Person, slug: str) -> NewProject:
    """Make a project's row with a sealed random secret."""
    hashed = project_id(person.account_id, slug)
    secret = person.vault.seal_small(secrets.token_bytes(32), "project_secret", project_id=hashed)
    return NewProject(hashed, person.account_id, slug, secret, None, NOW)


def create_project(db: Database, person: Person, slug: str) -> Project:
    """Create a project and return it."""
    with db.write() as tx:
        return tx.projects.create(new_project(person, slug))[0]


def state_row(person: Person, project: Project, version: int, *, watermark: int = 0) -> StateRow:
    """Make a state version whose hash is made up but its own, with sealed ops."""
    sealed = person.vault.seal(b"[]", state_ops_place(person.account_id, project.project_id, version))
    return StateRow(
        project_id=project.project_id,
        version=version,
        account_id=person.account_id,
        state_hash=made_up_hash(project.project_id, version),
        previous_state_hash=made_up_hash(project.project_id, version - 1),
        consolidated_until_event=watermark,
        generated_at=at(version),
        generated_by_blob=None,
        ops_count=1,
        ops_seed=sealed.wrapped_seed,
        ops_blob=sealed.blob,
    )


def append_state(
    db: Database, person: Person, project: Project, version: int, *, cited: Sequence[tuple[str, int]] = ()
) -> StateRow:
    """Append a state version with its ledger entry in one transaction."""
    row = state_row(person, project, version)

    def entry(head: Head) -> list[LedgerRow]:
        made = make_entry(
            head.ledger_hash,
            head.ledger_seq + 1,
            NOW,
            "state",
            project_id=project.project_id,
            version=version,
            state_hash=row.state_hash,
        )
        return [LedgerRow(person.account_id, made["seq"], made["hash"], ledger_form(made).decode())]

    with db.write() as tx:
        tx.states.append(row, cited=cited)
        tx.ledger.append(person.account_id, entry)
    return row


def made_up_hash(project: str, version: int) -> str:
    """Return a hash no other project or version has."""
    return hex32(hashlib.sha256(f"{project}@{version}".encode()).digest())


def check_ledger(tx: Tx, account_id: str) -> int:
    """Check every entry's seq, prev and hash, and the account's head, with nothing but json and hashlib.

    Returns how many entries there are.
    """
    prev, count = "0" * 64, 0
    for count, row in enumerate(tx.ledger.stream(account_id, chunk=100), start=1):
        entry = json.loads(row.entry)
        stated = entry.pop("hash")
        form = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert hashlib.sha256(form).hexdigest() == stated == row.hash
        assert (entry["seq"], row.seq, entry["prev"]) == (count, count, prev)
        prev = stated
    account = tx.accounts.get(account_id)
    assert (account.ledger_seq, account.ledger_hash) == (count, prev)
    return count
