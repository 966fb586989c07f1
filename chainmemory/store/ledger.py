"""Ledger entries: each account's append-only hash chain (protocol §5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, insert, select

from chainmemory.store.accounts import Accounts, Head
from chainmemory.store.sealed import SealedRecords
from chainmemory.store.sql import Session, Statement
from chainmemory.store.tables import ledger_entries


class LedgerRow(NamedTuple):
    """One entry: `entry` is its canonical JSON with `hash` in it, as `ledger.jsonl` has it."""

    account_id: str
    seq: int
    hash: str
    entry: str


_COLUMNS = [ledger_entries.c[name] for name in LedgerRow._fields]
_INSERT = Statement(
    insert(ledger_entries).values({name: bindparam(name) for name in LedgerRow._fields}), *LedgerRow._fields
)
_PAGE = Statement(
    select(*_COLUMNS)
    .where(ledger_entries.c.account_id == bindparam("of"), ledger_entries.c.seq >= bindparam("first"))
    .order_by(ledger_entries.c.seq)
    .limit(bindparam("limit")),
    "of",
    "first",
    "limit",
)


class Ledger:
    """`tx.ledger`."""

    def __init__(self, session: Session, accounts: Accounts) -> None:
        self._session = session
        self._accounts = accounts
        self.records = SealedRecords(session)
        """What the ledger's check reads."""

    def append(self, account_id: str, build: Callable[[Head], Sequence[LedgerRow]]) -> Sequence[LedgerRow]:
        """Append what `build` makes of the current head, and move the head; return the rows.

        The account is locked from before `build` is called until the transaction ends. Raises NotFound, and
        Conflict (`ledger_moved`) where the head moved all the same.
        """
        head = self._accounts.lock(account_id)
        rows = build(head)
        self.write(account_id, head, rows)
        return rows

    def write(self, account_id: str, head: Head, rows: Sequence[LedgerRow], *, memories: int = 0) -> None:
        """Insert the entries that follow `head`, and move the head to the last and past as many `memories`.

        For callers that hold the account locked by `tx.accounts.lock`. Raises RuntimeError unless seq goes on
        without a gap.
        """
        if not rows:
            return
        for offset, row in enumerate(rows, start=1):
            if row.seq != head.ledger_seq + offset or row.account_id != account_id:
                raise RuntimeError(f"entry {row.seq} can't follow {head.ledger_seq} at offset {offset}")
        self._session.run_many(_INSERT, rows)
        new = Head(head.memory_count + memories, rows[-1].seq, rows[-1].hash)
        self._accounts.advance(account_id, old=head, new=new)

    def entries(self, account_id: str, *, first: int = 1, limit: int = 200) -> list[LedgerRow]:
        """Return up to `limit` entries from seq `first` on, ascending."""
        return [LedgerRow(*row) for row in self._session.all(_PAGE, (account_id, first, limit))]

    def stream(self, account_id: str, *, first: int = 1, chunk: int = 2000) -> Iterator[LedgerRow]:
        """Yield every entry from seq `first` on, ascending, holding `chunk` of them in memory."""
        while rows := self.entries(account_id, first=first, limit=chunk):
            yield from rows
            first = rows[-1].seq + 1
