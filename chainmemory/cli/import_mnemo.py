"""`chainmemory import mnemo`: the records of an agent kept as files as memories, each record once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from chainmemory.cli import options
from chainmemory.cli.account import connect
from chainmemory.cli.import_git import BATCH_BYTES, CONTENT_BYTES, bar
from chainmemory.cli.output import print_json, printable, say
from chainmemory.client import BATCH, Client, Json
from chainmemory.errors import IntegrityError, Invalid
from chainmemory.ledger.entries import read_file_line
from chainmemory.ledger.file_tenant import read_record
from chainmemory.ledger.tenant import Tenant, held
from chainmemory.ledger.tenant_check import check
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.event import CATEGORIES, MAX_TEXT
from chainmemory.protocol.identity import check_slug
from chainmemory.protocol.times import parse_time

KIND = "mnemo.record"
SOURCE = "import"
NO_WORDS = "(a record without words)"


@dataclass(frozen=True)
class Store:
    """What a folder holds: records to bring in, with their seals, and those that aren't what they were."""

    agent: str
    memories: list[Json]
    left_out: dict[str, str]
    """Verdict by record id."""
    cut: list[str] = field(default_factory=list)
    """Ids of records whose words are longer than a memory of an import may be."""


@dataclass(frozen=True)
class Imported:
    """What an import did, in numbers of records."""

    saved: int
    known: int


def import_mnemo_command(
    folder: Annotated[
        Path, typer.Argument(help="An agent's folder: memory/*.json, ledger.jsonl.", metavar="DIR")
    ],
    project: Annotated[
        str | None,
        typer.Option(help="Project they belong to.", show_default="the first each one names", metavar="NAME"),
    ] = None,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Save one memory per record, with its seal as provenance.

    Safe to break off and to repeat: a record is saved once. A record that isn't what its seal says (altered
    or disputed) is left out. Exit code 1: some were.
    """
    if project is not None:
        check_slug(project)
    store = read_store(folder, project)
    with connect(home, url) as client, bar("records", len(store.memories)) as advance:
        done = import_store(client, store, advance)
    if as_json:
        print_json(
            {"agent_id": store.agent, "saved": done.saved, "known": done.known, "left_out": store.left_out}
        )
    else:
        known = f"; {done.known} were there already" if done.known else ""
        say(f"Saved {done.saved} records of {printable(store.agent)} as memories{known}.")
    for record in store.cut:
        say(
            f"chainmemory: {printable(record)} was cut after {CONTENT_BYTES // 1024} KiB; "
            "the file has all of it.",
            err=True,
        )
    for record, verdict in store.left_out.items():
        say(f"chainmemory: {printable(record)}: {verdict}, so it was left out.", err=True)
    if store.left_out:
        raise IntegrityError(f"{len(store.left_out)} records of {store.agent} are not what they were.")


def read_store(folder: Path, project: str | None) -> Store:
    """Check a folder and read its sound records, in the order they were sealed, then the unsealed ones."""
    place = folder.resolve()
    with held(place.parent, place.name) as tenant:
        report = check(tenant)
        files = _parsed(tenant)
        seals = _seals(tenant)
    wrong = {"altered": report.altered, "disputed": report.disputed, "missing": report.missing}
    left_out = {name: verdict for verdict, names in wrong.items() for name in names}
    sealed = set(report.sealed)
    order = sorted(report.sealed, key=lambda name: seals[name]["seq"]) + report.unsealed
    memories, cut = [], []
    for name in order:
        content, was_cut = _content(files[name])
        seal = seals[name] if name in sealed else None
        memories.append(_memory(place.name, name, files[name], content, seal, project))
        if was_cut:
            cut.append(name)
    return Store(place.name, memories, left_out, cut)


def import_store(client: Client, store: Store, advance: Callable[[int], None] = lambda _: None) -> Imported:
    """Save each record that isn't a memory of the account yet, in batches (each all or nothing).

    A record is known by its agent, id and hash in the memories' provenance, archived or not.
    """
    known = _known(client)
    new = [memory for memory in store.memories if _mark(memory["provenance"]) not in known]
    advance(len(store.memories) - len(new))
    for batch in _batches(new):
        key = "mnemo-" + hashlib.sha256(orjson.dumps(batch)).hexdigest()
        client.save_batch(batch, idempotency_key=key)
        advance(len(batch))
    return Imported(len(new), len(store.memories) - len(new))


def _known(client: Client) -> set[tuple[str, ...]]:
    found = set()
    for archived in ("0", "1"):
        for memory in client.iter_memories(archived=archived):
            provenance = memory.get("provenance") or {}
            if memory.get("source") == SOURCE and "content_sha256" in provenance:
                found.add(_mark(provenance))
    return found


def _mark(provenance: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(provenance.get(key, "") for key in ("store", "record_id", "content_sha256"))


def _parsed(tenant: Tenant) -> dict[str, tuple[Json, str]]:
    """Return each record that can be read, and its hash, by id."""
    found = {}
    for stem, data in tenant.files():
        if data is not None:
            name, record = read_record(stem, data)
            if record.seals is not None:
                found[name] = parse_json(data), record.seals["content_sha256"]
    return found


def _seals(tenant: Tenant) -> dict[str, Json]:
    """Return the latest entry of each record, by id."""
    seals = {}
    for line in tenant.lines():
        try:
            entry = read_file_line(line)
        except Invalid:
            continue  # the check has told of it
        if entry.record is not None:
            seals[entry.record] = {"seq": entry.seq, "hash": entry.hash}
    return seals


def _memory(
    agent: str, name: str, parsed: tuple[Json, str], content: str, seal: Json | None, project: str | None
) -> Json:
    record, digest = parsed
    provenance = {
        "store": agent,
        "record_id": name[:MAX_TEXT],
        "content_sha256": digest,
        "agent_id": record.get("agent_id"),
        "session_id": record.get("session_id"),
    }
    if seal is not None:
        provenance |= {"ledger_seq": str(seal["seq"]), "ledger_hash": seal["hash"]}
    memory: dict[str, Any] = {
        "content": content,
        "kind": KIND,
        "platform": SOURCE,
        "category": record["category"] if record.get("category") in CATEGORIES else "CUSTOM",
        "tags": ["mnemo", *_tags(record)],
        "provenance": {key: _text(value) for key, value in provenance.items() if _text(value)},
    }
    place = project or _project(record)
    if place is not None:
        memory["project"] = place
    when = _time(record.get("timestamp"))
    if when is not None:
        memory["occurred_at"] = when
    return memory


def _content(parsed: tuple[Json, str]) -> tuple[str, bool]:
    """Return a record's words: summary, then facts and decisions as lists; and whether they were cut."""
    record, _ = parsed
    parts = [record["summary"]] if isinstance(record.get("summary"), str) else []
    for key, title in (("key_facts", "Facts"), ("decisions_made", "Decisions")):
        items = record.get(key)
        if isinstance(items, list) and items:
            parts.append("\n".join([f"{title}:", *(f"- {_words(item)}" for item in items)]))
    text = "\n\n".join(part for part in parts if part.strip()) or NO_WORDS
    encoded = text.encode()
    if len(encoded) <= CONTENT_BYTES:
        return text, False
    kept = encoded[:CONTENT_BYTES].decode(errors="ignore")
    return f"{kept}\n[cut here; the whole record has {len(encoded)} bytes of words]", True


def _words(item: object) -> str:
    return item if isinstance(item, str) else orjson.dumps(item).decode()


def _text(value: object) -> str | None:
    return value.replace("\0", "")[:MAX_TEXT] or None if isinstance(value, str) else None


def _tags(record: Json) -> list[str]:
    tags = record.get("tags")
    words = tags if isinstance(tags, list) else []
    kept = [tag for tag in words if isinstance(tag, str) and re.fullmatch(r"[^\0,]{1,64}", tag)]
    return list(dict.fromkeys(kept))[:10]


def _project(record: Json) -> str | None:
    """Return the first project a record names that is a slug."""
    named = record.get("projects_referenced")
    for name in named if isinstance(named, list) else []:
        try:
            return check_slug(name)
        except Invalid:
            continue
    return None


def _time(value: object) -> str | None:
    """Return when a record is from: Unix seconds or a time as text; None where it doesn't say."""
    try:
        if isinstance(value, str):
            return parse_time(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return parse_time(datetime.fromtimestamp(value, UTC).isoformat())
    except (Invalid, ValueError, OverflowError, OSError):
        return None
    return None


def _batches(memories: Iterable[Json]) -> Iterator[list[Json]]:
    batch: list[Json] = []
    size = 0
    for memory in memories:
        length = len(orjson.dumps(memory))
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(memory)
        size += length
    if batch:
        yield batch
