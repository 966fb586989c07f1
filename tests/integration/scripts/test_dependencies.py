"""Every library that is imported is named in pyproject.toml; every pin is exact, without an address."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OURS = {"chainmemory", "api", "tests", "scripts"}


def normal(requirement: str) -> str:
    return re.split(r"[\[<>=;! ]", requirement)[0].lower().replace("_", "-")


def declared(*, dev: bool) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = project["dependencies"] + (project["optional-dependencies"]["dev"] if dev else [])
    return {normal(name) for name in names}


def imported(folders: tuple[str, ...]) -> dict[str, str]:
    """Return top-level module → a file that imports it, over all Python files of the folders."""
    found: dict[str, str] = {}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            found |= {name.split(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return {module: file for module, file in found.items() if module not in sys.stdlib_module_names | OURS}


@pytest.mark.parametrize(("folders", "dev"), [(("chainmemory", "api"), False), (("tests", "scripts"), True)])
def test_what_is_imported_is_declared(folders: tuple[str, ...], dev: bool) -> None:
    distributions = packages_distributions()
    undeclared = {
        module: file
        for module, file in imported(folders).items()
        if not {normal(name) for name in distributions.get(module, [])} & declared(dev=dev)
    }
    assert undeclared == {}


def test_pins_are_exact_and_hold_no_address() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 50
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+]+", line)] == []
    assert declared(dev=True) <= {normal(line) for line in pins}
