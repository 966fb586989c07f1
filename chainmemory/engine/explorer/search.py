"""What a search means: each thing it could name is looked up, and what is there is offered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from chainmemory.chain.failures import NodeRefused
from chainmemory.engine.explorer import names
from chainmemory.engine.explorer.memories import look_for_memory
from chainmemory.engine.explorer.visit import Visit

Kind = Literal["block", "tx", "project", "memory", "address"]


@dataclass(frozen=True, slots=True)
class Hit:
    """Something a search names: its page is `/explorer/{kind}/{name}`.

    `unsure`: not everything was looked through yet.
    """

    kind: Kind
    name: str
    note: str
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """What was found; `tried` says what it was looked up as, in words."""

    query: str
    hits: tuple[Hit, ...]
    tried: tuple[str, ...]


def search(visit: Visit, query: str) -> Search:
    """Look a text up as everything it could be."""
    text = query.strip()[: names.MAX_QUERY]
    hits: list[Hit] = []
    tried: list[str] = []
    number, hash32, address = names.number(text), names.hash32(text), names.address(text)
    if number is not None:
        tried.append("a block's number")
        if number <= visit.head.number:
            hits.append(Hit("block", str(number), f"block {number:,}"))
    if hash32 is not None:
        tried += ["a block's hash", "a transaction's hash", "a project's id", "a memory's event hash"]
        hits += _by_hash(visit, hash32)
    if address is not None:
        tried.append("an address")
        hits.append(Hit("address", address, "an address"))
    slug = names.project(text)
    if slug is not None and hash32 is None:
        tried.append("a project's public name")
        with visit.db.read() as tx:
            project = tx.projects.by_public_name(slug)
        if project is not None:
            hits.append(Hit("project", slug, "a project of this server"))
    return Search(text, tuple(hits), tuple(tried))


def _by_hash(visit: Visit, hash32: str) -> Iterator[Hit]:
    reader = visit.reader
    try:
        block = reader.block(hash32)
        transaction = None if block is not None else reader.transaction(hash32)
    except NodeRefused:
        block = transaction = None
    if block is not None:
        yield Hit("block", hash32, f"block {block.number:,}")
    if transaction is not None:
        yield Hit("tx", hash32, "a transaction")
    if block is not None or transaction is not None:
        # Hashes of different things don't meet: looking further would find nothing.
        return
    if _is_project(visit, hash32):
        yield Hit("project", hash32, "a project's id")
    memory = look_for_memory(visit, hash32, None)
    if memory.event is not None or memory.status is not None:
        yield Hit("memory", hash32, "a memory's event hash")
    elif memory.scan is not None and memory.scan.next is not None:
        yield Hit(
            "memory",
            hash32,
            f"perhaps a memory: the registry's log before block {memory.scan.first:,} wasn't looked at yet",
            unsure=True,
        )


def _is_project(visit: Visit, project_id: str) -> bool:
    with visit.db.read() as tx:
        if tx.projects.by_id(project_id) is not None:
            return True
    contracts = visit.contracts
    if contracts is None:
        return False
    return visit.reader.run(lambda: contracts.anchors.project_of(project_id)).latest_version > 0
