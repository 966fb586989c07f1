"""Text that would steer a terminal or hide in it, in everything that is stored: no command prints it raw."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.git_repos import Repo
from tests.support.served import Served, serving
from tests.support.server import cli
from tests.support.tenants import make_tenant
from tests.support.terminal import cli_on_terminal

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\u2066\u200b\r[red]x[/red]\x7f\x85"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\u2066\u200b\x0d[red]x[/red]\x7f\x85"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\udc80-\udcff]")
# What a progress bar of our own does to the terminal; nothing of EVIL is among it.
BAR = re.compile("\x1b\\[(?:\\?25[lh]|[0-9;]*m|2K|1A)|\r")
# A record's and a folder's name may hold no slash.
EVIL_NAME = EVIL.replace("/", "")


@dataclass
class Desk:
    """A home with an account that stores such text wherever text is stored."""

    home: Path
    url: str
    agents: Path
    repo: Path

    def environ(self) -> dict[str, str]:
        return {"CHAINMEMORY_URL": self.url, "CHAINMEMORY_AGENTS_DIR": str(self.agents)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="module")
def desk(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    place = tmp_path_factory.mktemp("desk")
    desk = Desk(place / "home", f"http://127.0.0.1:{served.port}", place / "agents", place / EVIL_NAME)
    assert cli(desk.home, "keys", "create", **desk.environ()).returncode == 0
    ran = cli(desk.home, "save", EVIL + "\nsecond line", "--tag", EVIL, "--kind", EVIL, **desk.environ())
    assert ran.returncode == 0, ran.stderr
    ops = [{"op": "add_decision", "title": EVIL, "statement": EVIL}, {"op": "set_phase", "phase": EVIL}]
    ran = cli(desk.home, "ops", "launch", "-", data=json.dumps(ops), **desk.environ())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert cli(desk.home, "keys", "add", EVIL, **desk.environ()).returncode == 0
    evil = make_tenant(desk.agents, EVIL_NAME, (EVIL_NAME,))
    evil.record(EVIL_NAME).write_bytes(evil.record(EVIL_NAME).read_bytes().replace("ünï".encode(), b"forged"))
    Repo(desk.repo).commit(EVIL)
    (place / "ops.json").write_text(json.dumps([{"op": EVIL, "x": 1}, {"op": "set_phase", EVIL: EVIL}]))
    return desk


COMMANDS = {
    "memories": 0,
    "state launch": 0,
    "keys list": 0,
    "ops launch {place}/ops.json": 1,
    "ops launch {place}/{evil}": 2,
    "state {evil}": 2,
    "keys add {evil} --scope {evil}": 2,
    "verify {evil}": 2,
    "nosuch{evil}": 2,
    "state --nosuch{evil}": 2,
    "ledger verify --all": 1,
    "ledger verify --agent {evil}x": 2,
    "import mnemo {place}/agents/{evil}": 1,
    "import git {place}/{evil} --project p": 0,
    "demo {place}/{evil} --project p --timeout 0": 2,
    "chain export {place}/{evil}": 2,
    "anchors explain {evil}@1 --database {place}/{evil}/none/none": 2,
    "status --home {place}/{evil}": 1,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_it_raw(desk: Desk, command: str) -> None:
    names = {"place": str(desk.home.parent), "evil": EVIL_NAME}
    arguments = [part.format(**names) for part in command.split(" ")]
    code, shown = cli_on_terminal(desk.home, *arguments, **desk.environ())
    assert code == COMMANDS[command], shown
    if arguments[0] in ("import", "demo"):
        shown = BAR.sub("", shown)
    assert RAW.findall(shown) == []
    assert "in chainmemory itself" not in shown


@pytest.mark.parametrize("command", ["memories", "state launch", "keys list", "ledger verify --all"])
def test_a_pipe_gets_the_same(desk: Desk, command: str) -> None:
    ran = cli(desk.home, *command.split(), **desk.environ())
    assert RAW.findall(ran.stdout + ran.stderr) == []
    assert SHOWN.replace("/", "")[:60] in ran.stdout


def test_it_is_shown_for_what_it_is(desk: Desk) -> None:
    _, memories = cli_on_terminal(desk.home, "memories", **desk.environ())
    assert SHOWN[:60] in memories
    assert "second line" not in memories
    assert " …\n" in memories
    _, state = cli_on_terminal(desk.home, "state", "launch", **desk.environ())
    assert state.count(SHOWN) >= 3
    _, ledger = cli_on_terminal(desk.home, "ledger", "verify", "--all", **desk.environ())
    assert "  altered   " + SHOWN.replace("/", "") in ledger


@pytest.mark.parametrize("command", ["memories --json", "state launch --json", "keys list --json"])
def test_json_stays_exact(desk: Desk, command: str) -> None:
    code, shown = cli_on_terminal(desk.home, *command.split(), **desk.environ())
    assert (code, RAW.findall(shown)) == (0, [])
    read = json.loads(shown)
    texts = [memory["summary"].partition("\n")[0] for memory in read.get("memories", [])]
    texts += [key["label"] for key in read.get("keys", [])] + [read.get("state", {}).get("phase")]
    assert EVIL in texts
