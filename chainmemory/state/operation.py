"""What an operation is: its fields, its checks against the state, and its effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from chainmemory.state.document import ARRAYS
from chainmemory.state.draft import Draft, Item, Place, Plan
from chainmemory.state.fields import LONG, SHORT, Choice, Field, ItemId, Text

OPERATIONS: dict[str, type[Operation]] = {}
"""Every operation by its name; importing chainmemory.state.operations fills it."""


class Operation:
    """One of the thirty operations; an instance is one op with its values read and its ids resolved.

    A subclass is a row of grammar.md's table: `name`, `fields` in the table's order, and what it does.
    """

    name: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    takes_ref: ClassVar[bool] = False
    holds_topology: ClassVar[bool] = False
    """Its text must not look like a secret."""

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            OPERATIONS[cls.name] = cls

    def __init__(self, values: Mapping[str, Any], draft: Draft) -> None:
        self.values = values
        """Only what was given; ids are real ids."""
        self.draft = draft

    def check(self) -> None:
        """Raise Rejection where the state forbids the op (grammar, step 4 from id = by_id on)."""

    def plan(self) -> Plan:
        """Say what the op does to a state that allows it."""
        raise NotImplementedError


class AddItem(Operation):
    """Creates an item in `array` from the op's fields."""

    array: ClassVar[str]
    takes_ref = True

    def plan(self) -> Plan:
        spec = ARRAYS[self.array]
        own = {key: self.values.get(key) for key in spec.keys}
        if spec.statuses:
            own["status"] = spec.statuses[0]
        return Plan(self.array, None, own)


class ChangeItem(Operation):
    """Changes the item named by `id`, which the first field says where to find."""

    def plan(self) -> Plan:
        place = self.place()
        return Plan(place.array, place.item["id"], self.changes(), self.rank())

    def place(self) -> Place:
        """Return the item to change and where it stands."""
        return self.draft.get(cast(ItemId, self.fields[0]).arrays, self.values["id"])

    def item(self) -> Item:
        """Return the item to change."""
        return self.place().item

    def changes(self) -> dict[str, Any]:
        """Return the own keys that get new values."""
        return {}

    def rank(self) -> int | None:
        """Return the index to move the item to, or None."""
        return None


class SetStatus(ChangeItem):
    """Sets the item's status to one that the field allows."""

    def changes(self) -> dict[str, Any]:
        return {"status": self.values["status"]}


class SetScalar(Operation):
    """Sets one of the document's three texts."""

    scalar: ClassVar[str]

    def plan(self) -> Plan:
        return Plan(self.scalar, self.scalar, {self.scalar: self.values[self.fields[0].name]})


def short(name: str, *, required: bool = False) -> Text:
    """Make a field for a title, a name or the like."""
    return Text(name, required, SHORT)


def long(name: str, *, required: bool = False) -> Text:
    """Make a field for a statement, a description or the like."""
    return Text(name, required, LONG)


def id_of(*arrays: str, name: str = "id") -> ItemId:
    """Make the required field that names an item of one of `arrays`."""
    return ItemId(name, True, arrays)


def status_of(array: str, *only: str) -> Choice:
    """Make the required status field of an array's items: all of its statuses, or `only` these."""
    return Choice("status", True, only or ARRAYS[array].statuses)
