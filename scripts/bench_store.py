"""Measure the store and the vault: durable single saves, batches in process, search, and where the time goes.

Run it from the repository: `python scripts/bench_store.py`. Every number is of this machine and moment; the ratios to
a bare insert and a bare fsync in the same run are what to compare.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import secrets
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import build_header
from chainmemory.protocol.hashing import hex32, tagged_hash
from chainmemory.protocol.ledger_entry import make_entry
from chainmemory.store.accounts import Head
from chainmemory.store.database import Database
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import MemoryRow
from chainmemory.vault.account import AccountVault
from chainmemory.vault.cipher import Cipher
from chainmemory.vault.places import content_place
from chainmemory.vault.search import rank

NOW = "2026-09-13T22:02:35.000000Z"
ACCOUNT = "0123456789abcdef" * 2
BATCH = 100
_COMMON = "the a we to of in is that it for on with was are this be at by from".split()
_RARE = [f"{stem}{end}" for stem in "anchor ledger worker memory state chain signer batch token proof".split()
         for end in ("", "s", "ed", "ing", "er", "ly", "ment", "able")]  # fmt: skip


def texts(count: int, seed: int = 1) -> list[str]:
    """Make texts of about 200 characters whose words repeat as in speech."""
    choose = random.Random(seed)
    made = []
    for number in range(count):
        words = [choose.choice(_COMMON if choose.random() < 0.45 else _RARE) for _ in range(33)]
        made.append(" ".join([*words, f"case{number}"]))
    return made


def build(vault: AccountVault, head: Head, batch: Sequence[str]) -> list[tuple[MemoryRow, LedgerRow]]:
    """Make memories and entries with all their hashes and encryption, as the engine does."""
    pairs = []
    prev = head.ledger_hash
    for offset, text in enumerate(batch, start=1):
        number = head.memory_count + offset
        plaintext = text.encode()
        header = canonical(
            build_header(
                account_id=ACCOUNT,
                number=number,
                project="bench",
                kind="memory.note",
                category="CUSTOM",
                importance=5,
                source="api",
                subject=None,
                provenance=None,
                occurred_at=NOW,
                recorded_at=NOW,
                content_type="text/plain",
                content_length=len(plaintext),
                content_hash=hex32(hashlib.sha256(plaintext).digest()),
                sealed_by="server",
                salt=hex32(secrets.token_bytes(32)),
            )
        )
        blob, wrapped_seed = vault.seal(plaintext, content_place(ACCOUNT, number))
        row = MemoryRow(
            account_id=ACCOUNT,
            number=number,
            event_hash=hex32(tagged_hash("CM_MEMORY_EVENT_V1", header)),
            project="bench",
            category="CUSTOM",
            importance=5,
            source="api",
            kind="memory.note",
            occurred_at=NOW,
            recorded_at=NOW,
            header=header.decode(),
            content_blob=blob,
            wrapped_seed=wrapped_seed,
            search_tokens=vault.search_tokens(text),
        )
        entry = make_entry(
            prev,
            head.ledger_seq + offset,
            NOW,
            "save",
            memory_id=str(number),
            content_sha256=hashlib.sha256(header).hexdigest(),
            blob_sha256=hashlib.sha256(blob).hexdigest(),
        )
        prev = entry["hash"]
        pairs.append((row, LedgerRow(ACCOUNT, entry["seq"], prev, canonical(entry).decode())))
    return pairs


def save(db: Database, vault: AccountVault, batch: Sequence[str]) -> None:
    """Save a batch in one transaction."""
    db.transact(
        lambda tx: tx.memories.append_batch(ACCOUNT, len(batch), lambda head: build(vault, head, batch))
    )


def run() -> dict[str, Any]:
    """Return every measure by name; times in µs unless the name says otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        vault = AccountVault(ACCOUNT, AccountVault.new_key())
        report: dict[str, Any] = {"fsync_us": _fsync_us(Path(folder)), **_vault_us(vault)}
        with Database.open(Path(folder) / "store.sqlite") as db:
            with db.write() as tx:
                tx.accounts.create(ACCOUNT, created_at=NOW, key_id="k", wrapped_key=b"w")
            report |= _saves(db, vault) | _search(db, vault)
        report["store_bytes_per_memory"] = round(
            (Path(folder) / "store.sqlite").stat().st_size / report["memories"]
        )
        report["bare_insert_us"] = _bare_insert_us(Path(folder))
    report["batch_per_bare_insert"] = round(report["batch_us_per_memory"] / report["bare_insert_us"], 2)
    return report


def _saves(db: Database, vault: AccountVault) -> dict[str, Any]:
    count = 0

    def timed(batch_size: int, times: int) -> tuple[float, float]:
        """Return (wall, CPU) seconds for each batch."""
        nonlocal count
        work = texts(batch_size * times, seed=count)
        save(db, vault, work[:batch_size])
        wall, cpu = time.perf_counter(), time.thread_time()
        for at in range(0, len(work), batch_size):
            save(db, vault, work[at : at + batch_size])
        count += len(work) + batch_size
        return (time.perf_counter() - wall) / times, (time.thread_time() - cpu) / times

    timed(BATCH, 5)
    batch_wall, batch_cpu = timed(BATCH, 100)
    single_wall, single_cpu = timed(1, 1000)
    empty_cpu = _transaction_cpu(db)
    threads_per_s, saved = _from_threads(db, vault, 8, 150)
    count += saved
    return {
        "batch_us_per_memory": round(batch_wall / BATCH * 1e6, 1),
        "batch_cpu_us_per_memory": round(batch_cpu / BATCH * 1e6, 1),
        "batch_memories_per_s": round(BATCH / batch_wall),
        "single_saves_per_s": round(1 / single_wall),
        "single_cpu_us": round(single_cpu * 1e6),
        "single_store_cpu_us": round(empty_cpu * 1e6),
        "single_saves_per_s_8_threads": round(threads_per_s),
        "memories": count,
    }


def _transaction_cpu(db: Database, times: int = 500) -> float:
    """Return the CPU seconds of a single save's transaction, without making what it writes."""
    other = "f" * 32
    with db.write() as tx:
        tx.accounts.create(other, created_at=NOW, key_id="k", wrapped_key=b"w")
    blob, index, header = bytes(250), bytes(270), "x" * 600
    prepared = [
        (
            MemoryRow(other, n, f"0x{n:064x}", None, "CUSTOM", 5, "api", "k", NOW, NOW, header, blob, blob[:61],
                      search_tokens=index),
            LedgerRow(other, n, f"{n:064x}", header),
        )
        for n in range(1, times + 1)
    ]  # fmt: skip
    before = time.thread_time()
    for pair in prepared:
        db.transact(lambda tx, pair=pair: tx.memories.append_batch(other, 1, lambda _: [pair]))
    return (time.thread_time() - before) / times


def _from_threads(db: Database, vault: AccountVault, threads: int, times: int) -> tuple[float, int]:
    """Return durable single saves per second from several threads at once, and how many were made."""
    work = texts(times, seed=7)

    def one() -> None:
        for text in work:
            save(db, vault, [text])

    workers = [threading.Thread(target=one) for _ in range(threads)]
    before = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads * times / (time.perf_counter() - before), threads * times


def _search(db: Database, vault: AccountVault) -> dict[str, Any]:
    tokens = vault.query_tokens("anchor signing case17")
    before = time.perf_counter()
    with db.read() as tx:
        total = tx.memories.counts(ACCOUNT).total
        hits = rank(tokens, tx.memories.candidates(ACCOUNT, tokens), total=total, limit=20)
    return {"search_ms": round((time.perf_counter() - before) * 1e3, 1), "search_hits": len(hits)}


def _vault_us(vault: AccountVault) -> dict[str, Any]:
    text = texts(1)[0]
    plaintext, seed, place = text.encode(), secrets.token_bytes(32), content_place(ACCOUNT, 7)
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
