"""Memories: saved with their entry and outbox row, found again, filed, and hidden."""

from __future__ import annotations

import json

import pytest

from chainmemory.errors import NotFound
from chainmemory.store.accounts import Head
from chainmemory.store.database import Database
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import MemoryCounts, MemoryFilter, MemoryRow
from chainmemory.store.outbox import Anchored
from chainmemory.store.tx import Tx
from chainmemory.vault.places import content_place
from chainmemory.vault.search import rank
from tests.support.saving import NOW, Person, append, at, build_pair, check_ledger, create_account, save

Pairs = list[tuple[MemoryRow, LedgerRow]]


def _numbers(db: Database, person: Person, **where: object) -> list[int]:
    with db.read() as tx:
        found, total = tx.memories.list(person.account_id, MemoryFilter(**where))  # type: ignore[arg-type]
    assert total == len(found)
    return [memory.number for memory in found]


def test_a_memory_its_entry_and_its_outbox_row_are_one_transaction(db: Database) -> None:
    person = create_account(db)
    rows = save(db, person, "one", "two", "three")
    assert [row.number for row in rows] == [1, 2, 3]
    with db.read() as tx:
        assert check_ledger(tx, person.account_id) == 3
        entry = json.loads(tx.ledger.entries(person.account_id, first=2, limit=1)[0].entry)
        assert (entry["op"], entry["memory_id"], entry["ts"]) == ("save", "2", NOW)
        queued = tx.outbox.statuses("memory", person.account_id, [1, 2, 3])
        assert [queued[number].hash for number in (1, 2, 3)] == [row.event_hash for row in rows]
        assert {row.status for row in queued.values()} == {"pending"}
        memory = tx.memories.get(person.account_id, 2)
    assert memory.sync == "pending"
    for name in MemoryRow._fields:
        if name not in ("tag_tokens", "search_tokens"):
            assert getattr(memory, name) == getattr(rows[1], name), name
    vault = person.vault
    place = content_place(person.account_id, 2)
    assert vault.open(memory.content_blob or b"", memory.wrapped_seed or b"", place) == b"two"


def test_an_exception_leaves_no_memory_entry_or_outbox_row(db: Database) -> None:
    person = create_account(db)
    save(db, person, "one")

    def save_and_fail(tx: Tx) -> None:
        append(tx, person, ["two", "three"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(save_and_fail)
    with db.read() as tx:
        assert check_ledger(tx, person.account_id) == 1
        assert tx.memories.highest_number(person.account_id) == 1
        assert tx.outbox.statuses("memory", person.account_id, range(5)).keys() == {1}
    assert [row.number for row in save(db, person, "again")] == [2]


@pytest.mark.parametrize("count", [49, 50, 51, 130])
def test_a_batch_of_any_size_is_stored_row_for_row(db: Database, count: int) -> None:
    person = create_account(db)
    rows = save(db, person, *(f"text {number}" for number in range(count)))
    with db.read() as tx:
        stored = tx.memories.by_numbers(person.account_id, range(1, count + 1))
        assert check_ledger(tx, person.account_id) == count
        queued = tx.outbox.statuses("memory", person.account_id, range(1, count + 1))
    # Both are found by number, in no order of their own.
    assert [row.number for row in rows] == sorted(stored) == sorted(queued) == list(range(1, count + 1))
    for row in rows:
        found = stored[row.number]
        assert (found.header, found.content_blob) == (row.header, row.content_blob)
        assert queued[row.number].hash == row.event_hash


def test_the_numbering_cannot_be_broken_by_a_caller(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    vault = person.vault

    def wrong_count(head: Head) -> Pairs:
        return [build_pair(person, vault, head, "one")]

    def wrong_number(head: Head) -> Pairs:
        return [build_pair(person, vault, head._replace(memory_count=5), "one")]

    def wrong_seq(head: Head) -> Pairs:
        return [build_pair(person, vault, head._replace(ledger_seq=5), "one")]

    def wrong_account(head: Head) -> Pairs:
        return [build_pair(other, vault, head, "one")]

    for count, build in ((2, wrong_count), (1, wrong_number), (1, wrong_seq), (1, wrong_account)):
        with pytest.raises(RuntimeError), db.write() as tx:
            tx.memories.append_batch(person.account_id, count, build)
    with db.read() as tx:
        assert tx.memories.list(person.account_id) == ([], 0)
        assert check_ledger(tx, person.account_id) == 0


def test_an_event_hash_finds_its_memory_before_and_after_it_is_witnessed(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    save(db, other, "other")
    rows = save(db, person, "one", "two")
    with db.write() as tx:
        lease = tx.leases.acquire("worker", "me", now=NOW, until=at(80_000))
        assert lease is not None
        first = tx.outbox.get("memory", person.account_id, 1)
        assert first is not None
        tx.outbox.mark_anchored(lease, [Anchored(first.id, "0xt", 1, "0xb", "1", NOW)])
    with db.read() as tx:
        for row in rows:
            found = tx.memories.by_event_hash(row.event_hash)
            assert found == tx.memories.get(person.account_id, row.number)
        assert tx.memories.by_event_hash("0x" + "0" * 64) is None


def test_accounts_do_not_see_each_other(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    save(db, one, "one")
    save(db, two, "two", "three")
    with pytest.raises(NotFound), db.read() as tx:
        tx.memories.get(one.account_id, 2)
    assert _numbers(db, one) == [1]
    assert _numbers(db, two) == [2, 1]
    with db.read() as tx:
        assert tx.memories.by_numbers(one.account_id, [1, 2]).keys() == {1}
        assert tx.memories.event_hashes(one.account_id, [1, 2]).keys() == {1}


def test_lists_are_paged_newest_first_with_a_total(db: Database) -> None:
    person = create_account(db)
    save(db, person, *(f"text {number}" for number in range(7)))
    with db.read() as tx:
        pages = [tx.memories.list(person.account_id, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert [[memory.number for memory in page] for page, _ in pages] == [[7, 6, 5], [4, 3, 2], [1], []]
    assert {total for _, total in pages} == {7}


def test_lists_are_filtered(db: Database) -> None:
    person = create_account(db)
    vault = person.vault
    save(db, person, "1", project="alpha", tags=["red", "blue"], now=at(10))
    save(db, person, "2", project="beta", tags=["red"], category="DECISION", now=at(20))
    save(db, person, "3", project="alpha", category="DECISION", now=at(30))
    save(db, person, "4", now=at(40))
    with db.write() as tx:
        tx.memories.set_archived(person.account_id, 3, True)
    assert _numbers(db, person, project="alpha") == [3, 1]
    assert _numbers(db, person, project="gamma") == []
    assert _numbers(db, person, category="DECISION") == [3, 2]
    assert _numbers(db, person, archived=True) == [3]
    assert _numbers(db, person, archived=False) == [4, 2, 1]
    assert _numbers(db, person, tag_token=vault.tag_token("red")) == [2, 1]
    assert _numbers(db, person, tag_token=vault.tag_token("blue")) == [1]
    assert _numbers(db, person, tag_token=vault.tag_token("Red")) == []
    assert _numbers(db, person, since=at(20)) == [4, 3, 2]
    assert _numbers(db, person, until=at(20)) == [1]
    assert _numbers(db, person, since=at(10), until=at(40), project="alpha", archived=False) == [1]


def test_bytes_across_two_tag_tokens_are_no_tag(db: Database) -> None:
    person = create_account(db)
    save(db, person, "1", "2")
    with db.write() as tx:
        tx.memories.set_tags(person.account_id, 1, tags_blob=b"t", tag_tokens=b"abcdEFGH" + b"IJKLmnop")
        tx.memories.set_tags(person.account_id, 2, tags_blob=b"t", tag_tokens=b"01234567" + b"EFGHIJKL")
    assert _numbers(db, person, tag_token=b"EFGHIJKL") == [2]


def test_filing_changes_and_the_testimony_stays(db: Database) -> None:
    person = create_account(db)
    save(db, person, "one", "two", tags=["old"])
    with db.read() as tx:
        before = tx.memories.get(person.account_id, 1)
    with db.write() as tx:
        tx.memories.set_tags(
            person.account_id, 1, tags_blob=b"sealed", tag_tokens=person.vault.tag_tokens(["new"])
        )
        tx.memories.set_archived(person.account_id, 1, True)
        tx.memories.set_filing(person.account_id, 1, category="ERROR", superseded_by=2)
    with db.read() as tx:
        after = tx.memories.get(person.account_id, 1)
        assert check_ledger(tx, person.account_id) == 2
    assert after == before._replace(tags_blob=b"sealed", archived=True, category="ERROR", superseded_by=2)
    assert _numbers(db, person, tag_token=person.vault.tag_token("new")) == [1]
    assert _numbers(db, person, tag_token=person.vault.tag_token("old")) == [2]
    with db.write() as tx:
        tx.memories.set_filing(person.account_id, 1, superseded_by=None)
        tx.memories.set_archived(person.account_id, 1, False)
        tx.memories.set_tags(person.account_id, 1, tags_blob=None, tag_tokens=None)
    with db.read() as tx:
        assert tx.memories.get(person.account_id, 1) == before._replace(tags_blob=None, category="ERROR")


def test_filing_what_is_not_there(db: Database) -> None:
    person = create_account(db)
    with db.write() as tx:
        for call in (
            lambda: tx.memories.set_tags(person.account_id, 1, tags_blob=None, tag_tokens=None),
            lambda: tx.memories.set_archived(person.account_id, 1, True),
            lambda: tx.memories.set_hidden(person.account_id, 1, True),
            lambda: tx.memories.set_filing(person.account_id, 1, category="ERROR"),
        ):
            with pytest.raises(NotFound):
                call()
        for changes in ({}, {"importance": 3}):
            with pytest.raises(RuntimeError):
                tx.memories.set_filing(person.account_id, 1, **changes)


def test_a_hidden_memory_is_left_out_and_not_citable(db: Database) -> None:
    person = create_account(db)
    rows = save(db, person, "one", "two")
    with db.write() as tx:
        tx.memories.set_hidden(person.account_id, 1, True)
    assert _numbers(db, person) == [2]
    assert _numbers(db, person, with_hidden=True) == [2, 1]
    with db.read() as tx:
        assert tx.memories.get(person.account_id, 1).hidden is True
        assert tx.memories.event_hashes(person.account_id, [1, 2, 3]) == {2: rows[1].event_hash}
        assert tx.memories.counts(person.account_id) == MemoryCounts(2, 0, 1, 0)
        tokens = person.vault.query_tokens("one")
        assert list(tx.memories.candidates(person.account_id, tokens)) == []
    with db.write() as tx:
        tx.memories.set_hidden(person.account_id, 1, False)
    assert _numbers(db, person) == [2, 1]


def test_a_large_citation_is_looked_up_in_parts(db: Database) -> None:
    person = create_account(db)
    rows = save(db, person, *("x" for _ in range(40)))
    with db.read() as tx:
        found = tx.memories.event_hashes(person.account_id, range(1, 20_001))
    assert found == {row.number: row.event_hash for row in rows}


def test_search_finds_and_ranks_without_plaintext(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    save(
        db,
        person,
        "The anchor worker keeps a lease",
        "Gas for one anchor is below 35,000",
        "Lunch was good",
        "anchor anchor anchor",
    )
    save(db, person, "An anchor in a project", project="alpha")
    save(db, other, "anchor of another account")

    def search(query: str, where: MemoryFilter | None = None) -> list[int]:
        tokens = person.vault.query_tokens(query)
        with db.read() as tx:
            total = tx.memories.counts(person.account_id).total
            found = tx.memories.candidates(person.account_id, tokens, where)
            return [hit.number for hit in rank(tokens, found, total=total, limit=10)]

    assert sorted(search("anchor")) == [1, 2, 4, 5]
    assert search("anchor")[0] == 4
    assert search("ANCHOR lease")[0] == 1
    assert search("gás") == []
    assert search("35 000") == [2]
    assert search("anchor", MemoryFilter(project="alpha")) == [5]
    assert search("") == []


def test_a_stream_yields_all_in_order(db: Database) -> None:
    person = create_account(db)
    save(db, person, *(f"text {number}" for number in range(11)))
    with db.read() as tx:
        assert [memory.number for memory in tx.memories.stream(person.account_id, chunk=4)] == list(
            range(1, 12)
        )
        assert [memory.number for memory in tx.memories.stream(person.account_id, first=9, chunk=4)] == [
            9,
            10,
            11,
        ]
        assert [row.seq for row in tx.ledger.stream(person.account_id, first=3, chunk=2)] == list(
            range(3, 12)
        )
        assert [row.seq for row in tx.ledger.entries(person.account_id, first=10, limit=50)] == [10, 11]


def test_payloads_are_what_may_go_on_chain(db: Database) -> None:
    person = create_account(db)
    rows = save(db, person, "one", "two", "three")
    with db.read() as tx:
        payloads = tx.memories.payloads(person.account_id, [3, 1, 9])
    assert [tuple(payload) for payload in payloads] == [
        (row.number, row.event_hash, row.header, row.content_blob, False) for row in (rows[0], rows[2])
    ]


def test_a_client_sealed_blob_has_no_seed(db: Database) -> None:
    person = create_account(db)

    def build(head: Head) -> Pairs:
        memory, entry = build_pair(person, person.vault, head, "opaque")
        return [(memory._replace(content_blob=b"\x02blob", wrapped_seed=None, search_tokens=None), entry)]

    with db.write() as tx:
        tx.memories.append_batch(person.account_id, 1, build)
    with db.read() as tx:
        memory = tx.memories.get(person.account_id, 1)
        assert (memory.content_blob, memory.wrapped_seed) == (b"\x02blob", None)
        assert list(tx.memories.candidates(person.account_id, [b"x" * 8])) == []


def test_text_postgresql_cannot_hold_is_kept_in_the_header(db: Database) -> None:
    person = create_account(db)

    def build(head: Head) -> Pairs:
        memory, entry = build_pair(person, person.vault, head, "one")
        return [(memory._replace(source="a\0b", kind="c\0d"), entry)]

    with db.write() as tx:
        tx.memories.append_batch(person.account_id, 1, build)
    with db.read() as tx:
        memory = tx.memories.get(person.account_id, 1)
    assert (memory.source, memory.kind) == ("a�b", "c�d")
