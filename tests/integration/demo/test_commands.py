"""The thin commands against a real server: what they print, and their exit codes."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.support.server import Server, cli, eventually, run_cli

OPS = [
    {"op": "set_phase", "phase": "beta"},
    {"op": "add_decision", "title": "Ship", "statement": "On Friday.", "evidence_memory_ids": [1]},
]


@pytest.fixture
def home(server: Server, tmp_path: Path) -> Path:
    """An empty home of its own, whose commands find the server by its `run.json`."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.toml").touch()
    (home / "run.json").write_text((server.home / "run.json").read_text())
    assert cli(home, "keys", "create").returncode == 0
    return home


def test_a_key_is_shown_and_kept_privately(server: Server, home: Path) -> None:
    kept = home / "client.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    before = kept.read_text()
    ran = cli(home, "keys", "create")
    assert ran.returncode == 2
    assert "--replace" in ran.stderr
    assert kept.read_text() == before
    created = json.loads(cli(home, "keys", "create", "--json", "--no-save").stdout)
    assert created["api_key"].startswith("aic_")
    assert kept.read_text() == before
    created = json.loads(cli(home, "keys", "create", "--json", "--replace").stdout)
    assert json.loads(kept.read_text())["api_key"] == created["api_key"]


def test_save_and_list(home: Path) -> None:
    ran = cli(
        home,
        "save",
        "The first thing",
        "--project",
        "things",
        "--category",
        "DECISION",
        "--tag",
        "a",
        "--tag",
        "b",
    )
    assert (ran.returncode, ran.stdout.split()[:2]) == (0, ["memory", "1"])
    saved = json.loads(cli(home, "save", "-", "--json", data="from stdin\nsecond line").stdout)
    assert saved["memory_number"] == 2
    listed = cli(home, "memories")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["2", "1"]
    assert "from stdin" in listed.stdout
    assert "second line" not in listed.stdout
    assert listed.stderr == "2 of 2\n"
    [memory] = json.loads(cli(home, "memories", "--project", "things", "--json").stdout)["memories"]
    typo = cli(home, "memories", "--project", "thinsg")
    assert (typo.returncode, typo.stdout) == (2, "")
    assert "There is no project thinsg. There are: " in typo.stderr
    assert (memory["category"], memory["source"], memory["tags"]) == ("DECISION", "cli", ["a", "b"])


def test_a_memory_cannot_steer_the_terminal(home: Path) -> None:
    cli(home, "save", "bell\x07 and \x1b[31mred")
    assert "\x1b" not in cli(home, "memories").stdout
    assert "\x07" not in cli(home, "memories").stdout


def test_ops_state_and_verify(home: Path, tmp_path: Path) -> None:
    cli(home, "save", "We ship on Friday.")
    (tmp_path / "ops.json").write_text(json.dumps(OPS))
    ran = cli(home, "ops", "launch", str(tmp_path / "ops.json"))
    assert ran.returncode == 0
    assert ran.stdout.startswith("launch version 1  0x")
    assert "applied     1  add_decision  dec_0001" in ran.stdout
    ran = cli(home, "ops", "launch", "-", data=json.dumps([{"op": "set_phase", "phase": "beta"}, OPS[1]]))
    assert ran.returncode == 1
    assert "rejected    0  set_phase  no_change" in ran.stdout
    shown = cli(home, "state", "launch")
    assert "phase           beta" in shown.stdout
    assert "dec_0002" in shown.stdout
    state = json.loads(cli(home, "state", "launch", "--version", "1", "--json").stdout)
    assert state["version"] == 1
    project = state["state"]["state_meta"]["project_id"]
    eventually(lambda: cli(home, "state", "launch", "--json").stdout.count('"anchored"'), "it is anchored")
    ran = cli(home, "verify", project)
    assert (ran.returncode, "2 anchored versions found in the contract" in ran.stdout) == (0, True)
    checked = json.loads(cli(home, "verify", project, "--json").stdout)
    assert (checked["compared"], checked["not_on_chain_yet"]) == (2, 0)


def test_a_dry_run_writes_nothing(home: Path) -> None:
    ran = cli(home, "ops", "never", "-", "--dry-run", data=json.dumps([OPS[0]]))
    assert ran.returncode == 0
    ran = cli(home, "state", "never")
    assert ran.returncode == 2


def test_status(server: Server, home: Path) -> None:
    shown = json.loads(cli(home, "status", "--json").stdout)
    assert shown["ready"] is True
    assert shown["url"] == server.note()["url"]
    assert shown["account"]["local_memories"] == 0


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        (["save", ""], "", "empty"),
        (["save", "-"], "", "empty"),
        (["save", "x", "--category", "NONE"], "", "category"),
        (["save", "x", "--importance", "11"], "", "importance"),
        (["save", "x", "--occurred-at", "yesterday"], "", "occurred_at"),
        (["memories", "--limit", "0"], "", "--limit"),
        (["ops", "p", "-"], "{", "JSON"),
        (["ops", "p", "-"], '{"op": 1}', "list of operations"),
        (["ops", "p", "-"], "[]", "ops"),
        (["ops", "p", "/no/such/file"], "", "can't be read"),
        (["ops", "No Slug", "-"], '[{"op": "set_phase", "phase": "x"}]', ""),
        (["state", "nothing-here"], "", ""),
        (["verify", "nothing-here"], "", ""),
        (["nonsense"], "", "nonsense"),
        (["save", "x", "--url", "http://127.0.0.1:9"], "", "API key"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    home: Path, arguments: list[str], data: str, told: str
) -> None:
    ran = cli(home, *arguments, data=data)
    assert ran.returncode == 2
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for arguments in (["status"], ["keys", "create"], ["verify", "x"], ["demo"]):
        ran = cli(home, *arguments, CHAINMEMORY_PORT="9")
        assert ran.returncode == 2
        assert "No ChainMemory server answers at http://127.0.0.1:9" in ran.stderr


def test_a_wrong_key(home: Path) -> None:
    ran = cli(home, "memories", CHAINMEMORY_API_KEY="aic_nobody")
    assert ran.returncode == 2
    assert "aic_nobody" not in ran.stderr


def test_the_kept_key_goes_to_no_other_server(home: Path) -> None:
    ran = cli(home, "memories", "--url", "http://127.0.0.1:9")
    assert (ran.returncode, "There is no API key" in ran.stderr) == (2, True)


def test_bytes_that_are_no_text(home: Path) -> None:
    ran = run_cli(home, "save", "-", data=b"caf\xe9")
    assert (ran.returncode, "isn't valid UTF-8" in ran.stderr) == (2, True)
    ran = run_cli(home, "save", "caf\udce9")
    assert (ran.returncode, "isn't valid UTF-8" in ran.stderr) == (2, True)
