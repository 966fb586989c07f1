"""An account's ledger, walked from its first entry to its head (protocol §5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chainmemory.errors import ChainMemoryError
from chainmemory.protocol.canonical import parse_json
from chainmemory.protocol.ledger_entry import GENESIS_PREV, entry_hash
from chainmemory.verify.findings import Report
from chainmemory.verify.rows import Rows

_OPS = frozenset({"save", "adopt", "forget", "state"})


@dataclass
class Sealed:
    """What a ledger says of the account's records; the latest entry of each counts."""

    hashes: dict[int, str] = field(default_factory=dict)
    """The entries' hashes by seq."""
    memories: dict[int, dict[str, Any]] = field(default_factory=dict)
    states: dict[tuple[str, int], str] = field(default_factory=dict)


def walk(rows: Rows, report: Report, account_id: str, *, seq: int, head: str) -> Sealed:
    """Walk a ledger whose head must be (`seq`, `head`), and return what it seals."""
    sealed = Sealed()
    previous: str | None = GENESIS_PREV
    last = 0
    query = "SELECT seq, hash, entry FROM ledger_entries WHERE account_id = ? ORDER BY seq"
    for number, stored, text in rows.all(query, account_id):
        where = f"ledger entry {number} of {account_id}"
        if not (isinstance(number, int) and isinstance(stored, str)):
            report.add_misfits(where, ["seq or hash"])
            continue
        if number != last + 1:
            report.add("ledger_gap", where, f"What stands before it is entry {last}.")
            previous = None
        entry = _parse(report, where, text)
        if entry is not None:
            report.expect("ledger_seq", where, "its seq", number, entry.get("seq"))
            if previous is not None:
                report.expect("ledger_prev", where, "its prev", previous, entry.get("prev"))
            report.expect("ledger_hash", where, "the hash in it", entry_hash(entry), entry.get("hash"))
            report.expect("ledger_hash", where, "the hash beside it", entry.get("hash"), stored)
            _seal(report, where, entry, sealed)
        previous, last = stored, number
        sealed.hashes[number] = stored
    found = (last, sealed.hashes.get(last, GENESIS_PREV))
    report.expect("ledger_head", f"ledger of {account_id}", "its head", (seq, head), found)
    return sealed


def _parse(report: Report, where: str, text: str) -> dict[str, Any] | None:
    try:
        entry = parse_json(text)
    except AttributeError:  # neither text nor bytes
        report.add_misfits(where, ["entry"])
        return None
    except ChainMemoryError as error:
        report.add("ledger_unparseable", where, error.message)
        return None
    if not isinstance(entry, dict):
        report.add("ledger_unparseable", where, "It isn't an object.")
        return None
    return entry


def _seal(report: Report, where: str, entry: dict[str, Any], sealed: Sealed) -> None:
    op = entry.get("op")
    if op not in _OPS:
        report.add("ledger_op", where, f"There is no operation {op!r} in a server's ledger.")
    elif op == "state":
        place = (str(entry.get("project_id")), entry.get("version"))
        if not isinstance(place[1], int):
            report.add("ledger_unparseable", where, "Its version isn't a number.")
        elif place in sealed.states:
            report.add("ledger_twice", where, f"Version {place[1]} of {place[0]} is sealed twice.")
        else:
            sealed.states[place[0], place[1]] = str(entry.get("state_hash"))
    elif "accepts" not in entry:
        number = str(entry.get("memory_id"))
        if not (number.isascii() and number.isdigit()):
            report.add("ledger_unparseable", where, "Its memory_id isn't a number.")
        elif op == "save" and int(number) in sealed.memories:
            report.add("ledger_twice", where, f"Memory {number} is saved twice.")
        else:
            sealed.memories[int(number)] = entry
