"""Each clause of protocol §5, "Verdicts", on records and on `ok`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chainmemory.ledger.entries import Entry, read_file_line, read_server_line
from chainmemory.ledger.file_tenant import read_record, tenant_records
from chainmemory.ledger.verdicts import Record, Report, judge, verify
from chainmemory.protocol.ledger_entry import GENESIS_PREV, make_entry
from chainmemory.protocol.records import file_record_sha256

SHA, OTHER = "ab" * 32, "cd" * 32
HOLDS = Record({"content_sha256": SHA})
DIFFERS = Record({"content_sha256": OTHER})
UNREADABLE = Record(None)
LEFT = Record(None, rest_sha256=SHA)
LEFT_OTHER = Record(None, rest_sha256=OTHER)


def entry(op: str = "save", rest: str | None = None) -> Entry:
    return Entry("a", op, {"content_sha256": SHA}, rest, 1, GENESIS_PREV, SHA, SHA)


SAVE, FORGET, FILE_FORGET = entry(), entry("forget", SHA), entry("forget")


@pytest.mark.parametrize(
    ("trusted", "untrusted", "record", "verdict"),
    [
        (SAVE, None, HOLDS, "sealed"),
        (SAVE, None, DIFFERS, "altered"),
        (SAVE, None, UNREADABLE, "altered"),
        (SAVE, None, LEFT, "altered"),
        (SAVE, None, None, "missing"),
        (SAVE, FORGET, HOLDS, "sealed"),
        (SAVE, entry("save"), DIFFERS, "altered"),
        (FORGET, None, LEFT, "forgotten"),
        (FORGET, None, LEFT_OTHER, "altered"),
        (FORGET, None, HOLDS, "altered"),
        (FORGET, None, UNREADABLE, "altered"),
        (FORGET, None, None, "missing"),
        (FORGET, SAVE, HOLDS, "altered"),
        (FILE_FORGET, None, None, "forgotten"),
        (FILE_FORGET, None, HOLDS, "altered"),
        (None, SAVE, HOLDS, "disputed"),
        (None, SAVE, DIFFERS, "altered"),
        (None, SAVE, UNREADABLE, "altered"),
        (None, SAVE, None, "missing"),
        (None, FORGET, LEFT, "disputed"),
        (None, FORGET, DIFFERS, "disputed"),
        (None, FORGET, None, "disputed"),
        (None, None, HOLDS, "unsealed"),
        (None, None, LEFT, "unsealed"),
        (None, None, UNREADABLE, "altered"),
    ],
)
def test_verdict(trusted: Entry | None, untrusted: Entry | None, record: Record | None, verdict: str) -> None:
    assert judge(trusted, untrusted, record) == verdict


def test_every_sealed_hash_must_match() -> None:
    sealed = Entry("memory:1", "save", {"content_sha256": SHA, "blob_sha256": SHA}, None, 1, SHA, SHA, SHA)
    assert judge(sealed, None, Record({"content_sha256": SHA, "blob_sha256": SHA})) == "sealed"
    assert judge(sealed, None, Record({"content_sha256": SHA, "blob_sha256": OTHER})) == "altered"
    assert judge(sealed, None, Record({"content_sha256": SHA})) == "altered"


def ledger(*memories: str) -> list[bytes]:
    prev, out = GENESIS_PREV, []
    for seq, memory in enumerate(memories, 1):
        made = make_entry(prev, seq, 1.5, "save", memory_id=memory, content_sha256=SHA)
        out.append(json.dumps(made).encode() + b"\n")
        prev = made["hash"]
    return out


def report(lines: list[bytes], records: dict[str, Record], **options: Any) -> Report:
    options = {"read": read_file_line, "heads": {}, "unsealed_is_wrong": False, **options}
    return verify(lines, records.items(), **options)


def head_of(line: bytes) -> str:
    return str(json.loads(line)["hash"])


LINES = ledger("a", "b")
BOTH = {"a": HOLDS, "b": HOLDS}


class TestOk:
    def test_intact_and_empty_chains_are_ok(self) -> None:
        assert report(LINES, BOTH).ok is True
        assert report([], {}).ok is True

    def test_a_broken_chain_is_not_even_where_no_record_is_hurt(self) -> None:
        assert report([*LINES, b"x\n"], BOTH).ok is False

    def test_an_altered_or_missing_record_is_not(self) -> None:
        assert report(LINES, {**BOTH, "b": DIFFERS}).ok is False
        assert report(LINES, {"a": HOLDS}).missing == ["b"]
        assert report(LINES, {"a": HOLDS}).ok is False

    def test_an_unsealed_record_is_wrong_on_the_server_alone(self) -> None:
        more = {**BOTH, "new": HOLDS}
        assert report(LINES, more).ok is True
        assert report(LINES, more, unsealed_is_wrong=True).ok is False
        assert report(LINES, more).unsealed == ["new"]

    def test_every_anchored_head_must_be_there(self) -> None:
        heads = {1: head_of(LINES[0]), 2: head_of(LINES[1])}
        assert report(LINES, BOTH, heads=heads).ok is True
        assert report(LINES, BOTH, heads=heads).head_matches is True
        lost = report(LINES[:1], {"a": HOLDS}, heads=heads)
        assert (lost.walk.chain, lost.ok, lost.head_matches) == ("intact", False, False)
        early = report(LINES, BOTH, heads={1: OTHER, 2: heads[2]})
        assert (early.ok, early.head_matches) == (False, True)

    def test_with_the_chain_out_of_reach_ok_is_unknown_unless_something_is_wrong(self) -> None:
        assert report(LINES, BOTH, heads=None).ok is None
        assert report(LINES, BOTH, heads=None).head_matches is None
        assert report(LINES, {"a": HOLDS}, heads=None).ok is False


def test_a_forget_on_the_server_keeps_what_is_left_under_seal() -> None:
    keys = {"memory_id": "7", "content_sha256": SHA, "blob_sha256": SHA}
    save = make_entry(GENESIS_PREV, 1, "2026-01-01T00:00:00.000000Z", "save", **keys)
    forget = make_entry(save["hash"], 2, "2026-01-02T00:00:00.000000Z", "forget", **keys, rest_sha256=SHA)
    lines = [json.dumps(one).encode() for one in (save, forget)]
    options: dict[str, Any] = {"read": read_server_line, "unsealed_is_wrong": True}
    assert report(lines, {"memory:7": LEFT}, **options).forgotten == ["memory:7"]
    assert report(lines, {"memory:7": LEFT}, **options).ok is True
    still = Record({"content_sha256": SHA, "blob_sha256": SHA})
    assert report(lines, {"memory:7": still}, **options).altered == ["memory:7"]


RECORD: dict[str, Any] = {
    "id": "m1",
    "session_id": None,
    "agent_id": "cc",
    "summary": "ü",
    "key_facts": [],
    "decisions_made": [],
    "projects_referenced": [],
    "timestamp": 1.5,
}


class TestFileTenant:
    def test_an_absent_key_counts_as_null_and_filing_counts_not(self) -> None:
        less = {key: value for key, value in RECORD.items() if key != "session_id"}
        more = {**RECORD, "category": "x", "tags": ["y"]}
        assert file_record_sha256(less) == file_record_sha256(more) == file_record_sha256(RECORD)

    @pytest.mark.parametrize("key", ["agent_id", "summary", "key_facts", "timestamp", "id", "session_id"])
    def test_each_sealed_key_counts(self, key: str) -> None:
        assert file_record_sha256({**RECORD, key: "other"}) != file_record_sha256(RECORD)

    @pytest.mark.parametrize(
        ("data", "name"),
        [(b'{"id":"m1"}', "m1"), (b'{"id":null}', "stem"), (b"{}", "stem"), (b'{"id":""}', "")],
    )
    def test_the_id_field_names_it_else_the_file(self, data: bytes, name: str) -> None:
        found, record = read_record("stem", data)
        assert found == name
        assert record.seals is not None

    @pytest.mark.parametrize(
        "data", [b"", b"[]", b'"x"', b'{"id":5}', b'{"a":1,"a":2}', b"\xff", b'{"x":1e999}']
    )
    def test_what_is_no_record_cannot_be_parsed(self, data: bytes) -> None:
        assert read_record("stem", data) == ("stem", UNREADABLE)

    def test_two_files_with_one_id_make_it_altered(self) -> None:
        same = json.dumps(RECORD).encode()
        records = tenant_records([("one", same), ("two", same)])
        assert records == {"m1": UNREADABLE}
        sealed = make_entry(
            GENESIS_PREV, 1, 1.5, "save", memory_id="m1", content_sha256=file_record_sha256(RECORD)
        )
        assert report([json.dumps(sealed).encode()], records).altered == ["m1"]
        assert report([json.dumps(sealed).encode()], tenant_records([("one", same)])).sealed == ["m1"]
