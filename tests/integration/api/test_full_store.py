"""A store whose disk is full: saves say so and leave nothing behind, and go on once there is room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from chainmemory import store_file
from chainmemory.store.sqlite import SqliteBackend
from tests.support.api import Account, refused


@contextmanager
def full(ada: Account) -> Iterator[None]:
    """Let the store's file grow no more: SQLite then fails as where the disk has no room (SQLITE_FULL)."""
    backend = ada.api.engine.db._backend
    assert isinstance(backend, SqliteBackend)
    assert backend._writer is not None
    raw = backend._writer.raw
    [pages] = raw.execute("PRAGMA page_count").fetchone()
    raw.execute(f"PRAGMA max_page_count={pages}")
    try:
        yield
    finally:
        assert backend._writer.raw is raw  # the connection goes on to be used
        raw.execute("PRAGMA max_page_count=1073741823")


def test_a_full_disk_is_said_so_and_nothing_is_half_saved(ada: Account) -> None:
    large = {"content": "x" * 100_000, "project": "p"}
    ada.ops("p", {"op": "set_phase", "phase": "beta", "evidence_memory_ids": [ada.save()["memory_number"]]})
    before = ada.api.stored()

    def save(_: int) -> Any:
        return ada.call("POST", "/v1/memory", large)

    with full(ada), ThreadPoolExecutor(8) as pool:
        answers = [save(0), *pool.map(save, range(8))]
        answers.append(ada.call("POST", "/v1/memories/batch", {"memories": [large]}))
        for answer in answers:
            assert "make room" in refused(answer, 503, "store_full")["error"]
        assert ada.api.stored() == before
        assert ada.get("/v1/memory/1/decrypted")["memory_number"] == 1
    assert [save(0).json()["memory_number"] for _ in range(3)] == [2, 3, 4]
    assert ada.get("/v1/ledger/verify")["chain"] == "intact"


def test_a_disk_without_room_is_not_ready(ada: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = os.statvfs(ada.api.engine.settings.home)
    monkeypatch.setattr(store_file, "LEAST_ROOM_BYTES", disk.f_blocks * disk.f_frsize + 1)
    assert "full" in refused(ada.api.http.get("/readyz"), 503, "not_ready")["details"]["store"]
    monkeypatch.undo()
    assert ada.api.http.get("/readyz").json()["details"]["store"] == "ok"
