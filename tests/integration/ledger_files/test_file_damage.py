"""Every kind of damage to a file tenant, with the exact verdict for each (protocol §5, Verdicts)."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chainmemory.errors import Conflict
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.tenant import held
from chainmemory.ledger.verdicts import verify
from chainmemory.protocol.ledger_entry import ledger_form
from chainmemory.protocol.records import file_record_sha256
from tests.support.tenants import Files, checked, copy_of, make_tenant, record, written

KEYS = ("seq", "ts", "op", "memory_id", "content_sha256", "prev", "hash")
OTHER_TYPE: dict[str, Any] = {
    "seq": 3.0,
    "ts": None,
    "op": 1,
    "memory_id": 3,
    "content_sha256": "AB" * 32,
    "prev": "0x" + "ab" * 32,
    "hash": None,
}
HUGE = "9" * 400


@dataclass(frozen=True)
class Verdict:
    """What is expected; records by their last letter where they are m1 to m5."""

    chain: str | tuple[int, str] = "intact"
    entries: int = 5
    sealed: str = "12345"
    altered: str | list[str] = ""
    missing: str | list[str] = ""
    unsealed: str | list[str] = ""
    disputed: str | list[str] = ""
    ok: bool = True

    def check(self, files: Files) -> None:
        report = checked(files)
        walk = report.walk
        found = walk.chain if walk.broken_at is None else (walk.broken_at, walk.reason)
        assert (found, walk.entries) == (self.chain, self.entries)
        for verdict in ("sealed", "altered", "missing", "unsealed", "disputed"):
            assert sorted(getattr(report, verdict)) == _names(getattr(self, verdict)), verdict
        assert report.forgotten == []
        assert report.ok is self.ok


def _names(given: str | list[str]) -> list[str]:
    return sorted(given) if isinstance(given, list) else [f"m{letter}" for letter in given]


def broken(at: int, reason: str, sealed: str, disputed: str, **more: Any) -> Verdict:
    return Verdict((at, reason), sealed=sealed, disputed=disputed, **{"ok": False, **more})


# An entry that can't be read takes its record's seal with it; what follows is disputed.
NO_LINE_3 = broken(3, "unparseable", "12", "45", unsealed="3")

Damage = Callable[[Files], object]
TABLE: dict[str, tuple[Damage, Verdict]] = {}


def damage(what: str, verdict: Verdict) -> Callable[[Damage], Damage]:
    def note(function: Damage) -> Damage:
        TABLE[what] = (function, verdict)
        return function

    return note


def row(what: str, function: Damage, verdict: Verdict) -> None:
    TABLE[what] = (function, verdict)


# -- the ledger's lines -------------------------------------------------------------------------------

row("nothing", lambda files: None, Verdict())
for key in KEYS:
    row(
        f"{key} of an entry gone",
        lambda files, key=key: files.change_entry(3, lambda entry: entry.pop(key)),
        NO_LINE_3,
    )
    row(
        f"{key} of another type",
        lambda files, key=key: files.change_entry(3, lambda entry: entry.update({key: OTHER_TYPE[key]})),
        NO_LINE_3,
    )
for key, value, verdict in (
    ("seq", 4, broken(3, "seq", "12", "345")),
    ("ts", 1.5, broken(3, "hash", "12", "345")),
    ("op", "adopt", broken(3, "hash", "12", "345")),
    ("memory_id", "m9", broken(3, "hash", "12", "45", unsealed="3", missing="9")),
    ("content_sha256", "ab" * 32, broken(3, "hash", "12", "45", altered="3")),
    # Either of two entries that don't fit may be the forged one.
    ("prev", "ab" * 32, broken(3, "prev", "1", "2345")),
    ("hash", "ab" * 32, broken(3, "hash", "12", "345")),
    ("note", "added", broken(3, "hash", "12", "345")),
):
    row(
        f"{key} of an entry changed",
        lambda files, key=key, value=value: files.change_entry(3, lambda entry: entry.update({key: value})),
        verdict,
    )


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Damage:
    return lambda files: files.put_lines(change(files.lines()))


row(
    "first line dropped",
    lines(lambda all: all[1:]),
    broken(1, "seq", "", "2345", entries=4, unsealed="1"),
)
row(
    "middle line dropped",
    lines(lambda all: all[:2] + all[3:]),
    broken(3, "seq", "12", "45", entries=4, unsealed="3"),
)
row("last line dropped", lines(lambda all: all[:4]), Verdict(entries=4, sealed="1234", unsealed="5"))
row("line doubled", lines(lambda all: all[:3] + all[2:]), broken(4, "seq", "123", "45", entries=6))
row(
    "two lines swapped",
    lines(lambda all: [*all[:1], all[2], all[1], *all[3:]]),
    broken(2, "seq", "1", "2345"),
)
row("lines sorted backwards", lines(lambda all: all[::-1]), broken(1, "seq", "", "12345"))
row(
    "blank line in the middle",
    lines(lambda all: [*all[:2], b"\n", *all[2:]]),
    broken(3, "unparseable", "12", "345", entries=6),
)
row(
    "blank line at the end",
    lines(lambda all: [*all, b"\n"]),
    Verdict((6, "unparseable"), entries=6, ok=False),
)
row(
    "space in a line of its own",
    lines(lambda all: [*all, b"  \n"]),
    Verdict((6, "unparseable"), entries=6, ok=False),
)
row("last newline gone", lines(lambda all: [*all[:4], all[4][:-1]]), Verdict())
row(
    "torn tail",
    lines(lambda all: [*all[:4], all[4][:100]]),
    Verdict((5, "unparseable"), sealed="1234", unsealed="5", ok=False),
)
row(
    "torn line in the middle",
    lines(lambda all: [*all[:2], all[2][:100] + b"\n", *all[3:]]),
    NO_LINE_3,
)
row(
    "newline in the middle gone",
    lines(lambda all: [*all[:2], all[2][:-1] + all[3], all[4]]),
    broken(3, "unparseable", "12", "5", entries=4, unsealed="34"),
)
row("all lines gone", lines(lambda all: []), Verdict("empty", entries=0, sealed="", unsealed="12345"))
row(
    "no ledger",
    lambda files: files.ledger.unlink(),
    Verdict("empty", entries=0, sealed="", unsealed="12345"),
)
# Spaces around a value are no part of what a line says.
row("CRLF", lines(lambda all: [line[:-1] + b"\r\n" for line in all]), Verdict())
row(
    "CR alone",
    lambda files: files.ledger.write_bytes(files.ledger.read_bytes().replace(b"\n", b"\r")),
    Verdict((1, "unparseable"), entries=1, sealed="", unsealed="12345", ok=False),
)
row("written with spaces", lines(lambda all: [written(json.loads(line)) + b"\n" for line in all]), Verdict())
row(
    "BOM",
    lambda files: files.ledger.write_bytes(b"\xef\xbb\xbf" + files.ledger.read_bytes()),
    broken(1, "unparseable", "", "2345", unsealed="1"),
)


def line_3(what: str, change: Callable[[bytes], bytes], verdict: Verdict = NO_LINE_3) -> None:
    row(what, lambda files: files.change_line(3, change), verdict)


line_3("key twice, the same value", lambda line: line.replace(b'"op":"save"', b'"op":"save","op":"save"'))
line_3("key twice, the first one false", lambda line: b'{"op":"forget",' + line[1:])
line_3("key twice, escaped", lambda line: line.replace(b'"op":"save"', b'"op":"save","\\u006fp":"save"'))
line_3("huge integer as seq", lambda line: line.replace(b'"seq":3', b'"seq":' + HUGE.encode()))
line_3("huge integer in a key of its own", lambda line: line[:-2] + b',"x":' + HUGE.encode() + b"}\n")
line_3("integer beyond 2^53", lambda line: line[:-2] + b',"x":9007199254740993}\n')
line_3("number that overflows", lambda line: line[:-2] + b',"x":1e999}\n')
line_3("NaN", lambda line: line[:-2] + b',"x":NaN}\n')
line_3("invalid UTF-8", lambda line: line.replace(b'"save"', b'"s\xffve"'))
line_3("overlong UTF-8", lambda line: line.replace(b'"save"', b'"s\xc1\xa1ve"'))
line_3("UTF-8 of a surrogate", lambda line: line.replace(b'"save"', b'"\xed\xa0\x80"'))
line_3("lone surrogate, escaped", lambda line: line.replace(b'"save"', b'"\\ud800"'))
line_3("zero byte", lambda line: line.replace(b'"save"', b'"sa\0ve"'))
line_3("all zeros", lambda line: bytes(len(line) - 1) + b"\n")
line_3("an array", lambda line: b"[" + line[:-1] + b"]\n")
line_3("two values", lambda line: line[:-1] + b" {}\n")
line_3("a comment", lambda line: line[:-1] + b" // fine\n")
line_3("nested too deep", lambda line: line[:-2] + b',"x":' + b"[" * 100 + b"]" * 100 + b"}\n")
line_3("single quotes", lambda line: line.replace(b'"', b"'"))
line_3("a name written with an escape", lambda line: line.replace(b'"m3"', b'"\\u006d3"'), Verdict())
line_3("op in capitals", lambda line: line.replace(b'"save"', b'"SAVE"'), broken(3, "hash", "12", "345"))


@damage("entry inserted that claims another's words", broken(5, "seq", "1234", "5", entries=6))
def _insert(files: Files) -> None:
    lines = files.lines()
    forged = {**files.entries()[3], "content_sha256": "cd" * 32}
    files.put_lines([*lines[:4], ledger_form(forged) + b"\n", lines[4]])


@damage("middle rewritten, later hashes left", broken(4, "prev", "12", "345"))
def _rewrite_one(files: Files) -> None:
    files.change_record("m3", lambda value: value.update(summary="forged"))
    forged = _digest(files, "m3")
    entries = files.entries()
    entries[2]["content_sha256"] = forged
    files.put_entries(entries)
    later = files.entries()
    files.rehash(3)
    rewritten = files.entries()
    files.put_entries([*rewritten[:3], *later[3:]])


# Whole and consistent: only a head on chain tells (see test_a_rewrite_is_told_by_an_anchored_head).
@damage("middle rewritten with all later hashes", Verdict())
def _rewrite_all(files: Files) -> None:
    files.change_record("m3", lambda value: value.update(summary="forged"))
    forged = _digest(files, "m3")
    files.change_entry(3, lambda entry: entry.update(content_sha256=forged))
    files.rehash(3)


@damage("entry of a forger at the end", broken(6, "seq", "2345", "", entries=6, altered="1"))
def _junk_at_end(files: Files) -> None:
    entry = {**files.entries()[0], "content_sha256": "ab" * 32}
    files.change_record("m1", lambda value: value.update(summary="forged"))
    files.ledger.write_bytes(files.ledger.read_bytes() + ledger_form(entry) + b"\n")


def _digest(files: Files, name: str) -> str:
    return file_record_sha256(json.loads(files.record(name).read_bytes()))


# -- the records --------------------------------------------------------------------------------------

ALTERED_3 = Verdict(sealed="1245", altered="3", ok=False)


def bytes_3(what: str, data: bytes, verdict: Verdict = ALTERED_3) -> None:
    row(what, lambda files: files.record("m3").write_bytes(data), verdict)


def keys_3(what: str, verdict: Verdict = ALTERED_3, **changes: Any) -> None:
    row(what, lambda files: files.change_record("m3", lambda value: value.update(changes)), verdict)


for key, value in (
    ("session_id", "s"),
    ("agent_id", "dd"),
    ("summary", "what m3 says, ünï "),
    ("key_facts", ["b ✓", "a"]),
    ("decisions_made", [""]),
    ("projects_referenced", None),
    ("timestamp", 1789851200.25),
):
    keys_3(f"{key} of a record changed", **{key: value})
keys_3("filing changed", Verdict(), category="other", tags=["new"])
keys_3("id changed", Verdict(sealed="1245", missing="3", unsealed="9", ok=False), id="m9")
keys_3("id of another type", Verdict(sealed="1245", altered="3", ok=False), id=3)
keys_3("id gone, but the file is named so", ALTERED_3, id=None)
keys_3("words composed otherwise", summary="what m3 says, u\u0308ni\u0308")
row(
    "a key gone that was null",
    lambda files: files.change_record("m3", lambda value: value.pop("session_id")),
    Verdict(),
)
row(
    "a key gone that was not",
    lambda files: files.change_record("m3", lambda value: value.pop("summary")),
    ALTERED_3,
)
row(
    "a record written with other spaces",
    lambda files: files.record("m3").write_text(json.dumps(record("m3"), indent=4)),
    Verdict(),
)
bytes_3("a record that is not JSON", b"{not json")
bytes_3("an empty record", b"")
bytes_3("a record of zeros", bytes(200))
bytes_3("a record with a BOM", b"\xef\xbb\xbf" + written(record("m3")))
bytes_3("a record of invalid UTF-8", written(record("m3")).replace("ü".encode(), b"\xfc"))
bytes_3("a record in an array", b"[" + written(record("m3")) + b"]")
bytes_3("a record with a key twice", b'{"summary":"forged",' + written(record("m3"))[1:])
bytes_3("a record with a huge integer", written(record("m3", extra=0))[:-2] + HUGE.encode() + b"}")
bytes_3("a record with NaN", written(record("m3", extra=0))[:-2] + b"NaN}")
bytes_3("two records in a file", written(record("m3")) + b"\n" + written(record("m3")))
row(
    "record gone",
    lambda files: files.record("m3").unlink(),
    Verdict(sealed="1245", missing="3", ok=False),
)
row(
    "all records gone",
    lambda files: [files.record(f"m{number}").unlink() for number in range(1, 6)],
    Verdict(sealed="", missing="12345", ok=False),
)
row(
    "records' folder gone",
    lambda files: (files.path / "memory").rename(files.path / "else"),
    Verdict(sealed="", missing="12345", ok=False),
)
row("file renamed", lambda files: files.record("m3").rename(files.record("else")), Verdict())
row(
    "file renamed to what is no record",
    lambda files: files.record("m3").rename(files.path / "memory" / "m3.JSON"),
    Verdict(sealed="1245", missing="3", ok=False),
)
row(
    "a second file with one id",
    lambda files: files.record("copy").write_bytes(files.record("m3").read_bytes()),
    ALTERED_3,
)
row(
    "two records with each other's words",
    lambda files: [
        files.record("m2").write_bytes(written(record("m2", summary="what m3 says, ünï"))),
        files.record("m3").write_bytes(written(record("m3", summary="what m2 says, ünï"))),
    ],
    Verdict(sealed="145", altered="23", ok=False),
)
row(
    "two files with each other's names",
    lambda files: [
        files.record("m2").rename(files.record("t")),
        files.record("m3").rename(files.record("m2")),
        files.record("t").rename(files.record("m3")),
    ],
    Verdict(),
)
row(
    "record without entry",
    lambda files: files.record("m9").write_bytes(written(record("m9"))),
    Verdict(unsealed="9"),
)
row(
    "what can't be read, without entry",
    lambda files: files.record("m9").write_bytes(b"?"),
    Verdict(altered="9", ok=False),
)
row(
    "a hidden record",
    lambda files: (files.path / "memory" / ".m9.json").write_bytes(written({"summary": "x"})),
    Verdict(unsealed=[".m9"]),
)
row(
    "what is no record",
    lambda files: (files.path / "memory" / "notes.txt").write_bytes(b"x"),
    Verdict(),
)
row(
    "names with odd characters",
    lambda files: [
        (files.path / "memory" / name).write_bytes(b'{"summary":"x"}')
        for name in ("a b\t\n.json", "ü✓.json", ".json", "-rf *.json", "x\x1b[31m.json")
    ],
    Verdict(unsealed=["a b\t\n", "ü✓", "", "-rf *", "x\x1b[31m"]),
)
row(
    "a name that is no UTF-8",
    lambda files: Path(os.fsdecode(os.fsencode(files.path / "memory") + b"/\xff.json")).write_bytes(b"{}"),
    Verdict(unsealed=["\\xff"]),
)


def _link(files: Files) -> None:
    target = files.path / "m3 elsewhere"
    files.record("m3").rename(target)
    files.record("m3").symlink_to(target)


row("a link in place of a record, to the same words", _link, ALTERED_3)
row(
    "a link that leads nowhere",
    lambda files: files.record("m9").symlink_to("nowhere"),
    Verdict(altered="9", ok=False),
)
row("a folder named like a record", lambda files: files.record("m9").mkdir(), Verdict(altered="9", ok=False))
row("a FIFO named like a record", lambda files: os.mkfifo(files.record("m9")), Verdict(altered="9", ok=False))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_tenant(tmp_path_factory.mktemp("template"))


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 90


@pytest.mark.parametrize("what", TABLE)
def test_damage_is_told(what: str, template: Files, tmp_path: Path) -> None:
    files = copy_of(template, tmp_path)
    change, verdict = TABLE[what]
    change(files)
    verdict.check(files)


def test_each_bit_of_an_entry_is_told(template: Files) -> None:
    with held(template.path.parent, template.path.name) as tenant:
        whole, records = list(tenant.lines()), list(tenant.records())
    line = whole[2]
    for place, bit in itertools.product(range(len(line) - 1), range(8)):
        flipped = bytearray(line)
        flipped[place] ^= 1 << bit
        lines = [*whole[:2], bytes(flipped), *whole[3:]]
        report = verify(lines, records, read=read_file_line, heads={}, unsealed_is_wrong=False)
        assert report.walk.broken_at == 3, (place, bit)
        assert report.sealed == (["m1"] if report.walk.reason == "prev" else ["m1", "m2"]), (place, bit)
        assert {"m4", "m5"} <= set(report.disputed)
        assert report.ok is False


def test_two_tenants_ledgers_swapped(tmp_path: Path) -> None:
    ours = make_tenant(tmp_path, "cc", ("m1", "m2"))
    theirs = make_tenant(tmp_path, "dd", ("m2", "m3"), summary="theirs")
    first, second = ours.ledger.read_bytes(), theirs.ledger.read_bytes()
    ours.ledger.write_bytes(second)
    theirs.ledger.write_bytes(first)
    Verdict(entries=2, sealed="", altered="2", missing="3", unsealed="1", ok=False).check(ours)
    Verdict(entries=2, sealed="", altered="2", missing="1", unsealed="3", ok=False).check(theirs)


def test_a_rewrite_is_told_by_an_anchored_head(template: Files, tmp_path: Path) -> None:
    files = copy_of(template, tmp_path)
    anchored = {2: files.entries()[1]["hash"], 4: files.entries()[3]["hash"]}
    assert checked(files, anchored).ok is True
    _rewrite_all(files)
    report = checked(files, anchored)
    assert (report.ok, report.head_matches, report.walk.heads_missing) == (False, False, [4])


def test_a_cut_below_an_anchored_head_is_told(template: Files, tmp_path: Path) -> None:
    files = copy_of(template, tmp_path)
    anchored = {4: files.entries()[3]["hash"]}
    files.put_lines(files.lines()[:4])
    assert checked(files, anchored).ok is True
    files.put_lines(files.lines()[:3])
    assert checked(files, anchored).ok is False


@pytest.mark.parametrize("name", ["ledger.jsonl", "memory", "ledger.lock"])
def test_a_link_in_place_of_a_file_of_the_tenant_is_not_followed(
    name: str, template: Files, tmp_path: Path
) -> None:
    files = copy_of(template, tmp_path)
    (files.path / name).rename(tmp_path / "elsewhere")
    (files.path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict, match="link"):
        checked(files)


@pytest.mark.parametrize("name", ["ledger.jsonl", "ledger.lock"])
def test_a_folder_in_place_of_a_file_is_told(name: str, template: Files, tmp_path: Path) -> None:
    files = copy_of(template, tmp_path)
    (files.path / name).unlink()
    (files.path / name).mkdir()
    with pytest.raises(Conflict):
        checked(files)


def test_a_link_in_place_of_a_tenant_is_not_followed(template: Files, tmp_path: Path) -> None:
    files = copy_of(template, tmp_path)
    link = tmp_path / "link"
    link.symlink_to(files.path)
    with pytest.raises(Conflict, match="link"):
        checked(Files(link))
