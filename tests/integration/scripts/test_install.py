"""scripts/install and scripts/start: what they install, when they leave it, and what they say without Python.

pip is replaced by a program that writes down how it was called; `.ci/run` does the real thing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PIP = """
import pathlib, sys
calls = pathlib.Path(sys.prefix).parent / "pip-calls"
with calls.open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
sys.exit((pathlib.Path(sys.prefix).parent / "pip-fails").exists())
"""


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir(parents=True)
        for name in ("install", "start"):
            shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
        for name in ("pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder / name)

    def make_venv(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / ".venv"], check=True)
        [packages] = (self.folder / ".venv" / "lib").glob("python*/site-packages")
        (packages / "pip").mkdir()
        (packages / "pip" / "__init__.py").touch()
        (packages / "pip" / "__main__.py").write_text(PIP)

    def run(self, script: str, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, **({"PATH": path} if path is not None else {})}
        environ.pop("PYTHON", None)
        return subprocess.run(
            [self.folder / "scripts" / script, *arguments], env=environ, capture_output=True, text=True
        )

    def installed(self, *arguments: str) -> list[str]:
        """Install; return how pip was called for it."""
        (self.folder / "pip-calls").unlink(missing_ok=True)
        assert self.run("install", *arguments).returncode == 0
        calls = self.folder / "pip-calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a folder")


def test_it_installs_with_the_pins_and_only_once(checkout: Checkout) -> None:
    checkout.make_venv()
    [call] = checkout.installed()
    assert call.startswith("install")
    assert "--constraint constraints.txt" in call
    assert call.endswith("--editable .")
    assert checkout.installed() == []


def test_the_developers_tools_come_on_top_and_stay(checkout: Checkout) -> None:
    checkout.make_venv()
    checkout.installed()
    [call] = checkout.installed("--dev")
    assert call.endswith("--editable .[dev]")
    assert checkout.installed("--dev") == []
    assert checkout.installed() == []


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_a_change_of_what_is_needed_is_installed(checkout: Checkout, changed: str) -> None:
    checkout.make_venv()
    checkout.installed("--dev")
    with (checkout.folder / changed).open("a") as file:
        file.write("# changed\n")
    [call] = checkout.installed()
    assert call.endswith("--editable .[dev]")


def test_a_checkout_that_was_moved_is_installed_again(checkout: Checkout, tmp_path: Path) -> None:
    checkout.make_venv()
    checkout.installed()
    checkout.folder = checkout.folder.rename(tmp_path / "elsewhere")
    assert len(checkout.installed()) == 1


def test_an_installation_that_failed_is_done_again(checkout: Checkout) -> None:
    checkout.make_venv()
    (checkout.folder / "pip-fails").touch()
    assert checkout.run("install").returncode != 0
    (checkout.folder / "pip-fails").unlink()
    assert len(checkout.installed()) == 1


def test_without_python_it_says_what_to_install(checkout: Checkout, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "env", "dirname", "cat", "cksum", "rm"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")  # too old: the version check fails
    (tools / "python3").chmod(0o755)
    ran = checkout.run("install", path=str(tools))
    assert ran.returncode == 1
    assert "needs Python 3.11 or newer" in ran.stderr
    assert not (checkout.folder / ".venv").exists()


def test_start_passes_everything_on_to_serve(checkout: Checkout) -> None:
    checkout.make_venv()
    program = checkout.folder / ".venv" / "bin" / "chainmemory"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    program.chmod(0o755)
    ran = checkout.run("start", "--home", "a b", "--port", "1")
    assert ran.stdout == "serve|--home|a b|--port|1|"


def test_an_unknown_argument_is_refused(checkout: Checkout) -> None:
    assert checkout.run("install", "--prod").returncode == 2
