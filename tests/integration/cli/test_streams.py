"""Standard streams and variables as a shell can hand them over, and files that can't be what was meant.

Each ends in one line that says what to do, and a documented exit code; none is told as a defect of ours.
"""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.served import serving
from tests.support.server import PATIENCE_S, ROOT, cli, environment
from tests.support.terminal import cli_into

TEXT = "é 日本 \U0001f600"


@dataclass
class Desk:
    home: Path
    url: str

    def shell(self, command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a bash line in which `chainmemory` is ours."""
        ours = f'chainmemory() {{ {shlex.quote(sys.executable)} -m chainmemory.cli "$@"; }}\n'
        return subprocess.run(
            ["bash", "-c", ours + command],
            env=environment(self.home, CHAINMEMORY_URL=self.url, **environ),
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=PATIENCE_S,
        )

    def cli(self, *arguments: str, data: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return cli(self.home, *arguments, data=data, **{"CHAINMEMORY_URL": self.url, **environ})


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    place = tmp_path_factory.mktemp("streams")
    (place / "served").mkdir()
    with serving(place / "served") as served:
        desk = Desk(place / "home", f"http://127.0.0.1:{served.port}")
        assert desk.cli("keys", "create").returncode == 0
        assert desk.cli("save", TEXT).returncode == 0
        yield desk


CLOSED = {
    "chainmemory save x >&-": (
        2,
        "chainmemory: Standard output is closed; give it a file, a pipe, or /dev/null.\n",
    ),
    "chainmemory ops launch - <&-": (
        2,
        "chainmemory: Standard input is closed; pipe in what is to be read, ",
    ),
    "chainmemory memories 2>&- | head -c 0; exit ${PIPESTATUS[0]}": (141, ""),
}


@pytest.mark.parametrize("command", CLOSED)
def test_a_stream_that_is_closed_or_left(desk: Desk, command: str) -> None:
    ran = desk.shell(command)
    code, words = CLOSED[command]
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    assert ran.stderr.startswith(words)
    assert ran.stderr.count("\n") == (1 if words else 0)
    # `save x >&-` saved nothing: it is told before anything is done.
    assert json.loads(desk.cli("memories", "--json").stdout)["total"] == 1


@pytest.mark.parametrize("command", ["memories", "memories --json", "--help", "version"])
def test_a_full_disk_behind_standard_output(desk: Desk, command: str) -> None:
    errors = io.StringIO()
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        code = cli_into(full, errors, desk.home, *command.split(), CHAINMEMORY_URL=desk.url)
    assert code == 2
    assert errors.getvalue().startswith(
        "chainmemory: standard output can't be written: No space left on device. "
    )
    assert errors.getvalue().count("\n") == 1


def test_a_full_disk_behind_the_errors_changes_nothing_else(desk: Desk) -> None:
    output = io.StringIO()
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        assert cli_into(output, full, desk.home, "memories", CHAINMEMORY_URL=desk.url) == 0
        assert cli_into(output, full, desk.home, "memories", "--limit", "0") == 2
    assert output.getvalue().count("\n") == 1


def test_an_encoding_without_the_letters_shows_them_escaped(desk: Desk) -> None:
    ran = desk.shell("chainmemory memories", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "1 of 1\n")
    assert r"\xe9 \u65e5\u672c \U0001f600" in ran.stdout


INPUT = {
    ("ops", "launch", "-"): "standard input must hold a JSON list",
    ("ops", "launch", "/"): "/ can't be read: Is a directory",
    ("ops", "launch", "nosuch.json"): "nosuch.json can't be read: No such file",
    ("ops", "launch", "{bytes}"): "must hold a JSON list of operations: the bytes are not UTF-8",
    ("save", "-"): "content must not be empty",
    ("ledger", "append", "/", "--agent", "a"): "/ can't be read: Is a directory",
    ("ledger", "append", "-", "--agent", "a"): "A record is a JSON object",
    ("ledger", "append", "{bytes}", "--agent", "a"): "A record is a JSON object",
    ("import", "mnemo", "{bytes}"): "isn't followed",
    ("save", "x", "--project", "\udcff"): "isn't Unicode",
    ("state", "\udcff"): "isn't Unicode",
    ("verify", "\udcff"): "isn't Unicode",
    ("status", "--home", "~nosuch/x"): "no such user",
}


@pytest.mark.parametrize("arguments", INPUT, ids=" ".join)
def test_input_that_is_not_what_was_meant(desk: Desk, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    given = [argument.format(bytes=tmp_path / "bytes") for argument in arguments]
    ran = desk.cli(*given, CHAINMEMORY_AGENTS_DIR=str(tmp_path / "agents"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert INPUT[arguments] in ran.stderr.splitlines()[-1]
    assert "chainmemory itself" not in ran.stderr


VARIABLES = {
    ("CHAINMEMORY_API_KEY", "aic_é"): "The API key of the variable CHAINMEMORY_API_KEY can't be right",
    ("CHAINMEMORY_API_KEY", "\udcff"): "The API key of the variable CHAINMEMORY_API_KEY can't be right",
    ("CHAINMEMORY_API_KEY", "aic_x\r"): "The API key of the variable CHAINMEMORY_API_KEY can't be right",
    ("CHAINMEMORY_API_KEY", "aic_x "): "The API key of the variable CHAINMEMORY_API_KEY can't be right",
    ("CHAINMEMORY_ADMIN_TOKEN", "é"): "The admin token can't be right",
    ("CHAINMEMORY_URL", "é"): "The server's address (--url, CHAINMEMORY_URL) isn't one",
    ("CHAINMEMORY_URL", "ftp://x"): "The server's address (--url, CHAINMEMORY_URL) isn't one",
    ("CHAINMEMORY_URL", "http://x:99999"): "The server's address (--url, CHAINMEMORY_URL) isn't one",
    ("CHAINMEMORY_URL", "http://\udcff"): "The server's address (--url, CHAINMEMORY_URL) isn't one",
    ("CHAINMEMORY_PORT", "\udcff"): "port (CHAINMEMORY_PORT)",
}


@pytest.mark.parametrize(("variable", "value"), VARIABLES)
def test_a_variable_that_can_not_be_right(desk: Desk, variable: str, value: str) -> None:
    command = ["keys", "create", "--no-save"] if variable.endswith("TOKEN") else ["memories"]
    ran = desk.cli(*command, **{variable: value})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert VARIABLES[variable, value] in ran.stderr
    assert value not in ran.stderr


def test_an_empty_key_variable_is_none(desk: Desk) -> None:
    assert desk.cli("memories", CHAINMEMORY_API_KEY="").returncode == 0


def test_a_key_that_can_not_be_kept_is_shown_all_the_same(desk: Desk, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "client.new").mkdir(parents=True)
    (home / "logs").mkdir()
    ran = cli(home, "keys", "create", "--json", CHAINMEMORY_URL=desk.url)
    assert (ran.returncode, json.loads(ran.stdout)["api_key"][:4]) == (2, "aic_")
    assert f"{home}/client.new can't be used: Is a directory" in ran.stderr


def test_a_full_disk_is_told_as_one(desk: Desk, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    (home / "client.new").symlink_to("/dev/full")
    ran = cli(home, "keys", "create", "--json", CHAINMEMORY_URL=desk.url)
    assert (ran.returncode, json.loads(ran.stdout)["api_key"][:4]) == (2, "aic_")
    assert "the system can't go on: No space left on device. Make room" in ran.stderr


@pytest.mark.parametrize("url", ["{}", "sqlite:///{}"])
def test_a_look_makes_no_store(tmp_path: Path, url: str) -> None:
    file = tmp_path / "none.sqlite"
    ran = cli(tmp_path / "home", "anchors", "list", "--database", url.format(file))
    assert (ran.returncode, f"There is no store at {file} yet" in ran.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_warning_does_not_stand_in_the_output(desk: Desk, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    home.chmod(0o755)
    ran = cli(home, "keys", "create", "--json", CHAINMEMORY_URL=desk.url)
    assert json.loads(ran.stdout)["api_key"]
    assert "chainmemory warning: Others could read" in ran.stderr


@pytest.mark.parametrize("text", ['{"pid": "x", "url": 3, "chain_url": null}', "[1]", "\xff"])
def test_a_damaged_run_note_is_no_note(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    ran = cli(tmp_path, "status", CHAINMEMORY_PORT="9")
    assert (ran.returncode, "No ChainMemory server answers at http://127.0.0.1:9 " in ran.stderr) == (2, True)


def test_settings_that_are_a_folder_are_told(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").mkdir()
    ran = cli(tmp_path, "status")
    assert (ran.returncode, "settings.toml is a folder" in ran.stderr) == (2, True)
