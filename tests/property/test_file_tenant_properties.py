"""Any single change to any file of a tenant on disk is named, whatever it is, and never read as sealed."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.tenants import NAMES, Files, checked, copy_of, make_tenant

SEALED_KEYS = (
    "id", "session_id", "agent_id", "summary", "key_facts", "decisions_made", "projects_referenced",
    "timestamp",
)  # fmt: skip
PATHS = ["ledger.jsonl", *(f"memory/{name}.json" for name in NAMES)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_tenant(tmp_path_factory.mktemp("template"))


def digest(data: bytes) -> str | None:
    """Hash what a record's seal covers, by the standard library alone; None for no record."""
    try:
        value = json.loads(data.decode())
        parts = {key: value.get(key) for key in SEALED_KEYS}
        form = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(form.encode()).hexdigest()
    except (ValueError, AttributeError):
        return None


def meaning(files: Files) -> Any:
    """Return what the files say: the entries in order, and what each record's seal covers."""
    ledger = files.ledger.read_bytes() if files.ledger.exists() else b""
    lines = ledger.split(b"\n")
    records = sorted(str(digest(path.read_bytes())) for path in (files.path / "memory").glob("*.json"))
    try:
        return [json.loads(line) for line in lines[: -1 if lines[-1] == b"" else None]], records
    except ValueError:
        return "no ledger", records


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, int, int, bytes]:
    path = draw(st.sampled_from(PATHS))
    kind = draw(st.sampled_from(["flip", "cut", "drop", "insert", "replace", "delete", "double", "copy"]))
    start = draw(st.integers(0, 3_000))
    length = draw(st.integers(1, 200))
    return path, kind, start, length, draw(st.binary(min_size=1, max_size=6))


def apply(files: Files, change: tuple[str, str, int, int, bytes]) -> None:
    path, kind, start, length, data = change
    file = files.path / path
    old = file.read_bytes()
    start %= len(old)
    match kind:
        case "delete":
            file.unlink()
        case "copy":
            file.with_name("copy.json").write_bytes(old)
        case _:
            new = {
                "flip": old[:start] + bytes([old[start] ^ (1 << length % 8)]) + old[start + 1 :],
                "cut": old[:start],
                "drop": old[:start] + old[start + length :],
                "insert": old[:start] + data + old[start:],
                "replace": old[:start] + data + old[start + len(data) :],
                "double": old[:start] + old[start : start + length] + old[start:],
            }[kind]
            file.write_bytes(new)


@settings(max_examples=80, deadline=None)
@given(changes())
@example(("ledger.jsonl", "delete", 0, 1, b"x"))
@example(("ledger.jsonl", "cut", 0, 1, b"x"))
@example(("memory/m3.json", "delete", 0, 1, b"x"))
@example(("memory/m3.json", "copy", 0, 1, b"x"))
@example(("memory/m3.json", "insert", 1, 1, b'"x":1,'))
def test_any_single_change_to_any_file_is_named(
    template: Files, change: tuple[str, str, int, int, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = copy_of(template, Path(folder))
        before = meaning(files)
        apply(files, change)
        report = checked(files)
        named = (
            report.ok is not True
            or report.unsealed
            or report.walk.entries != len(NAMES)
            or sorted(report.sealed) != list(NAMES)
        )
        assert named or meaning(files) == before
        # What reads as sealed is what was sealed.
        was = {name: digest(template.record(name).read_bytes()) for name in NAMES}
        now = {digest(path.read_bytes()) for path in (files.path / "memory").glob("*.json")}
        for name in report.sealed:
            assert was[name] in now
