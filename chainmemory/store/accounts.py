"""Accounts: the wrapped account key, and the head (how many memories, how far the ledger is)."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, func, select, update

from chainmemory.errors import Conflict, NotFound
from chainmemory.protocol.ledger_entry import GENESIS_PREV
from chainmemory.store.sql import Session, Statement, insert_or_ignore
from chainmemory.store.tables import accounts


class Account(NamedTuple):
    """One account as stored; `wrapped_key` is the account key under the master key `key_id`."""

    account_id: str
    created_at: str
    key_id: str
    wrapped_key: bytes
    memory_count: int
    ledger_seq: int
    ledger_hash: str
    profile_blob: bytes | None


class Head(NamedTuple):
    """Where an account stands: its highest memory number, and the last ledger entry's seq and hash."""

    memory_count: int
    ledger_seq: int
    ledger_hash: str


_COLUMNS = [accounts.c[name] for name in Account._fields]
_THIS = accounts.c.account_id == bindparam("of")

_INSERT = insert_or_ignore(
    accounts,
    "account_id",
    "created_at",
    "key_id",
    "wrapped_key",
    memory_count=0,
    ledger_seq=0,
    ledger_hash=GENESIS_PREV,
    queued_head=0,
)
_GET = Statement(select(*_COLUMNS).where(_THIS), "of")
# SQLite has no FOR UPDATE and needs none: a transaction that writes has begun immediately.
_LOCK = Statement(
    select(*(accounts.c[name] for name in Head._fields)).where(_THIS).with_for_update(),
    "of",
)
_ADVANCE = Statement(
    update(accounts)
    .where(_THIS, accounts.c.ledger_seq == bindparam("old_seq"), accounts.c.ledger_hash == bindparam("old"))
    .values(memory_count=bindparam("memories"), ledger_seq=bindparam("seq"), ledger_hash=bindparam("hash")),
    "memories",
    "seq",
    "hash",
    "of",
    "old_seq",
    "old",
)
_PROFILE = Statement(update(accounts).where(_THIS).values(profile_blob=bindparam("blob")), "blob", "of")
_REWRAP = Statement(
    update(accounts)
    .where(_THIS, accounts.c.key_id == bindparam("old"))
    .values(key_id=bindparam("new"), wrapped_key=bindparam("wrapped")),
    "new",
    "wrapped",
    "of",
    "old",
)
_NOT_WRAPPED_BY = Statement(
    select(*_COLUMNS)
    .where(accounts.c.key_id != bindparam("key"))
    .order_by(accounts.c.account_id)
    .limit(bindparam("limit")),
    "key",
    "limit",
)
_KEY_IDS = Statement(select(accounts.c.key_id).distinct().order_by(accounts.c.key_id))
_TOTALS = Statement(select(func.count(), func.coalesce(func.sum(accounts.c.memory_count), 0)))


class Accounts:
    """`tx.accounts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, account_id: str, *, created_at: str, key_id: str, wrapped_key: bytes) -> None:
        """Create an account without memories and with an empty ledger.

        Raises Conflict (`account_exists`) if the id is taken.
        """
        if not self._session.run(_INSERT, (account_id, created_at, key_id, wrapped_key)):
            raise Conflict(f"The account {account_id} exists already.", code="account_exists")

    def get(self, account_id: str) -> Account:
        """Return the account, or raise NotFound."""
        row = self._session.one(_GET, (account_id,))
        if row is None:
            raise NotFound("There is no such account.")
        return Account(*row)

    def set_profile(self, account_id: str, profile_blob: bytes | None) -> None:
        """Replace the encrypted profile (agent name, model, …), or raise NotFound."""
        if not self._session.run(_PROFILE, (profile_blob, account_id)):
            raise NotFound("There is no such account.")

    def rewrap(self, account_id: str, *, old_key_id: str, key_id: str, wrapped_key: bytes) -> bool:
        """Put the account key under another master key; False if it was no longer under `old_key_id`."""
        return self._session.run(_REWRAP, (key_id, wrapped_key, account_id, old_key_id)) == 1

    def not_wrapped_by(self, key_id: str, *, limit: int = 500) -> list[Account]:
        """Return up to `limit` accounts whose key is not under the master key `key_id`, by id."""
        return [Account(*row) for row in self._session.all(_NOT_WRAPPED_BY, (key_id, limit))]

    def key_ids(self) -> list[str]:
        """Return the ids of all master keys that some account key is wrapped under."""
        return [str(row[0]) for row in self._session.all(_KEY_IDS)]

    def totals(self) -> tuple[int, int]:
        """Return how many accounts there are, and how many memories all of them ever saved."""
        count, memories = self._session.all(_TOTALS)[0]
        return int(count), int(memories)

    def lock(self, account_id: str) -> Head:
        """Lock the account until the transaction ends, and return its head. Raises NotFound.

        The next memory's number is `memory_count + 1`; who appends moves the head by `advance`, so numbers
        have no gaps.
        """
        row = self._session.one(_LOCK, (account_id,))
        if row is None:
            raise NotFound("There is no such account.")
        return Head(*row)

    def advance(self, account_id: str, *, old: Head, new: Head) -> None:
        """Move the head from `old` to `new`, by compare-and-swap of the ledger's end.

        Raises Conflict (`ledger_moved`) if the ledger doesn't end at `old` any more: someone else appended.
        """
        if not self._session.run(_ADVANCE, (*new, account_id, old.ledger_seq, old.ledger_hash)):
            raise Conflict("The ledger moved under this write; try again.", code="ledger_moved")
