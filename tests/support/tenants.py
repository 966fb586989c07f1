"""A file tenant with a few sealed records, and what a check says of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainmemory.ledger.tenant import held
from chainmemory.ledger.tenant_check import check
from chainmemory.ledger.tenant_write import save
from chainmemory.ledger.verdicts import Report
from chainmemory.protocol.ledger_entry import entry_hash, ledger_form

NOW = 1789851200.25
NAMES = ("m1", "m2", "m3", "m4", "m5")


def record(name: str, **changes: Any) -> dict[str, Any]:
    """Return a record as other tools write it: eight sealed keys, and filing."""
    return {
        "id": name,
        "session_id": None,
        "agent_id": "cc",
        "summary": f"what {name} says, ünï",
        "key_facts": ["a", "b ✓"],
        "decisions_made": [],
        "projects_referenced": ["x"],
        "timestamp": 1789851200.5,
        "category": "filing",
        **changes,
    }


def written(value: Any) -> bytes:
    """Return JSON as other tools write it."""
    return json.dumps(value, ensure_ascii=False).encode()


@dataclass
class Files:
    """A tenant's files, to damage."""

    path: Path

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    def record(self, name: str) -> Path:
        return self.path / "memory" / f"{name}.json"

    def lines(self) -> list[bytes]:
        return self.ledger.read_bytes().splitlines(keepends=True)

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]

    def put_lines(self, lines: list[bytes]) -> None:
        self.ledger.write_bytes(b"".join(lines))

    def put_entries(self, entries: list[dict[str, Any]]) -> None:
        self.put_lines([ledger_form(entry) + b"\n" for entry in entries])

    def change_record(self, name: str, change: Callable[[dict[str, Any]], object]) -> None:
        value = json.loads(self.record(name).read_bytes())
        change(value)
        self.record(name).write_bytes(written(value))

    def change_entry(self, position: int, change: Callable[[dict[str, Any]], object]) -> None:
        """Change an entry and leave its hash as it is."""
        entries = self.entries()
        change(entries[position - 1])
        self.put_entries(entries)

    def change_line(self, position: int, change: Callable[[bytes], bytes]) -> None:
        lines = self.lines()
        lines[position - 1] = change(lines[position - 1])
        self.put_lines(lines)

    def rehash(self, first: int) -> None:
        """Recompute `prev` and `hash` of the entries from a position on, as a forger would."""
        entries = self.entries()
        for index in range(first - 1, len(entries)):
            if index:
                entries[index]["prev"] = entries[index - 1]["hash"]
            entries[index]["hash"] = entry_hash(entries[index])
        self.put_entries(entries)


def make_tenant(root: Path, name: str = "cc", records: tuple[str, ...] = NAMES, **changes: Any) -> Files:
    """Write a tenant through the writer itself."""
    (root / name).mkdir(parents=True)
    with held(root, name) as tenant:
        for number, each in enumerate(records):
            save(tenant, written(record(each, **changes)), stem=each, now=NOW + number)
    return Files(root / name)


def copy_of(template: Files, root: Path) -> Files:
    """Copy a tenant to a root of its own."""
    shutil.copytree(template.path, root / template.path.name, symlinks=True)
    return Files(root / template.path.name)


def checked(files: Files, heads: Mapping[int, str] | None = None) -> Report:
    """Check a tenant, `heads` being the anchored ones."""
    with held(files.path.parent, files.path.name) as tenant:
        return check(tenant, heads=heads or {})
