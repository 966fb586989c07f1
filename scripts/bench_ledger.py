"""Measure the ledger's check: entries per second of a file tenant's chain and of a server account, as a ratio
to reading and SHA-256-ing the same bytes in a bare loop, and the memory each takes.

Run it from the repository: `python scripts/bench_ledger.py [FILE_ENTRIES [MEMORIES]]` (default 1,000,000 and
200,000). Each measure runs in a process of its own, so that its peak memory is its own. The files it writes,
about 1 GB, lie in a temporary folder and are removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chainmemory.engine import memory_save
from chainmemory.engine.accounts import create_account
from chainmemory.engine.callers import Caller
from chainmemory.engine.ledger_check import check
from chainmemory.engine.ledger_records import event_hash_of
from chainmemory.engine.runtime import Engine
from chainmemory.ledger.ahead import reading_ahead
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.verdicts import Record, verify
from chainmemory.ledger.walk import walk
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import build_header
from chainmemory.protocol.ledger_entry import GENESIS_PREV, make_entry
from chainmemory.settings import Settings
from chainmemory.store.accounts import Head
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import MemoryRow

FILE_ENTRIES = 1_000_000
MEMORIES = 200_000
DEEP = 5_000
RUNS = 3  # the best of so many counts, here and of the bare loop
NOW = "2026-09-13T22:02:35.000000Z"
WORTH = {"1": sys.maxsize, "2": 0}
BLOB = 29 + 200  # an encrypted text of 200 bytes


def run(entries: int = FILE_ENTRIES, memories: int = MEMORIES) -> dict[str, Any]:
    """Return every measure by its description."""
    with tempfile.TemporaryDirectory() as folder:
        return {**_files(Path(folder), entries), **_server(Path(folder), memories)}


def _files(folder: Path, count: int) -> dict[str, Any]:
    path = folder / "ledger.jsonl"
    write_ledger(path, count)
    bare = _measure("bare_file", str(path))
    seen: dict[str, Any] = {"file tenant: peak MB of the bare loop": bare["peak_mb"]}
    for cores in WORTH:
        on = f"{cores} core{'s' if cores != '1' else ''}"
        chain = _measure("walk_alone", str(path), str(count), cores)
        whole = _measure("file", str(path), str(count), cores)
        seen |= {
            f"file tenant, {on}: entries per second, {count:,} entries": count / whole["seconds"],
            f"file tenant, {on}: ratio to reading and hashing the same lines (goal: 0.25)": bare["seconds"]
            / whole["seconds"],
            f"file tenant, {on}: the same for the chain alone": bare["seconds"] / chain["seconds"],
            f"file tenant, {on}: peak MB for the chain and what it seals": chain["peak_mb"],
        }
        if cores == "1":
            seen["file tenant, 1 core: ratio of CPU time, with records"] = bare["cpu"] / whole["cpu"]
            seen["file tenant, 1 core: ratio of CPU time, the chain alone"] = bare["cpu"] / chain["cpu"]
    path.unlink()
    return seen


def _server(folder: Path, count: int) -> dict[str, Any]:
    home = folder / "home"
    home.mkdir(mode=0o700)
    account_id = fill(home, count)
    bare = _measure("bare_server", str(home), account_id)
    routine = _measure("server", str(home), account_id, str(count))
    deep = _measure("deep", str(folder / "deep"))
    return {
        "server: ratio of CPU time": bare["cpu"] / routine["cpu"],
        f"server: memories per second, {count:,} memories": count / routine["seconds"],
        "server: ratio to reading and hashing the same rows (goal: 0.25)": bare["seconds"]
        / routine["seconds"],
        "server: peak MB": routine["peak_mb"],
        "server: peak MB of the bare loop": bare["peak_mb"],
        f"server: memories per second of a deep check, {DEEP:,} memories": DEEP / deep["seconds"],
    }


def _measure(what: str, *given: str) -> dict[str, float]:
    ran = subprocess.run(
        [sys.executable, __file__, "--measure", what, *given], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(ran.stdout)
    return found


# -- what is measured -----------------------------------------------------------------------------


def bare_file(path: str) -> None:
    with Path(path).open("rb") as lines:
        for line in lines:
            hashlib.sha256(line).digest()


def file(path: str, count: str, cores: str) -> Callable[[], None]:
    """Verify, with a record for each entry, made before: reading record files is another matter."""
    records = [(record_id(seq), Record({"content_sha256": content(seq)})) for seq in range(1, int(count) + 1)]
    return lambda: verify_file(path, records, cores)


def verify_file(path: str, records: list[tuple[str, Record]], cores: str) -> None:
    with Path(path).open("rb") as lines, reading_ahead(lines.fileno(), (), worth_it=WORTH[cores]) as ahead:
        report = verify(
            ahead.first_lines() if ahead is not None else lines,
            records,
            read=read_file_line,
            heads={},
            unsealed_is_wrong=False,
            ahead=ahead,
        )
    assert report.ok is True
    assert len(report.sealed) == len(records)


def walk_alone(path: str, count: str, cores: str) -> None:
    """The chain and what it seals, without comparing any record."""
    with Path(path).open("rb") as lines, reading_ahead(lines.fileno(), (), worth_it=WORTH[cores]) as ahead:
        found = walk(ahead.first_lines() if ahead is not None else lines, read_file_line, {}, ahead=ahead)
    assert (found.chain, found.entries) == ("intact", int(count))


def bare_server(home: str, account_id: str) -> None:
    with sqlite3.connect(Path(home) / "store.sqlite") as store:
        rows = store.execute(
            "SELECT CAST(header AS BLOB), content_blob FROM memories WHERE account_id = ? ORDER BY number",
            (account_id,),
        )
        for header, blob in rows:
            hashlib.sha256(header).digest()
            hashlib.sha256(blob).digest()
        rows = store.execute(
            "SELECT CAST(entry AS BLOB) FROM ledger_entries WHERE account_id = ? ORDER BY seq", (account_id,)
        )
        for (entry,) in rows:
            hashlib.sha256(entry).digest()


def server(home: str, account_id: str, count: str) -> None:
    engine = Engine.open(Settings.load(home=Path(home)))
    with engine.db.read() as tx:
        checked = check(tx, account_id, {})
    assert (checked.ok, checked.sealed) == (True, int(count)), checked
    engine.close()


def deep(home: str) -> Callable[[], None]:
    """Save through the engine first, which isn't measured."""
    Path(home).mkdir(mode=0o700)
    engine = Engine.open(Settings.load(home=Path(home)))
    made = create_account(engine)
    caller = Caller(made["account_id"], made["key_id"], "owner")
    for start in range(0, DEEP, 500):
        texts = [{"content": f"{number} " * 40} for number in range(start, start + 500)]
        memory_save.save_batch(engine, caller, None, memory_save.BATCH.check({"memories": texts}))

    def measured() -> None:
        with engine.db.read() as tx:
            checked = check(tx, caller.account_id, {}, engine.vault(caller.account_id))
        assert (checked.ok, checked.sealed) == (True, DEEP)

    return measured


MEASURES: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (bare_file, file, walk_alone, bare_server, server, deep)
}


def measured(what: str, given: list[str]) -> dict[str, float]:
    work: Callable[[], Any] = lambda: MEASURES[what](*given)  # noqa: E731
    if what in ("deep", "file"):
        work = work()
    seconds = cpu = float("inf")
    for _ in range(RUNS):
        began, began_cpu = time.perf_counter(), time.process_time()
        work()
        seconds = min(seconds, time.perf_counter() - began)
        cpu = min(cpu, time.process_time() - began_cpu)
    # Not ru_maxrss: after a fork that begins at the parent's.
    status = Path("/proc/self/status").read_text()
    return {"seconds": seconds, "cpu": cpu, "peak_mb": int(status.split("VmHWM:")[1].split()[0]) / 1024}


# -- what they are measured on --------------------------------------------------------------------


def record_id(seq: int) -> str:
    return f"mem_{seq:08d}"


def content(seq: int) -> str:
    return f"{seq:064x}"


def write_ledger(path: Path, count: int) -> None:
    """Write a file tenant's ledger as Python's json does, with times to the tenth of a microsecond."""
    prev = GENESIS_PREV
    with path.open("wb", buffering=1 << 20) as out:
        for seq in range(1, count + 1):
            entry = make_entry(
                prev,
                seq,
                1789851200.1234567 + seq * 0.37,
                "save",
                memory_id=record_id(seq),
                content_sha256=content(seq),
            )
            prev = entry["hash"]
            out.write(json.dumps(entry).encode() + b"\n")


def fill(home: Path, count: int) -> str:
    """Write memories by the store's batch path, with noise for ciphertext; return the account."""
    engine = Engine.open(Settings.load(home=home))
    account_id: str = create_account(engine)["account_id"]
    for start in range(0, count, 5_000):
        size = min(5_000, count - start)
        with engine.db.write() as tx:
            tx.memories.append_batch(
                account_id, size, lambda head, size=size: list(_pairs(account_id, head, size))
            )  # type: ignore[misc]
    engine.close()
    return account_id


def _pairs(account_id: str, head: Head, size: int) -> Iterator[tuple[MemoryRow, LedgerRow]]:
    prev = head.ledger_hash
    for offset in range(1, size + 1):
        number = head.memory_count + offset
        header = canonical(
            build_header(
                account_id=account_id, number=number, project="bench", kind="memory.note", category="CUSTOM",
                importance=5, source="api", subject=None, provenance=None, occurred_at=NOW, recorded_at=NOW,
                content_type="text/plain", content_length=200, content_hash=f"0x{number:064x}",
                sealed_by="server", salt="0x" + secrets.token_hex(32),
            )
        )  # fmt: skip
        blob = b"\x01" + os.urandom(BLOB - 1)
        row = MemoryRow(
            account_id, number, event_hash_of(header), "bench", "CUSTOM", 5, "api", "memory.note", NOW, NOW,
            header.decode(), search_tokens=bytes(240), wrapped_seed=bytes(61), content_blob=blob,
        )  # fmt: skip
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
        yield row, LedgerRow(account_id, entry["seq"], prev, canonical(entry).decode())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measured(sys.argv[2], sys.argv[3:])))
    else:
        for name, value in run(*map(int, sys.argv[1:])).items():
            print(f"{value:>14,.2f}  {name}")
