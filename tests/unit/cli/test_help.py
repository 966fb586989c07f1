"""What a newcomer meets first: the help of every command, and what a wrong one is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from chainmemory.cli.app import app
from tests.support.server import ROOT, cli

RAW_TYPE = re.compile(r"<(list\[|int|float|path|str)[^>]*>")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every command and group."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


ALL = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_is_whole(tmp_path: Path, path: tuple[str, ...]) -> None:
    ran = cli(tmp_path, *path, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    usage, _, rest = ran.stdout.partition("\n")
    assert usage.startswith(" ".join(["Usage: chainmemory", *path]))
    assert "..." not in rest.replace("ID...", "")  # a sentence that was cut
    options = rest.partition("\nOptions:\n")[2]
    assert not RAW_TYPE.search(options), options
    assert max(map(len, ran.stdout.splitlines())) <= 80
    described = [line for line in options.splitlines() if line.startswith("  --")]
    assert described
    assert list(tmp_path.iterdir()) == []


def test_the_documents_name_every_exit_code_of_the_help(tmp_path: Path) -> None:
    told = cli(tmp_path, "--help").stdout.partition("Exit codes:")[2]
    rows = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE)
    assert rows == re.findall(r"\b(\d+) ", told) == ["0", "1", "2", "130", "141"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("memory", "Did you mean 'memories'"),
        ("memories --limt 1", "--limit"),
        ("memories --limit x", "should be a valid integer"),
        ("save", "Missing argument 'TEXT'"),
        ("anchors list --kind x", "'memory', 'state', 'head'"),
        ("demo --timeout -1", "greater than or equal to 0"),
        ("serve --log-level loud", "'debug', 'info', 'warning' or 'error'"),
        ("serve --port 99999", "less than or equal to 65535"),
        ("verify", "Give a project's public name, or --all"),
        ("verify x --all", "not both"),
        ("ledger verify", "--agent, or all with --all"),
        ("contracts deploy", "Name the chain with --rpc"),
        ("contracts grant 0x0", "Name the chain with --rpc"),
        ("anchors list", "There is no store at"),
        ("memories", "create an account with `chainmemory keys create`"),
    ],
)
def test_wrong_use_says_what_is_right_and_does_nothing(tmp_path: Path, line: str, words: str) -> None:
    ran = cli(tmp_path / "home", *line.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert list(tmp_path.iterdir()) == []
