"""What became of each record, by the entries that can be trusted (protocol §5, "Verdicts")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from chainmemory.ledger.entries import ReadLine, Seal, unpack
from chainmemory.ledger.stretch import Ahead
from chainmemory.ledger.walk import Walk, walk

Verdict = Literal["sealed", "altered", "missing", "forgotten", "disputed", "unsealed"]


class Record(NamedTuple):
    """What a store holds under one name now."""

    seals: Mapping[str, str] | None
    """The hashes computed from it, under an entry's keys; None if it can't be parsed or decrypted."""
    rest_sha256: str | None = None
    """Where its content is gone, as after a `forget`: the hash over what is left (`seals` is then None)."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole verification."""

    walk: Walk
    ok: bool | None
    """None where the chain with the anchored heads can't be reached and nothing else is wrong."""
    sealed: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    disputed: list[str] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)
    head_matches: bool | None = None
    """Whether the last anchored head is an entry here; None where there is none or none is known."""


def verify(
    lines: Iterable[bytes],
    records: Iterable[tuple[str, Record]],
    *,
    read: ReadLine,
    heads: Mapping[int, str] | None,
    unsealed_is_wrong: bool,
    ahead: Ahead | None = None,
) -> Report:
    """Verify a ledger and the records beside it.

    `records`: each name once, in the order to report; missing ones follow in the order they were sealed.
    `heads`: anchored heads by position, empty where none was ever anchored, None where the chain that has
    them can't be reached. `unsealed_is_wrong`: true on the server, false for a file tenant.
    `ahead`: the lines after these, where another process reads them.
    """
    walked = walk(lines, read, heads, ahead=ahead)
    by_verdict: dict[Verdict, list[str]] = {
        "sealed": [],
        "altered": [],
        "missing": [],
        "forgotten": [],
        "disputed": [],
        "unsealed": [],
    }
    for name, verdict in verdicts(walked, records):
        by_verdict[verdict].append(name)
    wrong = (
        # A repaired chain is never ok again: who can write the store can write an acceptance too.
        walked.chain in ("broken", "repaired")
        or by_verdict["altered"]
        or by_verdict["missing"]
        or walked.heads_missing
        or (unsealed_is_wrong and by_verdict["unsealed"])
    )
    ok = False if wrong else (None if heads is None else True)
    matches = (max(heads) not in walked.heads_missing) if heads else None
    return Report(walked, ok, **by_verdict, head_matches=matches)


def verdicts(walked: Walk, records: Iterable[tuple[str, Record]]) -> Iterator[tuple[str, Verdict]]:
    """Give the verdict on each record, then on those that the ledger names and nobody holds any more."""
    seen: set[str] = set()
    trusted, untrusted = walked.trusted, walked.untrusted
    for name, record in records:
        seen.add(name)
        seal, seals = trusted.get(name), record.seals
        # The usual record of a file tenant, at once: its one hash is what its trusted entry packs.
        if seals is not None and len(seals) == 1 and seal is not None and seals.get("content_sha256") == seal:
            yield name, "sealed"
        else:
            yield name, judge(seal, untrusted.get(name), record)
    for name in trusted:
        if name not in seen:
            yield name, judge(trusted[name], None, None)
    for name in untrusted:
        if name not in seen and name not in trusted:
            yield name, judge(None, untrusted[name], None)


def judge(trusted: Seal | None, untrusted: Seal | None, record: Record | None) -> Verdict:
    """Judge one record (None: gone) by its latest trusted entry, else by its latest untrusted one."""
    if trusted is not None:
        return _forgotten(trusted, record) if _forgets(trusted) else _sealed(trusted, record)
    if untrusted is not None:
        if _forgets(untrusted) or _matches(untrusted, record):
            return "disputed"
        return "missing" if record is None else "altered"
    return (
        "altered" if record is None or (record.seals is None and record.rest_sha256 is None) else "unsealed"
    )


def _forgets(seal: Seal) -> bool:
    return not isinstance(seal, str) and seal.op == "forget"


def _sealed(seal: Seal, record: Record | None) -> Verdict:
    if record is None:
        return "missing"
    return "sealed" if _matches(seal, record) else "altered"


def _forgotten(seal: Seal, record: Record | None) -> Verdict:
    rest = unpack(seal).rest_sha256
    if record is None:
        # A file tenant may remove the whole file; the server keeps the rest, and its entry says which.
        return "forgotten" if rest is None else "missing"
    return "forgotten" if record.rest_sha256 and record.rest_sha256 == rest else "altered"


def _matches(seal: Seal, record: Record | None) -> bool:
    return record is not None and record.seals == unpack(seal).seals
