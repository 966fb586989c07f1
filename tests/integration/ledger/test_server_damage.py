"""Whatever is changed in the store past the server is named by `GET /v1/ledger/verify`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from chainmemory.engine import ledger_verify
from chainmemory.engine.callers import Caller
from chainmemory.engine.ledger_records import FORGOTTEN_KEYS
from chainmemory.protocol.ledger_entry import entry_hash, ledger_form, make_entry
from chainmemory.store.accounts import Head
from chainmemory.store.ledger import LedgerRow
from tests.support.databases import ENGINES, empty_database_url
from tests.support.ledger_stores import MEMORIES, STATES, Ledger, copied, opened

ALL = MEMORIES + STATES


@dataclass
class Original:
    home: Path
    caller: Caller


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    home = tmp_path_factory.mktemp("original")
    with opened(home) as ledger:
        return Original(home, ledger.caller)


@pytest.fixture
def ledger(original: Original, tmp_path: Path) -> Iterator[Ledger]:
    """A copy of one store, to be damaged."""
    with opened(copied(original.home, tmp_path), original.caller) as found:
        yield found


def flipped(blob: bytes) -> bytes:
    return blob[:-1] + bytes([blob[-1] ^ 1])


def flip(column: str, number: int = 7) -> Callable[[Ledger], None]:
    def damage(ledger: Ledger) -> None:
        blob = ledger.read(f"SELECT {column} FROM memories WHERE account_id = :of AND number = {number}")
        ledger.sql(
            f"UPDATE memories SET {column} = :b WHERE account_id = :of AND number = {number}", b=flipped(blob)
        )

    return damage


def header(**changes: Any) -> Callable[[Ledger], None]:
    def damage(ledger: Ledger) -> None:
        found = orjson.loads(ledger.read("SELECT header FROM memories WHERE account_id = :of AND number = 7"))
        text = orjson.dumps({**found, **changes}, option=orjson.OPT_SORT_KEYS).decode()
        ledger.sql("UPDATE memories SET header = :h WHERE account_id = :of AND number = 7", h=text)

    return damage


def run(*statements: str) -> Callable[[Ledger], None]:
    def damage(ledger: Ledger) -> None:
        for statement in statements:
            ledger.sql(statement)

    return damage


def swap(*columns: str) -> Callable[[Ledger], None]:
    def damage(ledger: Ledger) -> None:
        for column in columns:
            seven, eight = (
                ledger.read(f"SELECT {column} FROM memories WHERE account_id = :of AND number = {number}")
                for number in (7, 8)
            )
            for number, value in ((7, eight), (8, seven)):
                ledger.sql(
                    f"UPDATE memories SET {column} = :v WHERE account_id = :of AND number = {number}", v=value
                )

    return damage


def put_in(ledger: Ledger) -> None:
    """A memory that is whole in itself, put in by SQL as the next number."""
    at = MEMORIES + 1
    ledger.save("made by the server, then cut from the ledger")
    ledger.sql(f"DELETE FROM ledger_entries WHERE account_id = :of AND seq = {ALL + 1}")
    assert ledger.read("SELECT max(number) FROM memories WHERE account_id = :of") == at


HERE = "WHERE account_id = :of AND number = 7"
STATE = "WHERE version = 2"
ONE, TWO = ["memory:7"], ["memory:7", "memory:8"]

# What is done, whether only a deep check sees it, and what is then named.
DAMAGE: dict[str, tuple[Callable[[Ledger], None], bool, dict[str, list[str]]]] = {
    "ciphertext": (flip("content_blob"), False, {"altered": ONE}),
    "ciphertext gone": (run(f"UPDATE memories SET content_blob = NULL {HERE}"), False, {"altered": ONE}),
    "ciphertext no bytes": (run(f"UPDATE memories SET content_blob = 'x' {HERE}"), False, {"altered": ONE}),
    "header's text": (header(kind="memory.lie"), False, {"altered": ONE}),
    "header's number": (header(number=9), False, {"altered": ONE}),
    "header's account": (header(account_id="0" * 32), False, {"altered": ONE}),
    "header no JSON": (run(f"UPDATE memories SET header = 'x' {HERE}"), False, {"altered": ONE}),
    "header no text": (run(f"UPDATE memories SET header = X'ff00' {HERE}"), False, {"altered": ONE}),
    "event hash": (run(f"UPDATE memories SET event_hash = '0x{'ab' * 32}' {HERE}"), False, {"altered": ONE}),
    "said to be forgotten": (run(f"UPDATE memories SET forgotten = 1 {HERE}"), False, {"altered": ONE}),
    "swapped blobs": (swap("content_blob", "wrapped_seed"), False, {"altered": TWO}),
    "swapped headers": (swap("header", "event_hash"), False, {"altered": TWO}),
    "swapped rows": (swap("header", "event_hash", "content_blob", "wrapped_seed"), False, {"altered": TWO}),
    "deleted": (run(f"DELETE FROM memories {HERE}"), False, {"missing": ONE}),
    "deleted at the end": (
        run(f"DELETE FROM memories WHERE account_id = :of AND number = {MEMORIES}"),
        False,
        {"missing": [f"memory:{MEMORIES}"]},
    ),
    "renumbered": (
        run(f"UPDATE memories SET number = 900 {HERE}"),
        False,
        {"missing": ONE, "altered": ["memory:900"]},
    ),
    "renumbered below": (
        run(f"UPDATE memories SET number = -3 {HERE}"),
        False,
        {"missing": ONE, "altered": ["memory:-3"]},
    ),
    "number no number": (
        run(f"UPDATE memories SET number = 'seven' {HERE}"),
        False,
        {"missing": ONE, "altered": ["memory:seven"]},
    ),
    "account": (run(f"UPDATE memories SET account_id = 'x' {HERE}"), False, {"missing": ONE}),
    "put in": (put_in, False, {"unsealed": [f"memory:{MEMORIES + 1}"]}),
    "state's hash": (
        run(f"UPDATE state_versions SET state_hash = '0x{'ab' * 32}' {STATE}"),
        False,
        {"altered": ["state:p@2"]},
    ),
    "state's account": (
        run(f"UPDATE state_versions SET account_id = 'x' {STATE}"),
        False,
        {"altered": ["state:p@2"]},
    ),
    "state deleted": (
        run("DELETE FROM state_versions WHERE version = 3"),
        False,
        {"missing": ["state:p@3"]},
    ),
    "key seed": (flip("wrapped_seed"), True, {"altered": ONE}),
    "swapped seeds": (swap("wrapped_seed"), True, {"altered": TWO}),
    "column of a filter": (run(f"UPDATE memories SET project = 'q' {HERE}"), True, {"altered": ONE}),
    "time of a filter": (
        run(f"UPDATE memories SET occurred_at = '2020-01-01T00:00:00.000000Z' {HERE}"),
        True,
        {"altered": ONE},
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named(ledger: Ledger, what: str) -> None:
    damage, deep_alone, named = DAMAGE[what]
    before = ledger.verify(deep=True)
    assert (before["ok"], before["sealed"], before["chain"]) == (None, ALL, "intact")
    damage(ledger)
    for deep in (False, True):
        report = ledger.verify(deep=deep)
        seen = deep or not deep_alone
        assert {
            key: report[key] for key in ("altered", "missing", "unsealed", "disputed") if report[key]
        } == (named if seen else {})
        assert report["ok"] is (False if seen else None)
        assert report["chain"] == "intact"
        hurt = {name for names in named.values() for name in names} if seen else set()
        assert report["sealed"] == ALL - sum(name in before_names() for name in hurt)


def before_names() -> set[str]:
    return {f"memory:{n}" for n in range(1, MEMORIES + 1)} | {f"state:p@{n}" for n in range(1, STATES + 1)}


def test_changed_ops_of_a_state_are_seen_by_a_deep_check(ledger: Ledger) -> None:
    blob = ledger.read("SELECT ops_blob FROM state_versions WHERE version = 2")
    ledger.sql("UPDATE state_versions SET ops_blob = :b WHERE version = 2", b=flipped(blob))
    assert ledger.verify()["ok"] is None
    # Nor can what comes after it be recomputed.
    assert ledger.verify(deep=True)["altered"] == ["state:p@2", "state:p@3"]


def test_a_state_version_put_in_is_unsealed_and_doesn_t_come_to_its_hash(ledger: Ledger) -> None:
    ledger.sql("UPDATE state_versions SET version = 9 WHERE version = 3")
    report = ledger.verify()
    assert (report["missing"], report["unsealed"]) == (["state:p@3"], ["state:p@9"])
    assert ledger.verify(deep=True)["altered"] == ["state:p@9"]


def test_what_comes_after_a_missing_version_can_t_be_recomputed(ledger: Ledger) -> None:
    ledger.sql("DELETE FROM state_versions WHERE version = 2")
    assert (ledger.verify()["missing"], ledger.verify()["altered"]) == (["state:p@2"], [])
    deep = ledger.verify(deep=True)
    assert (deep["missing"], deep["altered"]) == (["state:p@2"], ["state:p@3"])


def test_filing_never_trips_it(ledger: Ledger) -> None:
    ledger.sql(
        "UPDATE memories SET category = 'ERROR', archived = 1, superseded_by = 3, hidden = 1, "
        "tags_blob = NULL, tag_tokens = NULL WHERE account_id = :of"
    )
    for deep in (False, True):
        report = ledger.verify(deep=deep)
        assert (report["ok"], report["sealed"], report["altered"]) == (None, ALL, [])


def rewrite(ledger: Ledger, at: int, /, **changes: Any) -> None:
    entry = json.loads(ledger.read(f"SELECT entry FROM ledger_entries WHERE account_id = :of AND seq = {at}"))
    entry.update(changes)
    ledger.sql(
        f"UPDATE ledger_entries SET entry = :e WHERE account_id = :of AND seq = {at}",
        e=ledger_form(entry).decode(),
    )


def on_entries(statement: str) -> Callable[[Ledger], None]:
    return lambda ledger: ledger.sql(f"{statement} WHERE account_id = :of AND seq = 10") and None


class TestBrokenChain:
    """What follows a break is disputed: it is there and matches, but nothing vouches for it."""

    @pytest.mark.parametrize(
        ("damage", "at", "reason"),
        [
            (lambda led: rewrite(led, 10, ts="2020-01-01T00:00:00.000000Z"), 10, "hash"),
            (lambda led: rewrite(led, 10, content_sha256="ab" * 32), 10, "hash"),
            (lambda led: rewrite(led, 10, seq=11), 10, "seq"),
            (lambda led: rewrite(led, 10, op="sell"), 10, "unparseable"),
            (on_entries("UPDATE ledger_entries SET entry = X'ff'"), 10, "unparseable"),
            (on_entries("DELETE FROM ledger_entries"), 10, "seq"),
            (on_entries("UPDATE ledger_entries SET seq = -1"), 1, "seq"),
        ],
    )  # fmt: skip
    def test_it_is_found(self, ledger: Ledger, damage: Any, at: int, reason: str) -> None:
        damage(ledger)
        report = ledger.verify()
        assert (report["chain"], report["broken_at"], report["reason"], report["ok"]) == (
            "broken",
            at,
            reason,
            False,
        )
        assert report["sealed"] == at - 1
        assert f"memory:{MEMORIES}" in report["disputed"]

    def test_a_forged_entry_with_its_hash_recomputed_takes_the_one_before_along(self, ledger: Ledger) -> None:
        entry = json.loads(
            ledger.read("SELECT entry FROM ledger_entries WHERE account_id = :of AND seq = 10")
        )
        entry["content_sha256"] = "ab" * 32
        rewrite(ledger, 10, **{**entry, "hash": entry_hash(entry)})
        report = ledger.verify()
        assert (report["broken_at"], report["reason"], report["sealed"]) == (11, "prev", 9)
        # Its record is what it was, the untrusted entry says otherwise.
        assert report["altered"] == ["memory:10"]


def test_an_entry_of_a_fact_nobody_holds_is_missing(ledger: Ledger) -> None:
    """Facts have their own issue; their entries are read already."""
    rewrite(ledger, ALL, op="fact", fact_id="f", version=1, fact_sha256="ab" * 32, hash="")
    last = json.loads(ledger.read(f"SELECT entry FROM ledger_entries WHERE account_id = :of AND seq = {ALL}"))
    rewrite(ledger, ALL, hash=entry_hash(last))
    report = ledger.verify()
    assert (report["chain"], report["missing"], report["unsealed"]) == ("intact", ["fact:f@1"], ["state:p@3"])


def forget(ledger: Ledger, number: int) -> None:
    """Forget a memory as its own issue will: content, seed, salt, hash and length go, an entry says so."""
    place = f"WHERE account_id = :of AND number = {number}"
    header = orjson.loads(ledger.read(f"SELECT header FROM memories {place}"))
    rest = {key: value for key, value in header.items() if key not in FORGOTTEN_KEYS}
    text = ledger_form(rest)
    entries = ledger_verify.entries(ledger.engine, ledger.caller, first=number, limit=1)["entries"]
    keys = {key: entries[0][key] for key in ("memory_id", "content_sha256", "blob_sha256")}

    def entry(head: Head) -> list[LedgerRow]:
        rest_sha256 = hashlib.sha256(text).hexdigest()
        now = "2026-09-13T22:02:35.000000Z"
        made = make_entry(
            head.ledger_hash, head.ledger_seq + 1, now, "forget", **keys, rest_sha256=rest_sha256
        )
        return [LedgerRow(ledger.account_id, made["seq"], made["hash"], ledger_form(made).decode())]

    with ledger.engine.db.write() as tx:
        tx.ledger.append(ledger.account_id, entry)
    ledger.sql(
        "UPDATE memories SET forgotten = 1, content_blob = NULL, wrapped_seed = NULL, header = :h " + place,
        h=text.decode(),
    )


def test_a_forgotten_memory_keeps_what_is_left_under_seal(ledger: Ledger) -> None:
    forget(ledger, 7)
    for deep in (False, True):
        report = ledger.verify(deep=deep)
        assert (report["ok"], report["forgotten"], report["sealed"]) == (None, 1, ALL - 1)
    header(kind="memory.lie")(ledger)
    assert ledger.verify()["altered"] == ONE


def test_forgotten_content_that_can_still_be_read_is_altered(ledger: Ledger) -> None:
    blob = ledger.read(f"SELECT content_blob FROM memories {HERE}")
    forget(ledger, 7)
    ledger.sql(f"UPDATE memories SET content_blob = :b {HERE}", b=blob)
    assert (ledger.verify()["altered"], ledger.verify()["forgotten"]) == (ONE, 0)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "sqlite"])
def test_the_same_on_postgresql(engine: str, tmp_path: Path) -> None:
    with empty_database_url(engine, tmp_path) as url, opened(tmp_path, url=url) as ledger:
        assert ledger.verify(deep=True)["sealed"] == ALL
        flip("content_blob")(ledger)
        ledger.sql("DELETE FROM memories WHERE account_id = :of AND number = 9")
        report = ledger.verify()
        assert (report["altered"], report["missing"], report["sealed"]) == (ONE, ["memory:9"], ALL - 2)
        flip("wrapped_seed", 5)(ledger)
        assert ledger.verify(deep=True)["altered"] == ["memory:5", "memory:7"]
        put_in(ledger)
        assert ledger.verify()["unsealed"] == [f"memory:{MEMORIES + 1}"]
        ledger.sql("DELETE FROM ledger_entries WHERE account_id = :of AND seq = 12")
        report = ledger.verify()
        assert (report["chain"], report["broken_at"], report["reason"]) == ("broken", 12, "seq")
        assert "memory:20" in report["disputed"]
