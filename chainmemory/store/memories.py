"""Memories: the testimony as it was sealed, and the filing around it (protocol §3)."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, bindparam, func, insert, or_, select, text, update

from chainmemory.errors import NotFound
from chainmemory.store.accounts import Accounts, Head
from chainmemory.store.ledger import Ledger, LedgerRow
from chainmemory.store.outbox_rows import ENQUEUE, MEMORY, fresh
from chainmemory.store.sql import Session, Statement, byte_position
from chainmemory.store.tables import OPEN, WITNESSED, memories, outbox

TOKEN = 8  # bytes of one keyed token in tag_tokens and search_tokens
_CHUNK = 5_000  # numbers per IN list: below SQLite's 32,766 and PostgreSQL's 65,535 parameters


class MemoryRow(NamedTuple):
    """One memory as it is written (the fields stand in the table's order, so that rows go in as they are).

    `header` is the canonical JSON of the header; `project`, `category`, `importance`, `source`, `kind` and
    the times repeat it for filters (category, archived and superseded_by are filing and may change).
    `tag_tokens` and `search_tokens` are the vault's keyed tokens, `tags_blob` and `content_blob` encrypted,
    `wrapped_seed` None for a client-sealed blob.
    """

    account_id: str
    number: int
    event_hash: str
    project: str | None
    category: str
    importance: int
    source: str
    kind: str
    occurred_at: str
    recorded_at: str
    header: str
    archived: bool = False
    superseded_by: int | None = None
    hidden: bool = False
    forgotten: bool = False
    tag_tokens: bytes | None = None
    search_tokens: bytes | None = None
    tags_blob: bytes | None = None
    wrapped_seed: bytes | None = None
    content_blob: bytes | None = None


class Memory(NamedTuple):
    """One memory as it is read; `sync` is the status of its outbox row (pending, …, anchored), None
    without one.
    """

    account_id: str
    number: int
    event_hash: str
    project: str | None
    category: str
    importance: int
    source: str
    kind: str
    occurred_at: str
    recorded_at: str
    archived: bool
    superseded_by: int | None
    hidden: bool
    forgotten: bool
    header: str
    tags_blob: bytes | None
    wrapped_seed: bytes | None
    content_blob: bytes | None
    sync: str | None


class Payload(NamedTuple):
    """What the worker may put on chain for one memory (protocol §8)."""

    number: int
    event_hash: str
    header: str
    content_blob: bytes | None
    forgotten: bool


class MemoryCounts(NamedTuple):
    """How many memories an account has, by what became of them."""

    total: int
    archived: int
    hidden: int
    forgotten: int


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which memories of an account are meant; None leaves a question open.

    `tag_token` is `AccountVault.tag_token(tag)`; `since` (inclusive) and `until` (exclusive) are times
    compared with `occurred_at`. Hidden (disabled) and forgotten memories are left out unless asked for.
    """

    project: str | None = None
    tag_token: bytes | None = None
    category: str | None = None
    archived: bool | None = None
    since: str | None = None
    until: str | None = None
    with_hidden: bool = False
    with_forgotten: bool = False


_M = memories.c
_COLUMNS = [*(_M[name] for name in Memory._fields[:-1]), outbox.c.status]
_WITH_SYNC = memories.outerjoin(
    outbox,
    and_(outbox.c.kind == MEMORY, outbox.c.subject == _M.account_id, outbox.c.position == _M.number),
)
_THIS = (_M.account_id == bindparam("of"), _M.number == bindparam("nr"))
_CITABLE = (_M.hidden.is_(False), _M.forgotten.is_(False))

_INSERT = Statement(
    insert(memories).values({name: bindparam(name) for name in MemoryRow._fields}), *MemoryRow._fields
)
_GET = Statement(select(*_COLUMNS).select_from(_WITH_SYNC).where(*_THIS), "of", "nr")
_FROM = Statement(
    select(*_COLUMNS)
    .select_from(_WITH_SYNC)
    .where(_M.account_id == bindparam("of"), _M.number >= bindparam("first"))
    .order_by(_M.number)
    .limit(bindparam("limit")),
    "of",
    "first",
    "limit",
)
# Witnessed memories have an index by hash; the others are those still on their way, which are few.
_ANCHORED_BY_HASH = Statement(
    select(outbox.c.account_id, outbox.c.position).where(
        outbox.c.hash == bindparam("hash"), outbox.c.kind == MEMORY, text(WITNESSED)
    ),
    "hash",
)
_OPEN_BY_HASH = Statement(
    select(outbox.c.account_id, outbox.c.position).where(
        outbox.c.kind == MEMORY, text(OPEN), outbox.c.hash == bindparam("hash")
    ),
    "hash",
)
_TAGS = Statement(
    update(memories).where(*_THIS).values(tags_blob=bindparam("blob"), tag_tokens=bindparam("tokens")),
    "blob",
    "tokens",
    "of",
    "nr",
)
_ARCHIVE = Statement(update(memories).where(*_THIS).values(archived=bindparam("flag")), "flag", "of", "nr")
_HIDE = Statement(update(memories).where(*_THIS).values(hidden=bindparam("flag")), "flag", "of", "nr")
_COUNTS = Statement(
    select(
        func.count(),
        func.count().filter(_M.archived.is_(True)),
        func.count().filter(_M.hidden.is_(True)),
        func.count().filter(_M.forgotten.is_(True)),
    ).where(_M.account_id == bindparam("of")),
    "of",
)


class Memories:
    """`tx.memories`."""

    def __init__(self, session: Session, accounts: Accounts, ledger: Ledger) -> None:
        self._session = session
        self._accounts = accounts
        self._ledger = ledger

    def append_batch(
        self, account_id: str, count: int, build: Callable[[Head], Sequence[tuple[MemoryRow, LedgerRow]]]
    ) -> Sequence[tuple[MemoryRow, LedgerRow]]:
        """Save `count` memories with their ledger entries and outbox rows; return what `build` made.

        `build(head)` gives one (memory, entry) for each of the numbers `head.memory_count + 1 …` and seqs
        `head.ledger_seq + 1 …`, the first entry's `prev` being `head.ledger_hash`. The account is locked from
        before the call until the transaction ends, so numbers have no gaps and the chain no forks.

        Raises NotFound (no such account), Conflict (the ledger moved),
        RuntimeError (`build` broke the numbering).
        """
        head = self._accounts.lock(account_id)
        built = build(head)
        if len(built) != count:
            raise RuntimeError(f"{count} memories were announced, {len(built)} built")
        rows: list[MemoryRow] = []
        queue: list[tuple[Any, ...]] = []
        for number, (memory, _) in enumerate(built, start=head.memory_count + 1):
            if memory.number != number or memory.account_id != account_id:
                raise RuntimeError(f"memory {memory.number} can't be number {number} of {account_id}")
            if "\0" in memory.source or "\0" in memory.kind:
                memory = memory._replace(source=_storable(memory.source), kind=_storable(memory.kind))
            rows.append(memory)
            queue.append(fresh(MEMORY, account_id, number, account_id, memory.event_hash, memory.recorded_at))
        self._session.run_many(_INSERT, rows)
        self._session.run_many(ENQUEUE, queue)
        self._ledger.write(account_id, head, [entry for _, entry in built], memories=count)
        return built

    def get(self, account_id: str, number: int) -> Memory:
        """Return one memory, hidden and forgotten ones too, or raise NotFound."""
        row = self._session.one(_GET, (account_id, number))
        if row is None:
            raise _not_found(number)
        return _memory(row)

    def by_event_hash(self, event_hash: str) -> Memory | None:
        """Return the memory with this event hash (hex32), of whatever account, or None."""
        place = self._session.one(_ANCHORED_BY_HASH, (event_hash,)) or self._session.one(
            _OPEN_BY_HASH, (event_hash,)
        )
        return None if place is None else self.get(*place)

    def list(
        self, account_id: str, where: MemoryFilter | None = None, *, limit: int = 50, offset: int = 0
    ) -> tuple[list[Memory], int]:
        """Return a page of the memories meant by `where`, newest (highest number) first, and how many
        there are.
        """
        conditions = _conditions(account_id, where or MemoryFilter())
        total = next(
            iter(self._session.query(select(func.count()).select_from(memories).where(*conditions)))
        )[0]
        page = (
            select(*_COLUMNS)
            .select_from(_WITH_SYNC)
            .where(*conditions)
            .order_by(_M.number.desc())
            .limit(limit)
            .offset(offset)
        )
        return [_memory(row) for row in self._session.query(page)], int(total)

    def by_numbers(self, account_id: str, numbers: Iterable[int]) -> dict[int, Memory]:
        """Return those of the memories that exist, by number."""
        found: dict[int, Memory] = {}
        for part in _chunks(numbers):
            page = (
                select(*_COLUMNS)
                .select_from(_WITH_SYNC)
                .where(_M.account_id == account_id, _M.number.in_(part))
            )
            found.update((row[1], _memory(row)) for row in self._session.query(page))
        return found

    def stream(self, account_id: str, *, first: int = 1, chunk: int = 500) -> Iterator[Memory]:
        """Yield every memory from `first` on in order of number, holding `chunk` of them in memory."""
        while rows := self._session.all(_FROM, (account_id, first, chunk)):
            yield from map(_memory, rows)
            first = rows[-1][1] + 1

    def candidates(
        self, account_id: str, tokens: Sequence[bytes], where: MemoryFilter | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield (number, search_tokens) of the memories that may hold one of the keyed `tokens` (8 bytes
        each).

        A prefilter: the caller checks tokens at 8-byte alignment and ranks (vault.search).
        """
        if not tokens:
            return
        hits = or_(*(byte_position(_M.search_tokens, token) > 0 for token in tokens))
        query = select(_M.number, _M.search_tokens).where(
            *_conditions(account_id, where or MemoryFilter()), hits
        )
        for row in self._session.query(query):
            yield row[0], row[1]

    def event_hashes(self, account_id: str, numbers: Iterable[int]) -> dict[int, str]:
        """Return the event hash (hex32) of those numbers that may be cited: existing, not hidden, not
        forgotten.
        """
        found: dict[int, str] = {}
        for part in _chunks(numbers):
            query = select(_M.number, _M.event_hash).where(
                _M.account_id == account_id, _M.number.in_(part), *_CITABLE
            )
            found.update((row[0], row[1]) for row in self._session.query(query))
        return found

    def highest_number(self, account_id: str) -> int:
        """Return the account's highest memory number, 0 without any; raises NotFound."""
        return self._accounts.get(account_id).memory_count

    def counts(self, account_id: str) -> MemoryCounts:
        """Return how many memories the account has, and how many are archived, hidden and forgotten."""
        return MemoryCounts(*(int(value) for value in self._session.all(_COUNTS, (account_id,))[0]))

    def payloads(self, account_id: str, numbers: Iterable[int]) -> Sequence[Payload]:
        """Return what may go on chain for these memories, by number."""
        found: builtins.list[Payload] = []
        for part in _chunks(numbers):
            query = select(*(_M[name] for name in Payload._fields)).where(
                _M.account_id == account_id, _M.number.in_(part)
            )
            found.extend(
                Payload(row[0], row[1], row[2], row[3], bool(row[4])) for row in self._session.query(query)
            )
        return sorted(found)

    def set_tags(
        self, account_id: str, number: int, *, tags_blob: bytes | None, tag_tokens: bytes | None
    ) -> None:
        """Replace the encrypted tags and their tokens (filing); raises NotFound."""
        self._change(_TAGS, (tags_blob, tag_tokens), account_id, number)

    def set_archived(self, account_id: str, number: int, archived: bool) -> None:
        """Archive a memory or take it back (filing); raises NotFound."""
        self._change(_ARCHIVE, (archived,), account_id, number)

    def set_hidden(self, account_id: str, number: int, hidden: bool) -> None:
        """Hide a memory from lists, search, context and new citations, or show it again; raises NotFound."""
        self._change(_HIDE, (hidden,), account_id, number)

    def set_filing(self, account_id: str, number: int, **changes: str | int | None) -> None:
        """Change the filing's `category` and `superseded_by`, whichever is given; raises NotFound."""
        if not changes or changes.keys() - {"category", "superseded_by"}:
            raise RuntimeError(f"filing is category and superseded_by, not {sorted(changes)}")
        statement = update(memories).where(_M.account_id == account_id, _M.number == number).values(**changes)
        if not self._session.execute(statement):
            raise _not_found(number)

    def _change(self, statement: Statement, values: tuple[Any, ...], account_id: str, number: int) -> None:
        if not self._session.run(statement, (*values, account_id, number)):
            raise _not_found(number)


def _conditions(account_id: str, where: MemoryFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [_M.account_id == account_id]
    if where.project is not None:
        conditions.append(_M.project == where.project)
    if where.category is not None:
        conditions.append(_M.category == where.category)
    if where.archived is not None:
        conditions.append(_M.archived.is_(where.archived))
    if where.since is not None:
        conditions.append(_M.occurred_at >= where.since)
    if where.until is not None:
        conditions.append(_M.occurred_at < where.until)
    if where.tag_token is not None:
        # A token stands at a multiple of its length; a hit across two tokens is another token's bytes.
        position = byte_position(_M.tag_tokens, where.tag_token)
        conditions.append(and_(position > 0, (position - 1) % TOKEN == 0))
    if not where.with_hidden:
        conditions.append(_M.hidden.is_(False))
    if not where.with_forgotten:
        conditions.append(_M.forgotten.is_(False))
    return conditions


def _memory(row: Sequence[Any]) -> Memory:
    memory = Memory(*row)
    if isinstance(memory.archived, bool):
        return memory
    return memory._replace(
        archived=bool(memory.archived), hidden=bool(memory.hidden), forgotten=bool(memory.forgotten)
    )


def _storable(text: str) -> str:
    """PostgreSQL's text can't hold U+0000; the header keeps it."""
    return text.replace("\0", "�")


def _chunks(numbers: Iterable[int]) -> Iterator[list[int]]:
    wanted = sorted(set(numbers))
    for start in range(0, len(wanted), _CHUNK):
        yield wanted[start : start + _CHUNK]


def _not_found(number: int) -> NotFound:
    return NotFound(f"There is no memory {number}.")
