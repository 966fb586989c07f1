"""Reading one op: the checks of grammar.md, "Applying a call" 4, in their order, up to the ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chainmemory.protocol.text import printable
from chainmemory.state.document import ARRAYS
from chainmemory.state.draft import Draft
from chainmemory.state.fields import ItemId, ItemIds, Text, parse_evidence, parse_ref, shown
from chainmemory.state.operation import Operation
from chainmemory.state.operations import OPERATIONS
from chainmemory.state.rejection import Rejection, invalid_value


@dataclass(frozen=True, slots=True)
class Reader:
    """What the ops of one call are read against."""

    draft: Draft
    refs: Mapping[str, str]
    """Labels of the ops applied so far, with the item each stands for."""
    owners: Mapping[str, int]
    """The op that each label of the call belongs to."""
    looks_secret: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Reading:
    """An op that is valid as far as it can be judged without asking what it would do."""

    operation: Operation
    evidence: tuple[int, ...]
    ref: str | None


def read_op(op: Mapping[str, Any], index: int, reader: Reader) -> Reading:
    """Read the op at `index` of a call; Rejection with the first check that fails."""
    kind = OPERATIONS.get(op["op"])
    if kind is None:
        raise Rejection(
            "unknown_op", f"there is no operation {shown(op['op'])}; there are {', '.join(OPERATIONS)}"
        )
    _check_names(kind, op)
    values = _values(kind, op)
    evidence = parse_evidence(op.get("evidence_memory_ids"))
    ref = parse_ref(op.get("ref"))
    if kind.holds_topology:
        _check_secrets(kind, values, reader.looks_secret)
    if ref is not None and reader.owners[ref] != index:
        raise Rejection(
            "duplicate", f'the label "{ref}" belongs to op {reader.owners[ref]} of this call; choose another'
        )
    for field in kind.fields:
        if field.name in values and isinstance(field, ItemId):
            values[field.name] = _resolve(field, values[field.name], reader)
        elif field.name in values and isinstance(field, ItemIds):
            values[field.name] = [_resolve(field, element, reader) for element in values[field.name]]
    return Reading(kind(values, reader.draft), evidence, ref)


def _check_names(kind: type[Operation], op: Mapping[str, Any]) -> None:
    allowed = {field.name for field in kind.fields} | {"op", "evidence_memory_ids"}
    if kind.takes_ref:
        allowed.add("ref")
    for key in op:
        if key not in allowed:
            raise Rejection(
                "unknown_field", f"{kind.name} has no field {shown(key)}; it takes {_takes(kind)}"
            )
    for field in kind.fields:
        if field.required and field.name not in op:
            raise Rejection("missing_field", f"{kind.name} needs {field.name}: {field.wants}")


def _takes(kind: type[Operation]) -> str:
    names = [field.name + (" (required)" if field.required else "") for field in kind.fields]
    return ", ".join([*names, "evidence_memory_ids", *(["ref"] if kind.takes_ref else [])])


def _values(kind: type[Operation], op: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for field in kind.fields:
        given = op.get(field.name)
        if given is not None:
            values[field.name] = field.parse(given)
        elif field.required:
            raise invalid_value(f"{field.name} must be {field.wants}, not null")
    return values


def _check_secrets(
    kind: type[Operation], values: Mapping[str, Any], looks_secret: Callable[[str], bool]
) -> None:
    for field in kind.fields:
        if isinstance(field, Text) and field.name in values and looks_secret(values[field.name]):
            raise Rejection(
                "secret_detected",
                f"{field.name} looks like it holds a credential, key, token or password; "
                "keep secrets elsewhere and give only the topology",
            )


def _resolve(field: ItemId | ItemIds, given: str, reader: Reader) -> str:
    wanted = reader.refs.get(given[1:], given) if given.startswith("@") else given
    if reader.draft.find(field.arrays, wanted) is not None:
        return wanted
    nouns = " or ".join(ARRAYS[array].noun for array in field.arrays)
    if wanted != given:
        raise Rejection("not_found", f"{field.name} {printable(given)} is {wanted}, which is no {nouns}")
    if given.startswith("@"):
        raise Rejection(
            "not_found", f"{field.name} {printable(given)}: no op before this one was applied with that ref"
        )
    there = "; ".join(_extent(reader.draft, array) for array in field.arrays)
    raise Rejection("not_found", f"{field.name} {printable(given)} is no {nouns} of this project ({there})")


def _extent(draft: Draft, array: str) -> str:
    count, spec = len(draft.items(array)), ARRAYS[array]
    if count == 0:
        return f"there is no {spec.noun} yet"
    return f"there is {spec.prefix}_0001" + (f" to {spec.prefix}_{count:04}" if count > 1 else "")
