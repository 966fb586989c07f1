"""The writer of file tenants: record before line, one at a time, and what a crash left put right."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chainmemory.errors import Conflict, Invalid, NotFound, Unavailable
from chainmemory.ledger.tenant import held
from chainmemory.ledger.tenant_write import Saved, adopt, save
from tests.support.server import ROOT
from tests.support.tenants import NOW, Files, checked, make_tenant, record, written


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return make_tenant(tmp_path, records=("m1", "m2"))


def saved(files: Files, name: str, data: bytes | None = None, **changes: object) -> Saved:
    with held(files.path.parent, files.path.name) as tenant:
        given = written(record(name, **changes)) if data is None else data
        return save(tenant, given, stem=name, now=NOW)


def adopted(files: Files) -> list[str]:
    with held(files.path.parent, files.path.name) as tenant:
        return adopt(tenant, now=NOW)[0]


def test_a_save_writes_the_record_as_given_and_seals_it(files: Files) -> None:
    data = written(record("m3")) + b"\n\n"
    done = saved(files, "m3", data)
    assert files.record("m3").read_bytes() == data
    assert (done.record, done.seq, done.known) == ("m3", 3, False)
    last = files.entries()[-1]
    assert (last["seq"], last["hash"], last["ts"], last["op"]) == (3, done.hash, NOW, "save")
    report = checked(files)
    assert (report.ok, report.sealed, report.walk.head) == (True, ["m1", "m2", "m3"], (3, done.hash))


def test_a_save_is_safe_to_repeat(files: Files) -> None:
    first = saved(files, "m3")
    again = saved(files, "m3", written(record("m3")).replace(b'": ', b'":'))
    assert (again.seq, again.hash, again.known) == (first.seq, first.hash, True)
    assert len(files.lines()) == 3


def test_a_record_never_changes(files: Files) -> None:
    with pytest.raises(Conflict, match="never changes") as told:
        saved(files, "m2", summary="other words")
    assert told.value.code == "record_exists"
    assert checked(files).sealed == ["m1", "m2"]


def test_a_record_that_is_gone_is_not_written_anew(files: Files) -> None:
    files.record("m2").unlink()
    with pytest.raises(Conflict, match="never changes"):
        saved(files, "m2")
    assert checked(files).missing == ["m2"]


def test_a_save_that_a_crash_cut_short_is_ended_by_the_next(files: Files) -> None:
    files.record("m3").write_bytes(written(record("m3")))
    assert checked(files).unsealed == ["m3"]
    assert saved(files, "m3").seq == 3
    assert checked(files).sealed == ["m1", "m2", "m3"]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{not json", b'{"id": 7}', b'{"id": ""}', b'{"a":1,"a":2}', b'{"x":1e999}', b"\xff"]
)
def test_what_is_no_record_is_refused_and_nothing_written(files: Files, data: bytes) -> None:
    before = files.ledger.read_bytes()
    with pytest.raises(Invalid):
        saved(files, "m3", data)
    assert files.ledger.read_bytes() == before
    assert not files.record("m3").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../../up",
        "/root",
        ".hidden",
        "a b",
        "ü✓",
        "x" * 3000,
        "\x1b[31m",
        "%2e",
        " lead",
        "a\\u0062",
        'q"',
        "-",
    ],
)
def test_ids_with_odd_characters_are_saved_inside_the_folder(files: Files, name: str) -> None:
    before = set(files.path.parent.rglob("*"))
    with held(files.path.parent, files.path.name) as tenant:
        data = written(record(name))
        first = save(tenant, data, stem="given", now=NOW)
        assert save(tenant, data, stem="given", now=NOW) == Saved(name, first.seq, first.hash, known=True)
    [new] = set(files.path.parent.rglob("*")) - before
    assert new.parent == files.path / "memory"
    report = checked(files)
    assert (report.ok, sorted(report.sealed)) == (True, sorted(["m1", "m2", name]))


def test_a_torn_tail_is_moved_away_by_the_next_write(files: Files) -> None:
    whole = files.ledger.read_bytes()
    files.ledger.write_bytes(whole + b'{"seq":3,"ts"')
    report = checked(files)
    assert (report.walk.broken_at, report.walk.reason) == (3, "unparseable")
    assert files.ledger.read_bytes() != whole, "a check mends nothing"
    saved(files, "m3")
    assert files.ledger.read_bytes().startswith(whole + b'{"content_sha256"')
    assert (files.path / "ledger.torn").read_bytes() == b'{"seq":3,"ts"\n'
    assert checked(files).ok is True


@pytest.mark.parametrize("torn", [b"{", b"\0\0\0\0", b"\xff", b'{"a":1,"a":1}', b" "])
def test_seal_mends_a_torn_tail_and_its_record_reads_unsealed(files: Files, torn: bytes) -> None:
    first, second = files.lines()
    files.ledger.write_bytes(first + second + torn)
    assert adopted(files) == []
    assert files.lines() == [first, second]
    files.ledger.write_bytes(first + second[:-2])
    assert checked(files).unsealed == ["m2"]
    assert adopted(files) == ["m2"]
    assert [entry["op"] for entry in files.entries()] == ["save", "adopt"]
    assert (files.path / "ledger.torn").read_bytes() == torn + b"\n" + second[:-2] + b"\n"
    assert checked(files).ok is True


def test_a_first_line_that_is_torn_is_moved_away(files: Files) -> None:
    files.ledger.write_bytes(files.lines()[0][:50])
    assert adopted(files) == ["m1", "m2"]
    assert checked(files).ok is True


def test_a_whole_last_line_without_newline_is_kept(files: Files) -> None:
    whole = files.ledger.read_bytes()
    files.ledger.write_bytes(whole[:-1])
    assert saved(files, "m3").seq == 3
    assert files.ledger.read_bytes().startswith(whole)
    assert not (files.path / "ledger.torn").exists()
    assert checked(files).ok is True


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole + b"\n",
        lambda whole: whole + b"{}\n",
        lambda whole: whole + b"{}",
        lambda whole: whole + b'{"seq":99999999999999999999}',
        lambda whole: whole.replace(b'"seq":2', b'"seq":3'),
        lambda whole: whole + b'{"torn\n',
    ],
    ids=["blank", "no entry", "no entry, no newline", "huge", "altered", "bad line with its newline"],
)
def test_nothing_is_added_to_a_last_line_that_is_no_entry(files: Files, damage: object) -> None:
    damaged = damage(files.ledger.read_bytes())  # type: ignore[operator]
    files.ledger.write_bytes(damaged)
    for attempt in (lambda: saved(files, "m3"), lambda: adopted(files)):
        with pytest.raises(Conflict) as told:
            attempt()
        assert told.value.code == "ledger_broken"
    assert files.ledger.read_bytes() == damaged
    assert not files.record("m3").exists()


def test_seal_never_seals_an_altered_record(files: Files) -> None:
    files.change_record("m2", lambda value: value.update(summary="forged"))
    files.record("m9").write_bytes(b"no JSON")
    files.record("m3").write_bytes(written(record("m3")))
    assert adopted(files) == ["m3"]
    report = checked(files)
    assert (report.ok, sorted(report.altered)) == (False, ["m2", "m9"])


def test_seal_refuses_a_broken_chain_with_the_report(files: Files) -> None:
    files.put_lines(files.lines()[1:])
    files.record("m3").write_bytes(written(record("m3")))
    with pytest.raises(Conflict) as told:
        adopted(files)
    assert told.value.code == "ledger_broken"
    assert told.value.details["report"]["broken_at"] == 1
    assert len(files.lines()) == 1


def test_seal_refuses_where_an_anchored_head_is_missing(files: Files) -> None:
    files.record("m3").write_bytes(written(record("m3")))
    with held(files.path.parent, "cc") as tenant, pytest.raises(Conflict) as told:
        adopt(tenant, now=NOW, heads={2: "ab" * 32})
    assert told.value.code == "head_missing"
    assert len(files.lines()) == 2


def test_one_writer_at_a_time_across_processes(files: Files) -> None:
    code = (
        "import sys; from pathlib import Path; from chainmemory.ledger.tenant import held; "
        "from chainmemory.ledger.tenant_write import save; "
        "root, who = Path(sys.argv[1]), sys.argv[2]\n"
        "for n in range(10):\n"
        "    with held(root, 'cc') as tenant: "
        "save(tenant, b'{\"summary\":\"x\"}', stem=f'{who}{n}', now=float(n))"
    )
    arguments = [sys.executable, "-c", code, str(files.path.parent)]
    processes = [subprocess.Popen([*arguments, who], cwd=ROOT) for who in "ab"]
    assert [process.wait(60) for process in processes] == [0, 0]
    report = checked(files)
    assert (report.ok, report.walk.entries, len(report.sealed)) == (True, 22, 22)


def test_the_lock_of_a_killed_holder_is_free(files: Files) -> None:
    code = (
        "import sys, time; from pathlib import Path; from chainmemory.ledger.tenant import held\n"
        "with held(Path(sys.argv[1]), 'cc'): print('held', flush=True); time.sleep(60)"
    )
    arguments = [sys.executable, "-c", code, str(files.path.parent)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Unavailable, match="held"), held(files.path.parent, "cc", patience_s=0.1):
            pass
        holder.kill()
        holder.wait()
        began = time.monotonic()
        assert saved(files, "m3").seq == 3
        assert time.monotonic() - began < 5


def test_threads_wait_for_each_other(files: Files) -> None:
    threads = [threading.Thread(target=saved, args=(files, f"t{number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (checked(files).ok, checked(files).walk.entries) == (True, 10)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "../cc", "a\0b"])
def test_an_agent_is_a_direct_folder(files: Files, name: str) -> None:
    with pytest.raises(Invalid), held(files.path.parent, name):
        pass


def test_an_agent_that_is_not_there(files: Files) -> None:
    with pytest.raises(NotFound), held(files.path.parent, "nobody"):
        pass


def test_a_link_in_place_of_the_temporary_file_is_not_written_through(files: Files, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (files.path / "memory" / ".record.tmp").symlink_to(outside)
    with pytest.raises(Unavailable):
        saved(files, "m3")
    assert outside.read_text() == "mine"


def test_a_record_written_by_the_seed_tool_is_read_like_ours(tmp_path: Path) -> None:
    vector = json.loads((ROOT / "tests" / "vectors" / "file_ledger.json").read_text("utf-8"))
    (tmp_path / "cc" / "memory").mkdir(parents=True)
    files = Files(tmp_path / "cc")
    for value in vector["records"]:
        files.record(value["id"]).write_bytes(written(value))
    files.put_lines([written(entry) + b"\n" for entry in vector["entries"]])
    assert checked(files).ok is True
    done = saved(files, "m9")
    assert (done.seq, files.entries()[-1]["prev"]) == (4, vector["entries"][2]["hash"])
    assert checked(files).ok is True
