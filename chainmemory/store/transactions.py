"""Signed transactions, stored before they are sent (design.md, rule 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson
from sqlalchemy import bindparam, func, insert, or_, select, update

from chainmemory.store.leases import Lease, Leases
from chainmemory.store.sql import Session, Statement
from chainmemory.store.tables import chain_transactions

SIGNED, SENT, MINED, CONFIRMED = "signed", "sent", "mined", "confirmed"
FAILED, REPLACED, DROPPED = "failed", "replaced", "dropped"
OPEN = (SIGNED, SENT, MINED)


class SignedTransaction(NamedTuple):
    """One transaction as it was signed: `raw` is sent again byte for byte after a crash; fees are wei."""

    tx_hash: str
    chain_id: int
    signer: str
    nonce: int
    raw: bytes
    purpose: str
    outbox_ids: tuple[int, ...]
    gas_limit: int
    max_fee: int
    priority_fee: int | None
    created_at: str


class TransactionRow(NamedTuple):
    """A stored transaction and what became of it: signed → sent → mined → confirmed, or failed, replaced,
    dropped.
    """

    tx_hash: str
    chain_id: int
    signer: str
    nonce: int
    raw: bytes
    purpose: str
    outbox_ids: tuple[int, ...]
    gas_limit: int
    max_fee: int
    priority_fee: int | None
    created_at: str
    status: str
    block_number: int | None
    block_hash: str | None
    gas_used: int | None
    updated_at: str


_T = chain_transactions.c
_COLUMNS = [_T[name] for name in TransactionRow._fields]
_INSERT_FIELDS = (*SignedTransaction._fields, "status", "updated_at")
_INSERT = Statement(
    insert(chain_transactions).values({name: bindparam(name) for name in _INSERT_FIELDS}), *_INSERT_FIELDS
)
_MARK = Statement(
    update(chain_transactions)
    .where(_T.tx_hash == bindparam("tx"))
    .values(
        status=bindparam("to"),
        block_number=bindparam("height"),
        block_hash=bindparam("block"),
        gas_used=bindparam("gas"),
        updated_at=bindparam("now"),
    ),
    "to",
    "height",
    "block",
    "gas",
    "now",
    "tx",
)
_GET = Statement(select(*_COLUMNS).where(_T.tx_hash == bindparam("tx")), "tx")
_OPEN = Statement(
    select(*_COLUMNS)
    .where(
        _T.chain_id == bindparam("chain"),
        _T.signer == bindparam("who"),
        or_(*(_T.status == status for status in OPEN)),
    )
    .order_by(_T.nonce, _T.created_at),
    "chain",
    "who",
)
_HIGHEST_NONCE = Statement(
    select(func.max(_T.nonce)).where(
        _T.chain_id == bindparam("chain"), _T.signer == bindparam("who"), _T.status != DROPPED
    ),
    "chain",
    "who",
)


class Transactions:
    """`tx.transactions`."""

    def __init__(self, session: Session, leases: Leases) -> None:
        self._session = session
        self._leases = leases

    def add(self, lease: Lease, transaction: SignedTransaction) -> None:
        """Store a signed transaction (`signed`) before it is sent; raises Conflict if its hash is known."""
        self._leases.guard(lease)
        row = transaction._replace(
            outbox_ids=orjson.dumps(transaction.outbox_ids).decode(),  # type: ignore[arg-type]
            max_fee=str(transaction.max_fee),  # type: ignore[arg-type]
            priority_fee=None if transaction.priority_fee is None else str(transaction.priority_fee),  # type: ignore[arg-type]
        )
        self._session.run(_INSERT, (*row, SIGNED, transaction.created_at))

    def mark(
        self,
        lease: Lease,
        tx_hash: str,
        status: str,
        *,
        now: str,
        block_number: int | None = None,
        block_hash: str | None = None,
        gas_used: int | None = None,
    ) -> None:
        """Note what became of a transaction; the block's fields are set as given, None too."""
        self._leases.guard(lease)
        self._session.run(_MARK, (status, block_number, block_hash, gas_used, now, tx_hash))

    def get(self, tx_hash: str) -> TransactionRow | None:
        """Return a stored transaction, or None."""
        row = self._session.one(_GET, (tx_hash,))
        return None if row is None else _transaction(row)

    def open(self, chain_id: int, signer: str) -> list[TransactionRow]:
        """Return a signer's transactions that are signed, sent or mined but not confirmed, by nonce,
        oldest first.
        """
        return [_transaction(row) for row in self._session.all(_OPEN, (chain_id, signer))]

    def of_nonce(self, chain_id: int, signer: str, nonce: int) -> list[TransactionRow]:
        """Return every transaction signed for this nonce (replacements share one), oldest first."""
        query = (
            select(*_COLUMNS)
            .where(_T.chain_id == chain_id, _T.signer == signer, _T.nonce == nonce)
            .order_by(_T.created_at)
        )
        return [_transaction(row) for row in self._session.query(query)]

    def highest_nonce(self, chain_id: int, signer: str) -> int | None:
        """Return the highest nonce signed for and not dropped, or None."""
        highest = self._session.all(_HIGHEST_NONCE, (chain_id, signer))[0][0]
        return None if highest is None else int(highest)

    def recent(self, *, limit: int = 50) -> list[TransactionRow]:
        """Return the newest stored transactions."""
        query = select(*_COLUMNS).order_by(_T.created_at.desc(), _T.nonce.desc()).limit(limit)
        return [_transaction(row) for row in self._session.query(query)]


def read_transactions(rows: Iterable[Sequence[object]]) -> list[TransactionRow]:
    """Return stored transactions from rows with the columns of TransactionRow."""
    return [_transaction(row) for row in rows]


def _transaction(row: Sequence[object]) -> TransactionRow:
    found = TransactionRow(*row)  # type: ignore[arg-type]
    return found._replace(
        outbox_ids=tuple(orjson.loads(found.outbox_ids)),  # type: ignore[arg-type]
        max_fee=int(found.max_fee),
        priority_fee=None if found.priority_fee is None else int(found.priority_fee),
    )
