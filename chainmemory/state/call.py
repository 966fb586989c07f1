"""A call: up to a hundred ops with their options, its shape checked (grammar, "Applying a call" 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from chainmemory.errors import Invalid
from chainmemory.protocol.text import is_unicode, printable
from chainmemory.state.fields import is_label, kind_of, shown, whole_number

MAX_OPS: Final = 100
KEYS: Final = (
    "ops", "consolidated_until_event", "expected_version", "atomic", "dry_run", "generated_by",
)  # fmt: skip
"""The top-level keys of a call (api.md, "Project state")."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the right shape; its ops are still as they came."""

    ops: tuple[dict[str, Any], ...]
    consolidated_until_event: int | None = None
    expected_version: int | None = None
    atomic: bool = False
    dry_run: bool = False
    generated_by: str | None = None


def check_call(body: Any) -> Call:
    """Read a call from a parsed JSON body; an option given as null is as if not given.

    Raises: Invalid, `unknown_field` (first) or `invalid_request`.
    """
    if not isinstance(body, dict):
        raise _refused(f"the body must be a JSON object, not {kind_of(body)}", None)
    for key in body:
        if key not in KEYS:
            name = printable(key)
            raise Invalid(
                f"a call has no field {name}; its fields are {', '.join(KEYS)}",
                code="unknown_field",
                field=name[1:-1],
            )
    return Call(
        ops=_ops(body.get("ops")),
        consolidated_until_event=_integer(body, "consolidated_until_event"),
        expected_version=_integer(body, "expected_version"),
        atomic=_flag(body, "atomic"),
        dry_run=_flag(body, "dry_run"),
        generated_by=_text(body, "generated_by"),
    )


def cited_numbers(call: Call) -> dict[int, list[int]]:
    """Collect the memory numbers that a call cites, each with the indexes of the ops that do.

    Every integer from 1 in any op's `evidence_memory_ids` counts, even where that op will be rejected.
    """
    cited: dict[int, list[int]] = {}
    for index, op in enumerate(call.ops):
        given = op.get("evidence_memory_ids")
        if not isinstance(given, list):
            continue
        for number in {whole_number(element) for element in given}:
            if number is not None and number >= 1:
                cited.setdefault(number, []).append(index)
    return dict(sorted(cited.items()))


def label_owners(call: Call) -> dict[str, int]:
    """Say which op each label belongs to: the first that carries it in valid form, applied or not."""
    owners: dict[str, int] = {}
    for index, op in enumerate(call.ops):
        label = op.get("ref")
        if is_label(label):
            owners.setdefault(str(label), index)
    return owners


def _ops(given: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(given, list):
        raise _refused(f"ops must be a list of 1 to {MAX_OPS} operations, not {kind_of(given)}", "ops")
    if not 1 <= len(given) <= MAX_OPS:
        raise _refused(f"a call has 1 to {MAX_OPS} ops; this one has {len(given)}", "ops")
    for index, op in enumerate(given):
        if not isinstance(op, dict):
            raise _refused(f"ops.{index} must be an object, not {kind_of(op)}", f"ops.{index}")
        if not isinstance(op.get("op"), str):
            raise _refused(
                f'ops.{index} needs "op", the name of an operation, as a string', f"ops.{index}.op"
            )
    return tuple(given)


def _integer(body: dict[str, Any], key: str) -> int | None:
    given = body.get(key)
    number = whole_number(given)
    if given is not None and number is None:
        raise _refused(f"{key} must be a whole number, not {shown(given)}", key)
    return number


def _flag(body: dict[str, Any], key: str) -> bool:
    given = body.get(key)
    if given is not None and not isinstance(given, bool):
        raise _refused(f"{key} must be true or false, not {shown(given)}", key)
    return bool(given)


def _text(body: dict[str, Any], key: str) -> str | None:
    given = body.get(key)
    if given is not None and (not isinstance(given, str) or not is_unicode(given)):
        raise _refused(f"{key} must be a string, not {shown(given)}", key)
    return given


def _refused(message: str, field: str | None) -> Invalid:
    return Invalid(message, code="invalid_request", field=field)
