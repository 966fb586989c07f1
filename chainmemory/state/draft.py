"""A working copy of a state: the next version while its ops are applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chainmemory.protocol.evidence import EMPTY, EvidenceTree
from chainmemory.state.document import SCALARS, item_id, items_of

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an op would do: new values of own keys, and for a priority its new rank."""

    target: str
    """An array's path, or one of the three scalars."""
    id: str | None
    """The item; None creates one at the end."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    rank: int | None = None
    """Index (from 0) to move the item to."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item stands."""

    array: str
    index: int
    item: Item


class Draft:
    """The document of the next version, sharing with the current one all that isn't touched.

    The document it starts from is never written to: the top level is copied here, an array when it is first
    written, and a changed item is always a new object.
    """

    def __init__(self, document: Mapping[str, Any], cited: Mapping[str, EvidenceTree], version: int) -> None:
        self.document: dict[str, Any] = {
            **document,
            "provenance": dict(document["provenance"]),
            "environment": dict(document["environment"]),
        }
        self.cited = dict(cited)
        self.version = version
        self._copied: set[str] = set()
        self._indexes: dict[tuple[str, str], dict[str, str]] = {}

    def items(self, array: str) -> list[Item]:
        """Return an array to read from."""
        return items_of(self.document, array)

    def find(self, arrays: Iterable[str], wanted: str) -> Place | None:
        """Look an item up by id in the given arrays."""
        for array in arrays:
            items = self.items(array)
            if array == "priorities":
                index = next((at for at, item in enumerate(items) if item["id"] == wanted), -1)
            else:
                # Ids count up with the place, so the number in it says where to look.
                number = wanted.rpartition("_")[2]
                index = int(number) - 1 if len(number) < 10 and number.isascii() and number.isdigit() else -1
            if 0 <= index < len(items) and items[index]["id"] == wanted:
                return Place(array, index, items[index])
        return None

    def get(self, arrays: Iterable[str], wanted: str) -> Place:
        """Look up an item that is known to exist; KeyError if it doesn't."""
        place = self.find(arrays, wanted)
        if place is None:
            raise KeyError(wanted)
        return place

    def id_by(self, array: str, key: str, value: str) -> str | None:
        """Find the item whose `key`, which never changes, is `value` (in terms, A–Z counts as a–z)."""
        index = self._indexes.get((array, key))
        if index is None:
            index = {_fold(array, item[key]): item["id"] for item in self.items(array)}
            self._indexes[array, key] = index
        return index.get(_fold(array, value))

    def evidence(self, key: str) -> EvidenceTree:
        """Return what an item or scalar has cited so far."""
        return self.cited.get(key, EMPTY)

    def changes(self, plan: Plan) -> bool:
        """Say whether a plan would leave its target other than it is, citations aside."""
        if plan.target in SCALARS:
            return bool(self.document[plan.target] != plan.changes[plan.target])
        if plan.id is None:
            return True
        place = self.get((plan.target,), plan.id)
        if plan.rank is not None and plan.rank != place.index:
            return True
        return any(place.item[key] != value for key, value in plan.changes.items())

    def apply(self, plan: Plan, evidence: EvidenceTree) -> str:
        """Carry a plan out with all that its target has cited by now; return the id of what it touched."""
        if plan.target in SCALARS:
            self.document[plan.target] = plan.changes[plan.target]
            self.document["provenance"][plan.target] = self._stamp(evidence)
            self.cited[plan.target] = evidence
            return plan.target
        if plan.id is None:
            return self._create(plan, evidence)
        return self._change(plan, plan.id, evidence)

    def _create(self, plan: Plan, evidence: EvidenceTree) -> str:
        items = self._writable(plan.target)
        new_id = item_id(plan.target, len(items) + 1)
        stamp = {"created_version": self.version, **self._stamp(evidence)}
        items.append({"id": new_id, **plan.changes, **stamp})
        for (array, key), index in self._indexes.items():
            if array == plan.target:
                index[_fold(array, plan.changes[key])] = new_id
        self.cited[new_id] = evidence
        return new_id

    def _change(self, plan: Plan, item: str, evidence: EvidenceTree) -> str:
        place = self.get((plan.target,), item)
        items = self._writable(plan.target)
        items[place.index] = {**place.item, **plan.changes, **self._stamp(evidence)}
        if plan.rank is not None:
            items.insert(plan.rank, items.pop(place.index))
        self.cited[item] = evidence
        return item

    def _stamp(self, evidence: EvidenceTree) -> dict[str, Any]:
        return {"evidence_root": evidence.root, "updated_version": self.version}

    def _writable(self, array: str) -> list[Item]:
        outer, _, inner = array.partition(".")
        holder = self.document[outer] if inner else self.document
        key = inner or outer
        if array not in self._copied:
            holder[key] = list(holder[key])
            self._copied.add(array)
        items: list[Item] = holder[key]
        return items


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _fold(array: str, text: str) -> str:
    return text.translate(_ASCII_LOWER) if array == "vocabulary" else text
