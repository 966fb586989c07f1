"""The committed artifacts are, byte for byte, what the committed sources compile to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.node


def check(root: Path) -> subprocess.CompletedProcess[str]:
    script = root / "scripts" / "compile-contracts"
    return subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)


def test_the_sources_compile_to_the_committed_artifacts() -> None:
    done = check(ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_artifact_that_differs_is_named_wherever_the_checkout_lies(tmp_path: Path) -> None:
    """In a copy under another path, so that a path in the output would show as a difference too."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "contracts", tmp_path / "contracts", symlinks=True)
    altered = tmp_path / "contracts" / "artifacts" / "MemoryRegistry.json"
    altered.write_text(altered.read_text().replace("0x6080", "0x6081", 1))
    done = check(tmp_path)
    assert done.returncode == 1
    assert done.stderr == "contracts/artifacts/MemoryRegistry.json is not what its sources compile to\n"
