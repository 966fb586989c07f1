"""The builder: applies a call to a state and gives the next version, or says why not.

Pure: the same state, call, event hashes and secret give the same bytes on every machine. What isn't touched
is shared between versions, never copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chainmemory.errors import Conflict, IntegrityError, Invalid
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.evidence import EvidenceTree
from chainmemory.state.call import Call, check_call, cited_numbers, label_owners
from chainmemory.state.credentials import looks_secret
from chainmemory.state.document import MAX_CITED, MAX_DOCUMENT_BYTES, SCHEMA_VERSION
from chainmemory.state.draft import Draft, Plan
from chainmemory.state.operations import OPERATIONS
from chainmemory.state.project_state import ProjectState, hash_canonical, state_hash, state_salt
from chainmemory.state.reading import Reader, read_op
from chainmemory.state.rejection import Rejection, invalid_value

__all__ = [
    "Applied", "Call", "ProjectState", "Rejected", "Result", "apply_call", "check_call", "cited_numbers",
    "replay", "state_hash", "state_salt",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Applied:
    """An op that took effect."""

    index: int
    op: str
    id: str
    """The item it created or changed, or `phase`, `vision`, `current_focus`."""
    evidence_root: str
    """hex32 over all that the item has cited, this op included."""
    evidence: list[tuple[int, str]]
    """What this op cites: memory number and event hash (hex32), in the order given."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An op that had no effect, and why."""

    index: int
    op: str
    code: str
    error: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a call."""

    state: ProjectState
    """The new version, or the one before where nothing changed."""
    changed: bool
    applied: list[Applied] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)
    """Label → item id, of the applied ops."""
    resolved_ops: list[dict[str, Any]] = field(default_factory=list)
    """The applied ops for `replay`, JSON-able: `{"index", "op", "item", "fields", "evidence"}`."""
    document_bytes: bytes | None = None
    """The new version's document in canonical form; None where nothing changed."""


def apply_call(
    state: ProjectState,
    call: Call,
    *,
    event_hashes: Mapping[int, str],
    highest_memory: int,
    project_secret: bytes,
    looks_secret: Callable[[str], bool] = looks_secret,
) -> Result:
    """Apply a call to a state (grammar, "Applying a call" 2–8; what a dry run means is the engine's).

    `event_hashes` has the hex32 event hash of every number of `cited_numbers(call)` that can be cited;
    `highest_memory` is the account's highest number (0 for none).
    Raises, in this order: Conflict `version_conflict`; Invalid `evidence_not_found`, `invalid_watermark`,
    `ops_rejected` (with `details["rejected"]`), `state_too_large`.
    """
    _check_version(state, call)
    _check_evidence(call, event_hashes)
    watermark = _watermark(state, call, highest_memory)
    draft = Draft(state.document, state.cited, state.version + 1)
    run = _Run(draft, call, event_hashes, looks_secret)
    for index in range(len(call.ops)):
        run.step(index)
    if call.atomic and run.rejected:
        raise _ops_rejected(run.rejected)
    if not run.applied and watermark == state.consolidated_until_event:
        return Result(state, changed=False, rejected=run.rejected)
    new, document = _finish(draft, state, watermark, project_secret)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise Invalid(
            f"the state would have {len(document)} bytes; at most {MAX_DOCUMENT_BYTES} are allowed. "
            "Shorten texts, or start a new project",
            code="state_too_large",
            details={"bytes": len(document), "limit": MAX_DOCUMENT_BYTES},
        )
    return Result(new, True, run.applied, run.rejected, run.refs, run.resolved, document)


def replay(
    state: ProjectState,
    resolved: Sequence[Mapping[str, Any]],
    *,
    consolidated_until_event: int,
    project_secret: bytes,
    version: int,
) -> ProjectState:
    """Rebuild `version` from the one before it and its resolved ops; no check of the grammar is repeated.

    Raises: IntegrityError if these ops don't fit this state. The caller compares the state hash.
    """
    if version != state.version + 1:
        raise IntegrityError(f"version {version} can't follow version {state.version}")
    draft = Draft(state.document, state.cited, version)
    for op in resolved:
        try:
            plan = OPERATIONS[op["op"]](op["fields"], draft).plan()
            evidence = draft.evidence(plan.id or "").adding(cited["event_hash"] for cited in op["evidence"])
            item = draft.apply(plan, evidence)
        except (KeyError, TypeError, IndexError, AttributeError, Invalid) as error:
            raise IntegrityError(f"a stored op of version {version} can't be applied: {error!r}") from error
        if item != op["item"]:
            raise IntegrityError(f"a stored op of version {version} reached {item}, not {op['item']}")
    return _finish(draft, state, consolidated_until_event, project_secret)[0]


class _Run:
    """The ops of one call, one after the other."""

    def __init__(
        self,
        draft: Draft,
        call: Call,
        event_hashes: Mapping[int, str],
        looks_secret: Callable[[str], bool],
    ) -> None:
        self.applied: list[Applied] = []
        self.rejected: list[Rejected] = []
        self.refs: dict[str, str] = {}
        self.resolved: list[dict[str, Any]] = []
        self._draft = draft
        self._ops = call.ops
        self._event_hashes = event_hashes
        self._reader = Reader(draft, self.refs, label_owners(call), looks_secret)

    def step(self, index: int) -> None:
        """Apply one op, or note why it is rejected; then it has changed nothing."""
        name = self._ops[index]["op"]
        try:
            self._apply(index, name)
        except Rejection as rejection:
            self.rejected.append(Rejected(index, name, rejection.code, rejection.error))

    def _apply(self, index: int, name: str) -> None:
        draft = self._draft
        reading = read_op(self._ops[index], index, self._reader)
        reading.operation.check()
        plan = reading.operation.plan()
        cited = [(number, self._event_hashes[number]) for number in reading.evidence]
        evidence = _evidence(draft, plan, cited)
        item = draft.apply(plan, evidence)
        if reading.ref is not None:
            self.refs[reading.ref] = item
        self.applied.append(Applied(index, name, item, evidence.root, cited))
        self.resolved.append(
            {
                "index": index,
                "op": name,
                "item": item,
                "fields": reading.operation.values,
                "evidence": [{"memory_number": number, "event_hash": event} for number, event in cited],
            }
        )


def _evidence(draft: Draft, plan: Plan, cited: list[tuple[int, str]]) -> EvidenceTree:
    """Return all that the plan's target has cited with this op; Rejection `no_change` or `invalid_value`."""
    before = draft.evidence(plan.id or "")
    after = before.adding(event for _, event in cited)
    if after is before and not draft.changes(plan):
        raise Rejection(
            "no_change", f"{plan.id} is already so, and every memory cited here is among its evidence"
        )
    if len(after) > MAX_CITED:
        raise invalid_value(
            f"evidence_memory_ids would bring {plan.id} to {len(after)} cited memories; at most {MAX_CITED}"
        )
    return after


def _finish(
    draft: Draft, before: ProjectState, watermark: int, project_secret: bytes
) -> tuple[ProjectState, bytes]:
    draft.document["state_meta"] = {
        "schema_version": SCHEMA_VERSION,
        "project_id": before.document["state_meta"]["project_id"],
        "salt": state_salt(project_secret, draft.version),
        "version": draft.version,
        "consolidated_until_event": watermark,
        "previous_state_hash": before.state_hash,
    }
    document = canonical(draft.document)
    return ProjectState(draft.document, draft.cited, hash_canonical(document)), document


def _check_version(state: ProjectState, call: Call) -> None:
    if call.expected_version is not None and call.expected_version != state.version:
        raise Conflict(
            f"the project is at version {state.version}, not {call.expected_version}; "
            "read it again and decide anew",
            code="version_conflict",
            field="expected_version",
            details={"current_version": state.version, "expected_version": call.expected_version},
        )


def _check_evidence(call: Call, event_hashes: Mapping[int, str]) -> None:
    missing = {number: ops for number, ops in cited_numbers(call).items() if number not in event_hashes}
    if not missing:
        return
    ops = sorted({index for indexes in missing.values() for index in indexes})
    raise Invalid(
        f"these memories don't exist or can't be cited: {_list(list(missing))} (in op {_list(ops)})",
        code="evidence_not_found",
        field=f"ops.{ops[0]}.evidence_memory_ids",
        details={
            "missing": [{"memory_number": number, "ops": indexes} for number, indexes in missing.items()]
        },
    )


def _watermark(state: ProjectState, call: Call, highest_memory: int) -> int:
    current, given = state.consolidated_until_event, call.consolidated_until_event
    if given is None:
        return current
    if not current <= given <= highest_memory:
        raise Invalid(
            f"consolidated_until_event must lie between the current watermark {current} and the account's "
            f"highest memory number {highest_memory}, not {given}",
            code="invalid_watermark",
            field="consolidated_until_event",
            details={"current": current, "highest_memory": highest_memory},
        )
    return given


def _ops_rejected(rejected: list[Rejected]) -> Invalid:
    first = rejected[0]
    return Invalid(
        f"{len(rejected)} of the ops are invalid, and the call is atomic, so nothing was applied; "
        f"the first is op {first.index}: {first.error}",
        code="ops_rejected",
        field=f"ops.{first.index}",
        details={
            "rejected": [
                {"index": one.index, "op": one.op, "code": one.code, "error": one.error} for one in rejected
            ]
        },
    )


def _list(numbers: list[int], most: int = 20) -> str:
    text = ", ".join(map(str, numbers[:most]))
    return text if len(numbers) <= most else f"{text} and {len(numbers) - most} more"
