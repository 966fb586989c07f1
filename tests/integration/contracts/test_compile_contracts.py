"""The committed artifacts are, byte for byte, what the committed sources compile to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.node
def test_the_sources_compile_to_the_committed_artifacts_wherever_they_lie(tmp_path: Path) -> None:
    """In a copy under another path, so that a path in the output would show as a difference too."""
    for folder in ("scripts", "contracts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    done = subprocess.run(
        [sys.executable, tmp_path / "scripts" / "compile-contracts", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_an_artifact_that_differs_by_a_byte_or_is_left_over_is_named() -> None:
    made = {"A.json": "0x6080", "B.json": "0x6080"}
    differing = script().differing
    assert differing(made, dict(made)) == []
    assert differing(made, {**made, "B.json": "0x6081"}) == ["B.json"]
    assert differing(made, {"A.json": "0x6080", "Old.json": ""}) == ["B.json", "Old.json"]


def script() -> ModuleType:
    loader = SourceFileLoader("compile_contracts", str(ROOT / "scripts" / "compile-contracts"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
