"""The quick ways of a save give the bytes of the plain ones: header, ledger entry, sealed content."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chainmemory.engine import memory_save
from chainmemory.engine.memory_save import BATCH, SAVE
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import CATEGORIES, build_header, event_hash
from chainmemory.protocol.ledger_entry import GENESIS_PREV, ledger_form, make_entry
from chainmemory.store.accounts import Head
from chainmemory.store.memories import MemoryRow
from chainmemory.vault.account import AccountVault
from chainmemory.vault.places import content_place

VAULT = AccountVault("0123456789abcdef" * 2, bytes(range(32)))
NOW = "2026-09-13T22:02:35.000000Z"

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)
contents = texts | st.lists(texts, max_size=3) | st.dictionaries(texts, st.integers(0, 9), max_size=3)
saves: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"content": contents},
    optional={
        "project": st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
        "tags": st.lists(texts, max_size=3),
        "category": st.sampled_from(CATEGORIES),
        "importance": st.integers(1, 10) | st.just(3.0),
        "platform": texts,
        "kind": texts,
        "subject": st.fixed_dictionaries({"type": texts, "id": texts}),
        "occurred_at": st.sampled_from(["2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.1Z"]),
        "provenance": st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True), texts),
    },
)


def _rows(bodies: list[dict[str, Any]], first: int) -> list[MemoryRow]:
    checked = BATCH.check({"memories": bodies})["memories"]
    return memory_save._sealed_rows(VAULT, [memory_save._from_fields(one) for one in checked], first, NOW)


@given(st.lists(saves, min_size=1, max_size=5), st.integers(1, 2**40))
def test_a_header_is_one_that_build_header_makes(bodies: list[dict[str, Any]], first: int) -> None:
    for number, row in enumerate(_rows(bodies, first), start=first):
        header = json.loads(row.header)
        assert header["number"] == row.number == number
        assert build_header(**header) == header
        assert canonical(header).decode() == row.header
        assert event_hash(header) == row.event_hash


@given(st.lists(saves, min_size=1, max_size=5))
def test_a_batch_is_sealed_as_its_memories_are(bodies: list[dict[str, Any]]) -> None:
    rows = _rows(bodies, 7)
    assert len({json.loads(row.header)["salt"] for row in rows}) == len(rows)
    for body, row in zip(bodies, rows, strict=True):
        assert row.content_blob is not None
        assert row.wrapped_seed is not None
        content = SAVE.check(body)["content"]
        opened = VAULT.open(row.content_blob, row.wrapped_seed, content_place(VAULT.account_id, row.number))
        assert opened == content.body
        assert row.search_tokens == VAULT.search_tokens(content.text)
        assert json.loads(row.header)["content_hash"] == "0x" + hashlib.sha256(opened).hexdigest()


@given(st.lists(saves, min_size=1, max_size=5), st.integers(0, 2**40))
def test_an_entry_is_the_one_that_make_entry_makes(bodies: list[dict[str, Any]], seq: int) -> None:
    rows = _rows(bodies, 7)
    previous = GENESIS_PREV
    for row, found in zip(rows, memory_save._entries(Head(6, seq, previous), rows), strict=True):
        assert row.content_blob is not None
        seq += 1
        entry = make_entry(
            previous,
            seq,
            NOW,
            "save",
            memory_id=str(row.number),
            content_sha256=hashlib.sha256(row.header.encode()).hexdigest(),
            blob_sha256=hashlib.sha256(row.content_blob).hexdigest(),
        )
        previous = entry["hash"]
        assert found == (VAULT.account_id, seq, previous, ledger_form(entry).decode())


def test_what_the_client_sealed_stays_as_it_is_between_what_we_seal() -> None:
    blob = b"\x02" + bytes(12) + b"secret" + bytes(16)
    ours = memory_save._from_fields(SAVE.check({"content": "hello"}))
    theirs = ours._replace(content=None, client_blob=blob)
    rows = memory_save._sealed_rows(VAULT, [ours, theirs, ours], 1, NOW)
    assert [json.loads(row.header)["sealed_by"] for row in rows] == ["server", "client", "server"]
    assert (rows[1].content_blob, rows[1].wrapped_seed, rows[1].search_tokens) == (blob, None, None)
    for row in (rows[0], rows[2]):
        place = content_place(VAULT.account_id, row.number)
        assert VAULT.open(row.content_blob or b"", row.wrapped_seed or b"", place) == b"hello"
