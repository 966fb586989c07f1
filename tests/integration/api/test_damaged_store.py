"""Damage of the store's file that is met while the API runs: named, logged, and no longer ready."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chainmemory import logging
from chainmemory.engine.runtime import Engine
from chainmemory.errors import ConfigurationError
from chainmemory.settings import Settings
from tests.support.api import Account, refused, running_api


def _garble_root(store: Path, table: str) -> None:
    """Put random bytes over a table's first page."""
    with closing(sqlite3.connect(store)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        [size] = raw.execute("PRAGMA page_size").fetchone()
    with store.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(os.urandom(size))


def test_damage_met_while_it_runs_is_named_logged_and_not_ready(tmp_path: Path) -> None:
    with running_api(tmp_path) as api:
        ada = api.account()
        for number in range(3):
            ada.save(f"memory {number}")
    _garble_root(tmp_path / "store.sqlite", "memories")
    logging.configure("api", file=tmp_path / "api.log")
    try:
        with running_api(tmp_path) as api:
            ada = Account(api, ada.key, ada.account_id)
            before = api.http.get("/readyz").json()["details"]
            assert before["store"] == "ok"
            for answer in (
                ada.call("GET", "/v1/memory/1"),
                ada.call("POST", "/v1/memory", {"content": "one more"}),
            ):
                assert "restore it from a backup" in refused(answer, 503, "store_damaged")["error"]
            assert "damaged" in refused(api.http.get("/readyz"), 503, "not_ready")["details"]["store"]
            assert ada.call("GET", "/v1/keys").status_code == 200  # what is whole is still served
    finally:
        logging.unconfigure()
    lines = [json.loads(line) for line in (tmp_path / "api.log").read_text().splitlines()]
    assert ("error", "store.damaged") in {(line["level"], line["action"]) for line in lines}


def test_damage_of_what_the_start_reads_ends_it(tmp_path: Path) -> None:
    with running_api(tmp_path) as api:
        api.account()
    _garble_root(tmp_path / "store.sqlite", "accounts")
    with pytest.raises(ConfigurationError, match=r"can't be opened.*damaged"):
        Engine.open(Settings.load(home=tmp_path))
