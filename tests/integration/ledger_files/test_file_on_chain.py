"""Agents kept as files, a whole server and its chain: heads anchored, rewrites told, records brought in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from chainmemory.client import Client
from chainmemory.protocol.records import file_record_sha256
from tests.support.server import Server, cli
from tests.support.tenants import Files, make_tenant, record, written


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "agents").mkdir()
    server = Server(folder / "home", CHAINMEMORY_AGENTS_DIR=str(folder / "agents")).start()
    yield server
    server.end()


@pytest.fixture
def agents(server: Server) -> Path:
    return server.home.with_name("agents")


def run(server: Server, *arguments: str) -> CompletedProcess[str]:
    return cli(server.home, *arguments, CHAINMEMORY_AGENTS_DIR=str(server.home.with_name("agents")))


def forge(files: Files) -> None:
    """Rewrite m1 and the whole chain after it, as who can write the folder can."""
    files.change_record("m1", lambda value: value.update(summary="forged"))
    forged = file_record_sha256(json.loads(files.record("m1").read_bytes()))
    files.change_entry(1, lambda entry: entry.update(content_sha256=forged))
    files.rehash(1)


def test_a_head_on_chain_tells_a_rewritten_ledger(server: Server, agents: Path) -> None:
    files = make_tenant(agents, "cc", ("m1", "m2"))
    ran = run(server, "ledger", "verify", "--agent", "cc", "--anchored")
    assert (ran.returncode, "no head of it is on chain yet" in ran.stderr) == (2, True)

    ran = run(server, "ledger", "anchor", "--agent", "cc")
    assert ran.returncode == 0, ran.stderr
    head = files.entries()[-1]["hash"]
    assert ran.stdout.startswith(f"cc: entry 2 {head} anchored in block ")
    again = json.loads(run(server, "ledger", "anchor", "--agent", "cc", "--json").stdout)
    assert again["anchor"]["status"] == "anchored"

    ran = run(server, "ledger", "verify", "--agent", "cc", "--anchored")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[1:] == [f"  on chain  entry 2 {head}, as here"]
    report = json.loads(run(server, "ledger", "verify", "--agent", "cc", "--anchored", "--json").stdout)
    transaction = again["anchor"]["tx_hash"]
    assert report["anchored_head"] == {"seq": 2, "hash": head, "matches": True, "tx_hash": transaction}
    with Client(server.note()["url"]) as client:
        assert client.verify_files("cc") == report

    forge(files)
    assert run(server, "ledger", "verify", "--agent", "cc").returncode == 0, "whole, taken by itself"
    ran = run(server, "ledger", "verify", "--agent", "cc", "--anchored")
    assert ran.returncode == 1
    assert "NOT as here: this ledger was cut or rewritten" in ran.stdout
    with Client(server.note()["url"]) as client:
        told = client.verify_files("cc")
        assert (told["ok"], told["anchored_head"]["matches"]) == (False, False)
    for command in ("anchor", "seal"):
        files.record("m3").write_bytes(written(record("m3")))
        ran = run(server, "ledger", command, "--agent", "cc")
        assert (ran.returncode, "lacks the anchored head at 2" in ran.stderr) == (1, True)
    assert len(files.lines()) == 2


def test_what_is_not_fit_for_the_chain(server: Server, agents: Path) -> None:
    files = make_tenant(agents, "bad", ("m1", "m2"))
    files.put_lines(files.lines()[1:])
    make_tenant(agents, "blank", ()).path.joinpath("memory").mkdir()
    assert run(server, "ledger", "anchor", "--agent", "bad").returncode == 1
    ran = run(server, "ledger", "anchor", "--agent", "blank")
    assert (ran.returncode, "seal something first" in ran.stderr) == (2, True)


def test_records_come_in_as_memories_with_their_seals_once(server: Server, tmp_path: Path) -> None:
    files = make_tenant(tmp_path, "mnemo", ("m1", "m2", "m3"))
    files.record("m9").write_bytes(
        written(
            {"summary": "not sealed", "key_facts": "?", "timestamp": "2026-09-13T22:02:35Z", "tags": ["t"]}
        )
    )
    assert run(server, "keys", "create", "--replace").returncode == 0
    first = run(server, "import", "mnemo", str(files.path))
    assert (first.returncode, first.stdout) == (0, "Saved 4 records of mnemo as memories.\n"), first.stderr
    again = json.loads(run(server, "import", "mnemo", str(files.path), "--json").stdout)
    assert (again["saved"], again["known"]) == (0, 4)

    key = json.loads((server.home / "client.json").read_bytes())["api_key"]
    with Client(server.note()["url"], key) as client:
        memories = {memory["provenance"]["record_id"]: memory for memory in client.iter_memories()}
        assert len(memories) == 4
        shown = client.get(f"/v1/memory/{memories['m2']['memory_number']}/decrypted")
    assert shown["summary"] == "what m2 says, ünï\n\nFacts:\n- a\n- b ✓"
    entry = files.entries()[1]
    header: dict[str, Any] = shown["header"]
    assert header["provenance"] == {
        "store": "mnemo",
        "record_id": "m2",
        "agent_id": "cc",
        "content_sha256": entry["content_sha256"],
        "ledger_seq": "2",
        "ledger_hash": entry["hash"],
    }
    assert (header["occurred_at"], header["project"], header["kind"], header["source"]) == (
        "2026-09-19T20:53:20.500000Z",
        "x",
        "mnemo.record",
        "import",
    )
    assert "ledger_hash" not in memories["m9"]["provenance"]
    assert memories["m9"]["occurred_at"] == "2026-09-13T22:02:35.000000Z"
    assert set(memories["m9"]["tags"]) == {"mnemo", "t"}


def test_altered_records_are_left_out_and_told(server: Server, tmp_path: Path) -> None:
    files = make_tenant(tmp_path, "partly", ("m1", "m2"))
    files.change_record("m2", lambda value: value.update(summary="forged"))
    files.record("long").write_bytes(written({"summary": "x" * 300_000}))
    assert run(server, "keys", "create", "--replace").returncode == 0
    ran = run(server, "import", "mnemo", str(files.path), "--project", "p")
    assert (ran.returncode, ran.stdout) == (1, "Saved 2 records of partly as memories.\n")
    assert "m2: altered, so it was left out." in ran.stderr
    assert "long was cut after 256 KiB" in ran.stderr
