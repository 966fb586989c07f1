"""py-evm is archived upstream; whoever replaces it must find all of its uses in one file."""

from __future__ import annotations

import ast
from pathlib import Path

import chainmemory.node

PACKAGE = Path(chainmemory.node.__file__).parent


def imported(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return {module.split(".")[0] for module in modules}


def test_only_one_file_imports_it() -> None:
    users = {path.name for path in PACKAGE.rglob("*.py") if "eth" in imported(path)}
    assert users == {"evm.py"}


def test_and_every_name_taken_is_used() -> None:
    names = chainmemory_evm_names()
    texts = [path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "evm.py"]
    unused = {name for name in names if not any(name in text for text in texts)}
    assert unused == set()


def chainmemory_evm_names() -> list[str]:
    from chainmemory.node import evm

    return evm.__all__
