"""Writing settings.toml: what is read back is what was written, and the rest of the file stays."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.cli.settings_file import write_settings
from chainmemory.settings import Settings


@pytest.fixture(autouse=True)
def _keep_the_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_new_file_is_private_and_read_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_settings(Settings.load(home=home), {"rpc_url": "https://h/", "expected_chain_id": 5})
    settings = Settings.load(home=home)
    assert (settings.rpc_url, settings.expected_chain_id) == ("https://h/", 5)
    assert stat.S_IMODE((home / "settings.toml").stat().st_mode) == 0o600


def test_known_settings_are_replaced_and_all_else_stays(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(
        '# ours\nport = 9 # kept\nrpc_url = "https://old/"\nlog_level = "error"'
    )
    write_settings(
        Settings.load(home=tmp_path), {"rpc_url": 'https://new/?a="b"\\', "anchor_address": "0xAb"}
    )
    assert (tmp_path / "settings.toml").read_text().splitlines() == [
        "# ours",
        "port = 9 # kept",
        'rpc_url = "https://new/?a=\\"b\\"\\\\"',
        'log_level = "error"',
        'anchor_address = "0xAb"',
    ]
    assert Settings.load(home=tmp_path).rpc_url == 'https://new/?a="b"\\'
