"""The records of an account beside its entries, in one pass that keeps only what is out of order.

Saves are in the ledger in order of number and states in order of version, so each is compared with its row as
it comes. What doesn't match, and what a later `adopt` or `forget` says something else of, is kept and judged
at the end by its latest entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chainmemory.engine.ledger_records import UNREADABLE, event_hash_of, memory_record, state_record
from chainmemory.ledger.chain import Ordinary, Single
from chainmemory.ledger.entries import Entry, Seal, pack
from chainmemory.ledger.verdicts import Record, judge
from chainmemory.store.sealed import LOWEST, SealedMemory, SealedRecords
from chainmemory.vault.account import AccountVault

_LAST: Final = 2**63 - 1

Place = tuple[str, int]
"""A state version: project id and version."""


class Irregular(Exception):
    """The entries aren't as this program writes them; the exact way has to tell what they mean."""


@dataclass(slots=True)
class Found:
    """How many records are sealed, and the names of all others by verdict."""

    sealed: int = 0
    others: dict[str, list[str]] = field(
        default_factory=lambda: {
            verdict: [] for verdict in ("altered", "missing", "unsealed", "disputed", "forgotten")
        }
    )

    def judge(self, name: str, seal: Seal | None, record: Record | None) -> None:
        """Count one record."""
        if seal is None and record is None:
            return
        verdict = judge(seal, None, record)
        if verdict == "sealed":
            self.sealed += 1
        else:
            self.others[verdict].append(name)


class Stream:
    """Takes the entries of a whole chain in order, then tells what became of the records."""

    def __init__(
        self,
        records: SealedRecords,
        account_id: str,
        vault: AccountVault | None,
        failing: Mapping[str, set[int]],
    ) -> None:
        self._records = records
        self._account_id = account_id
        self._vault = vault
        self._failing = failing
        self._found = Found()
        self._swept: Any = LOWEST
        """Memories up to this number were compared, or found to have no save."""
        self._odd_memories: dict[Any, Seal | None] = {}
        """Those that didn't match their save, or have none: with the latest entry."""
        self._later_memories: dict[int, Seal] = {}
        self._versions: dict[str, int] = {}
        self._odd_states: dict[Place, Seal | None] = {}
        self._later_states: dict[Place, Seal] = {}

    def take(self, taken: Ordinary | Single) -> None:
        """Take what the chain says of the next lines. Raises Irregular."""
        if isinstance(taken, Ordinary):
            columns = taken.page.columns
            if taken.page.op == "save":
                self._saves(columns["memory_id"], taken.seals)
            else:
                for project, version, seal in zip(
                    columns["project_id"], columns["version"], taken.seals, strict=True
                ):
                    self._state(project, int(version), seal)
        elif taken.entry is not None and taken.entry.record is not None:
            self._single(taken.entry, taken.entry.record)

    def finish(self, projects: Sequence[str]) -> Found:
        """Compare what is left; `projects` are the ids of the account's projects, in the order to report."""
        self._sweep(_LAST, upto_the_end=True)
        for number in sorted(self._odd_memories.keys() | self._later_memories.keys(), key=_in_order):
            self._settle_memory(number)
        gone = sorted(self._versions.keys() - set(projects))
        for project in [*projects, *gone]:
            for row in self._records.states_after(project, self._versions.get(project, LOWEST)):
                self._odd_states.setdefault((project, row.version), None)
        order = {project: at for at, project in enumerate([*projects, *gone])}
        places = self._odd_states.keys() | self._later_states.keys()
        for place in sorted(
            places, key=lambda one: (order.get(one[0], len(order)), one[0], _in_order(one[1]))
        ):
            self._settle_state(place)
        return self._found

    def _single(self, entry: Entry, record: str) -> None:
        kind, _, name = record.partition(":")
        if kind == "memory":
            if entry.op == "save":
                self._saves([name], [pack(entry)])
            else:
                self._later_memories[_number(name)] = pack(entry)
        elif kind == "state":
            project, _, version = name.rpartition("@")
            if entry.op == "state":
                self._state(project, int(version), pack(entry))
            else:
                self._later_states[project, int(version)] = pack(entry)
        else:
            raise Irregular

    # -- memories ---------------------------------------------------------------------------------

    def _saves(self, names: Sequence[str], seals: Sequence[Seal]) -> None:
        numbers = [_number(name) for name in names]
        first, last = numbers[0], numbers[-1]
        if numbers != list(range(first, last + 1)) or first <= self._swept:
            raise Irregular
        self._sweep(first - 1)
        if self._vault is None:
            rows = self._records.memories(self._account_id, first, last)
            if [row.number for row in rows] == numbers and _seals(self._account_id, rows) == seals:
                self._found.sealed += len(rows)
                self._swept = last
                return
        whole = {row.number: row for row in self._records.whole_memories(self._account_id, first, last)}
        for number, seal in zip(numbers, seals, strict=True):
            row = whole.get(number)
            record = memory_record(self._account_id, row, self._vault) if row is not None else None
            if judge(seal, None, record) == "sealed":
                self._found.sealed += 1
            else:
                self._odd_memories[number] = seal
        self._swept = last

    def _sweep(self, last: int, *, upto_the_end: bool = False) -> None:
        """Note the memories up to `last` that have no save."""
        if not upto_the_end and self._swept == last:
            return
        rows = (
            self._records.memories_after(self._account_id, self._swept)
            if upto_the_end
            else self._records.memories(self._account_id, self._swept + 1, last)
        )
        for row in rows:
            self._odd_memories[row.number] = None
        self._swept = last

    def _settle_memory(self, number: Any) -> None:
        row = self._records.whole_memory(self._account_id, number)
        record = memory_record(self._account_id, row, self._vault) if row is not None else None
        if number not in self._odd_memories and row is not None:
            # It matched its save and was counted; a later entry says more.
            self._found.sealed -= 1
        seal = self._later_memories.get(number, self._odd_memories.get(number))
        self._found.judge(f"memory:{number}", seal, record)

    # -- states -----------------------------------------------------------------------------------

    def _state(self, project: str, version: int, seal: Seal) -> None:
        if version != self._versions.get(project, 0) + 1:
            raise Irregular
        if version == 1:
            for row in self._records.states_after(project, LOWEST, chunk=1):
                if row.version >= 1:
                    break
                self._odd_states[project, row.version] = None
        self._versions[project] = version
        if judge(seal, None, self._state_record((project, version))) == "sealed":
            self._found.sealed += 1
        else:
            self._odd_states[project, version] = seal

    def _state_record(self, place: Place) -> Record | None:
        row = self._records.state(*place)
        if row is None:
            return None
        return (
            UNREADABLE if place[1] in self._failing.get(place[0], ()) else state_record(self._account_id, row)
        )

    def _settle_state(self, place: Place) -> None:
        record = self._state_record(place)
        if place not in self._odd_states and record is not None:
            self._found.sealed -= 1
        seal = self._later_states.get(place, self._odd_states.get(place))
        self._found.judge(f"state:{place[0]}@{place[1]}", seal, record)


def _seals(account_id: str, rows: Sequence[SealedMemory]) -> list[str] | None:
    """Return what these memories' saves must have sealed; None where a row is out of the ordinary."""
    seals = []
    account = f'{{"account_id":"{account_id}",'.encode()
    for number, event_hash, forgotten, header, blob in rows:
        if forgotten or not isinstance(blob, bytes) or event_hash != event_hash_of(header):
            return None
        # In canonical form they can be nowhere else: in a string a quote has a backslash before it.
        if not header.startswith(account) or b'"number":%d,' % number not in header:
            return None
        seals.append(hashlib.sha256(header).hexdigest() + hashlib.sha256(blob).hexdigest())
    return seals


def _number(name: str) -> int:
    try:
        number = int(name)
    except ValueError:
        raise Irregular from None
    if str(number) != name or abs(number) >= _LAST:
        raise Irregular
    return number


def _in_order(number: Any) -> tuple[bool, Any]:
    """Numbers first; in a damaged SQLite a number may be a text."""
    return not isinstance(number, int), number if isinstance(number, int) else str(number)
