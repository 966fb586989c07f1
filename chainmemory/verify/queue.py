"""The outbox: a row for everything that is to be witnessed, with its very hash, and none for what isn't."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chainmemory.verify.findings import Report
from chainmemory.verify.rows import Rows, misfits

MEMORY, STATE, HEAD = "memory", "state", "head"
ANCHORED, COVERED, CONFLICT = "anchored", "covered", "conflict"
_STATUSES = frozenset({"pending", "submitted", ANCHORED, "failed", COVERED, CONFLICT})


class QueueRow(NamedTuple):
    """An outbox row, as far as it is checked."""

    kind: str
    subject: str
    position: int
    hash: str
    status: str
    tx_hash: str | None
    block_number: int | None
    block_hash: str | None
    anchor_id: str | None

    @property
    def where(self) -> str:
        noun = {MEMORY: "memory", STATE: "version", HEAD: "ledger head"}.get(self.kind, self.kind)
        return f"{noun} {self.position} of {self.subject}"


@dataclass
class Queue:
    """One account's rows, by subject and position."""

    memories: dict[int, QueueRow] = field(default_factory=dict)
    states: dict[tuple[str, int], QueueRow] = field(default_factory=dict)
    heads: dict[int, QueueRow] = field(default_factory=dict)

    def __iter__(self) -> Iterator[QueueRow]:
        yield from self.memories.values()
        yield from self.states.values()
        yield from self.heads.values()


def check_queue(
    rows: Rows,
    report: Report,
    account_id: str,
    *,
    memories: Mapping[int, str],
    states: Mapping[tuple[str, int], str],
    ledger: Mapping[int, str],
) -> Queue:
    """Compare an account's outbox rows with what they are for."""
    queue = Queue()
    query = f"SELECT {', '.join(QueueRow._fields)} FROM outbox WHERE account_id = ? ORDER BY id"
    for values in rows.all(query, account_id):
        row = QueueRow(*values)
        if wrong := misfits(row):
            report.add_misfits(row.where, wrong)
            continue
        _check_row(report, row)
        if row.kind == MEMORY and row.subject == account_id:
            queue.memories[row.position] = row
            _compare(report, row, memories.get(row.position))
        elif row.kind == STATE:
            queue.states[row.subject, row.position] = row
            _compare(report, row, states.get((row.subject, row.position)))
        elif row.kind == HEAD and row.subject == account_id:
            queue.heads[row.position] = row
            _compare(report, row, ledger.get(row.position))
        else:
            report.add("outbox_stray", row.where, "It belongs to nothing of this account.")
    for number in sorted(memories.keys() - queue.memories.keys()):
        report.add("outbox_missing", f"memory {number} of {account_id}", "No outbox row anchors it.")
    for project, version in sorted(states.keys() - queue.states.keys()):
        report.add("outbox_missing", f"version {version} of {project}", "No outbox row anchors it.")
    return queue


def _check_row(report: Report, row: QueueRow) -> None:
    if row.status not in _STATUSES:
        report.add("outbox_status", row.where, f"Its status {row.status} is none.")
    if row.status == CONFLICT:
        report.add("conflict", row.where, "The contract holds another hash for it, as the worker found.")
    if row.status == ANCHORED and None in (row.tx_hash, row.block_number, row.block_hash):
        report.add("outbox_place", row.where, "It is anchored, and its transaction or block isn't named.")


def _compare(report: Report, row: QueueRow, wanted: str | None) -> None:
    if wanted is None:
        report.add("outbox_stray", row.where, "There is nothing of that number to anchor.")
    else:
        report.expect("outbox_hash", row.where, "the hash in the outbox", wanted, row.hash)
