"""The rings of tests/conftest.py: off is said, on without the tool fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.strace
def test_with_strace(): pass

@pytest.mark.strace
@pytest.mark.geth
def test_with_both(): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests" / "conftest.py")
    (tmp_path / "tests" / "test_x.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["strace: x", "geth: x"]\naddopts = "--strict-markers"\n'
    )
    return tmp_path


def run(project: Path, *arguments: str, tools: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    folder = project / "tools"
    folder.mkdir(exist_ok=True)
    for tool in tools:
        (folder / tool).write_text("#!/bin/sh\n")
        (folder / tool).chmod(0o755)
    # Plugins of the environment take seconds to load and play no part here.
    environ = {**os.environ, "PATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environ.pop("CHAINMEMORY_TEST_GETH", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")])
def test_rings_that_are_off_are_counted_and_named(project: Path, workers: tuple[str, ...]) -> None:
    ran = run(project, *workers)
    assert ran.returncode == 0
    assert "1 passed" in ran.stdout
    assert "ring strace is off: 2 tests not run; switch on with --ring strace" in ran.stdout
    assert "ring geth is off: 1 test not run; switch on with --ring geth" in ran.stdout


def test_one_ring_on_leaves_the_tests_of_another_off(project: Path) -> None:
    ran = run(project, "--ring", "strace", tools=("strace",))
    assert ran.returncode == 0
    assert "2 passed" in ran.stdout
    assert "ring geth is off: 1 test not run" in ran.stdout
    assert "ring strace" not in ran.stdout


def test_all_rings(project: Path) -> None:
    ran = run(project, "--ring", "all", tools=("strace", "geth"))
    assert ran.returncode == 0
    assert "3 passed" in ran.stdout
    assert "is off" not in ran.stdout


def test_a_ring_that_is_on_fails_without_its_tool(project: Path) -> None:
    ran = run(project, "--ring", "strace")
    assert ran.returncode == 1
    assert "1 passed" in ran.stdout
    assert "1 error" in ran.stdout or "1 failed" in ran.stdout
    assert "ring strace is on, but its tool is missing: apt-get install strace" in ran.stdout


def test_a_misspelt_ring_is_refused(project: Path) -> None:
    assert run(project, "--ring", "stracy").returncode == 4
