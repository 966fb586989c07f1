"""Settings that can't work are refused before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chainmemory.errors import ConfigurationError
from chainmemory.node import NodeConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("port", -1),
        ("port", 65536),
        ("period", 0),
        ("epoch", 1),
        ("chain_id", 0),
        ("peers", ["ftp://127.0.0.1"]),
        ("peers", ["127.0.0.1:8545"]),
    ],
)
def test_impossible_settings_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        NodeConfig(**{"data_dir": Path("x"), "port": 1, field: value})
    assert refusal.value.field == field


def test_a_keystore_needs_its_password_file() -> None:
    with pytest.raises(ConfigurationError, match="password file"):
        NodeConfig(data_dir=Path("x"), port=1, keystore=Path("key"))


def test_importing_the_package_does_not_load_the_evm() -> None:
    code = "import sys, chainmemory.node; assert 'eth' not in sys.modules, 'py-evm was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
