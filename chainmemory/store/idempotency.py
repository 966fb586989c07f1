"""Stored answers: the same Idempotency-Key gets the same answer for 24 hours (api.md, Conventions)."""

from __future__ import annotations

import hmac
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select, update

from chainmemory.errors import Conflict
from chainmemory.store.sql import Session, Statement, insert_or_ignore
from chainmemory.store.tables import idempotency


class StoredAnswer(NamedTuple):
    """An answer given before: its HTTP status and its encrypted body."""

    status: int
    answer_blob: bytes


_T = idempotency.c
_THIS = (_T.account_id == bindparam("of"), _T.route == bindparam("on"), _T.key_hash == bindparam("key"))

_INSERT = insert_or_ignore(
    idempotency,
    "account_id",
    "route",
    "key_hash",
    "body_hash",
    "created_at",
    first_number=None,
    last_number=None,
    status=None,
    answer_blob=None,
)
_RENEW = Statement(
    update(idempotency)
    .where(*_THIS, _T.created_at < bindparam("expired"))
    .values(
        body_hash=bindparam("body"),
        created_at=bindparam("now"),
        first_number=None,
        last_number=None,
        status=None,
        answer_blob=None,
    ),
    "body",
    "now",
    "of",
    "on",
    "key",
    "expired",
)
_GET = Statement(select(_T.body_hash, _T.status, _T.answer_blob).where(*_THIS), "of", "on", "key")
_STORE = Statement(
    update(idempotency)
    .where(*_THIS)
    .values(
        status=bindparam("code"),
        answer_blob=bindparam("answer"),
        first_number=bindparam("first"),
        last_number=bindparam("last"),
    ),
    "code",
    "answer",
    "first",
    "last",
    "of",
    "on",
    "key",
)
_PURGE = Statement(delete(idempotency).where(_T.created_at < bindparam("expired")), "expired")
_FORGET = Statement(
    delete(idempotency).where(
        _T.account_id == bindparam("of"),
        _T.first_number <= bindparam("number"),
        _T.last_number >= bindparam("number"),
    ),
    "of",
    "number",
)


class Idempotency:
    """`tx.idempotency`: claim first, do the work, then store the answer, all in the transaction of the
    write.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim(
        self, account_id: str, route: str, *, key_hash: str, body_hash: str, now: str, expired: str
    ) -> StoredAnswer | None:
        """Claim the key for this transaction; None means: do the work, then call `store`.

        Returns the stored answer if the same key and body were answered at or after `expired` (time; 24 h
        before `now`). Raises Conflict (`idempotency_conflict`) if the key was used with another body. Of two
        transactions with one key the second waits for the first. Both hashes are keyed by the account
        (vault), never plain.
        """
        place = (account_id, route, key_hash)
        if self._session.run(_INSERT, (*place, body_hash, now)):
            return None
        if self._session.run(_RENEW, (body_hash, now, *place, expired)):
            return None
        row = self._session.one(_GET, place)
        if row is None or not hmac.compare_digest(str(row[0]).encode(), body_hash.encode()):
            raise Conflict(
                "This Idempotency-Key was used with another body in the last 24 hours; use a new key.",
                code="idempotency_conflict",
            )
        if row[1] is None:
            raise RuntimeError("a claimed key was committed without an answer")
        return StoredAnswer(row[1], row[2])

    def store(
        self,
        account_id: str,
        route: str,
        *,
        key_hash: str,
        status: int,
        answer_blob: bytes,
        numbers: tuple[int, int] | None = None,
    ) -> None:
        """Keep the answer of a key claimed in this transaction.

        `numbers` is the first and last memory number the answer tells about, for `forget_memory`.
        """
        first, last = numbers or (None, None)
        place = (account_id, route, key_hash)
        if not self._session.run(_STORE, (status, answer_blob, first, last, *place)):
            raise RuntimeError("an answer is stored only for a key claimed before")

    def purge(self, *, expired: str) -> int:
        """Destroy answers older than `expired` (time) and return how many."""
        return self._session.run(_PURGE, (expired,))

    def forget_memory(self, account_id: str, number: int) -> int:
        """Destroy the stored answers that tell about this memory and return how many (protocol §4)."""
        return self._session.run(_FORGET, (account_id, number))
