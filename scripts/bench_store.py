"""Measure the store and the vault: durable single saves, batches in process, search, and where the time goes.

Run it from the repository: `python scripts/bench_store.py`. Every number is of this machine and moment;
compare the ratios to a bare insert and a bare fsync of the same run.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chainmemory.cli.processes import settle_collector
from chainmemory.engine import memory_save
from chainmemory.engine.accounts import create_account
from chainmemory.engine.callers import Caller
from chainmemory.engine.runtime import Engine
from chainmemory.settings import Settings
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import MemoryRow
from chainmemory.vault.account import AccountVault
from chainmemory.vault.cipher import Cipher
from chainmemory.vault.places import content_place
from chainmemory.vault.search import rank
from scripts.machine import disturbance, least_disturbed, loop_s

NOW = "2026-09-13T22:02:35.000000Z"
BATCH = 100
_COMMON = [
    "the",
    "a",
    "we",
    "to",
    "of",
    "in",
    "is",
    "that",
    "it",
    "for",
    "on",
    "with",
    "was",
    "are",
    "this",
    "be",
]
_STEMS = ["anchor", "ledger", "work", "memory", "state", "chain", "sign", "batch", "token", "proof"]
_RARE = [stem + end for stem in _STEMS for end in ("", "s", "ed", "ing", "er", "ly", "ment", "able")]


def texts(count: int, seed: int = 1) -> list[str]:
    """Make texts of about 200 characters whose words repeat as in speech."""
    choose = random.Random(seed)
    made = []
    for number in range(count):
        words = [choose.choice(_COMMON if choose.random() < 0.45 else _RARE) for _ in range(33)]
        made.append(" ".join([*words, f"case{number}"]))
    return made


class Saving:
    """An engine on a fresh store, and one account that saves through it."""

    def __init__(self, home: Path) -> None:
        self.engine = Engine.open(Settings.load(home=home))
        made = create_account(self.engine)
        self.caller = Caller(made["account_id"], made["key_id"], "owner")
        self.account_id = self.caller.account_id

    def one(self, text: str) -> None:
        """Save one memory, durably."""
        memory_save.save(self.engine, self.caller, None, memory_save.SAVE.check({"content": text}))

    def batch(self, batch: list[str]) -> None:
        """Save a batch in one transaction, from checked JSON to answers."""
        body = {"memories": [{"content": text, "project": "bench"} for text in batch]}
        memory_save.save_batch(self.engine, self.caller, None, memory_save.BATCH.check(body))


def run() -> dict[str, Any]:
    """Return every measure by name; times in µs unless the name says otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        report: dict[str, Any] = {"fsync_us": _fsync_us(home), **_vault_us()}
        saving = Saving(home)
        settle_collector()  # as every API process does
        report |= _saves(saving) | _search(saving)
        saving.engine.close()
        report["store_bytes_per_memory"] = round((home / "store.sqlite").stat().st_size / report["memories"])
        report["bare_insert_us"] = _bare_insert_us(home)
    report["batch_per_bare_insert"] = round(report["batch_us_per_memory"] / report["bare_insert_us"], 2)
    report["single_per_fsync"] = round(1e6 / report["single_saves_per_s"] / report["fsync_us"], 2)
    return report


def _saves(saving: Saving) -> dict[str, Any]:
    for start in range(0, 5 * BATCH, BATCH):
        saving.batch(texts(BATCH, seed=start))
    batches, singles = [texts(BATCH, seed=n) for n in range(100)], texts(1000, seed=5)
    _, batch_cpu = _timed(saving.batch, batches[:20])
    walls, loops = _each(saving.batch, batches)
    batch_wall = sum(walls) / len(walls)
    single_wall, single_cpu = _timed(saving.one, singles)
    threads_per_s = _from_threads(saving, 8, 150)
    return {
        "batch_us_per_memory": round(batch_wall / BATCH * 1e6, 1),
        "batch_cpu_us_per_memory": round(batch_cpu / BATCH * 1e6, 1),
        "batch_memories_per_s": round(BATCH / batch_wall),
        "batch_memories_per_s_least_disturbed": round(BATCH / least_disturbed(walls)),
        "machine_disturbed": disturbance(loops),
        "single_saves_per_s": round(1 / single_wall),
        "single_cpu_us": round(single_cpu * 1e6),
        "single_saves_per_s_8_threads": round(threads_per_s),
        **_transaction_cpu_us(saving),
        "memories": _count(saving),
    }


def _each(work: Callable[[Any], None], inputs: list[Any]) -> tuple[list[float], list[float]]:
    """Return the wall seconds of each input, and what the machine's loop took after each."""
    walls, loops = [], []
    for one in inputs:
        before = time.perf_counter()
        work(one)
        walls.append(time.perf_counter() - before)
        loops.append(loop_s())
    return walls, loops


def _timed(work: Callable[[Any], None], inputs: list[Any]) -> tuple[float, float]:
    """Return (wall, CPU) seconds for each input."""
    wall, cpu = time.perf_counter(), time.thread_time()
    for one in inputs:
        work(one)
    return (time.perf_counter() - wall) / len(inputs), (time.thread_time() - cpu) / len(inputs)


def _transaction_cpu_us(saving: Saving, times: int = 500) -> dict[str, Any]:
    """Return the CPU time of a single save's transaction alone, with rows made beforehand: mean and least."""
    other, db = "f" * 32, saving.engine.db
    with db.write() as tx:
        tx.accounts.create(other, created_at=NOW, key_id="k", wrapped_key=b"w")
    taken = []
    for n in range(1, times + 1):
        row = MemoryRow(
            account_id=other,
            number=n,
            event_hash=f"0x{n:064x}",
            project=None,
            category="CUSTOM",
            importance=5,
            source="api",
            kind="memory.note",
            occurred_at=NOW,
            recorded_at=NOW,
            header="x" * 590,
            content_blob=bytes(232),
            wrapped_seed=bytes(61),
            search_tokens=bytes(270),
        )
        pair = (row, LedgerRow(other, n, f"{n:064x}", "y" * 430))
        before = time.thread_time()
        db.transact(lambda tx, pair=pair: tx.memories.append_batch(other, 1, lambda _: [pair]))
        taken.append(time.thread_time() - before)
    return {
        "single_store_cpu_us": round(sum(taken) / times * 1e6),
        "single_store_cpu_us_least": round(min(taken) * 1e6),
    }


def _from_threads(saving: Saving, threads: int, times: int) -> float:
    """Return durable single saves per second from several threads at once."""
    work = texts(times, seed=7)
    workers = [threading.Thread(target=lambda: [saving.one(text) for text in work]) for _ in range(threads)]
    before = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads * times / (time.perf_counter() - before)


def _count(saving: Saving) -> int:
    with saving.engine.db.read() as tx:
        return tx.accounts.totals()[1]


def _search(saving: Saving) -> dict[str, Any]:
    account_id, db = saving.account_id, saving.engine.db
    vault = saving.engine.vault(account_id)
    tokens = vault.query_tokens("anchor signing case17")
    before = time.perf_counter()
    with db.read() as tx:
        total = tx.memories.counts(account_id).total
        hits = rank(tokens, tx.memories.candidates(account_id, tokens), total=total, limit=20)
    return {"search_ms": round((time.perf_counter() - before) * 1e3, 1), "search_hits": len(hits)}


def _vault_us() -> dict[str, Any]:
    vault = AccountVault("0123456789abcdef" * 2, AccountVault.new_key())
    text = texts(1)[0]
    plaintext, seed, place = text.encode(), secrets.token_bytes(32), content_place(vault.account_id, 7)
    kept = Cipher(seed)
    sealed = vault.seal(plaintext, place)
    return {
        "content_encrypt_us": _us(lambda: Cipher(seed).encrypt(plaintext, place)),
        "wrap_us": _us(lambda: kept.encrypt(seed, place)),
        "seal_us": _us(lambda: vault.seal(plaintext, place)),
        "open_us": _us(lambda: vault.open(*sealed, place)),
        "search_tokens_us": _us(lambda: vault.search_tokens(text)),
    }


def _us(work: Callable[[], object], times: int = 2000) -> float:
    best = float("inf")
    for _ in range(5):
        before = time.thread_time()
        for _ in range(times):
            work()
        best = min(best, (time.thread_time() - before) / times)
    return round(best * 1e6, 1)


def _fsync_us(folder: Path, times: int = 200) -> float:
    handle = os.open(folder / "bare", os.O_CREAT | os.O_WRONLY)
    before = time.perf_counter()
    for number in range(times):
        os.pwrite(handle, bytes(4096), number * 4096)
        os.fsync(handle)
    taken = time.perf_counter() - before
    os.close(handle)
    return round(taken / times * 1e6, 1)


def _bare_insert_us(folder: Path) -> float:
    """Return what sqlite3 alone takes to insert rows of the same size, a hundred to a commit."""
    raw = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    raw.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (a PRIMARY KEY, b)")
    row = bytes(1700)
    before = time.perf_counter()
    for start in range(0, 5000, BATCH):
        raw.execute("BEGIN IMMEDIATE")
        raw.executemany("INSERT INTO t VALUES (?, ?)", [(start + n, row) for n in range(BATCH)])
        raw.execute("COMMIT")
    taken = time.perf_counter() - before
    raw.close()
    return round(taken / 5000 * 1e6, 1)


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
