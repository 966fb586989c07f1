"""Adopting what was put into the store past the server, and accepting a break after a restore (§5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chainmemory.engine import clock
from chainmemory.engine.callers import Caller
from chainmemory.engine.ledger_check import Checked, check, follow
from chainmemory.engine.ledger_heads import AnchoredHeads
from chainmemory.engine.ledger_records import memory_record, state_record
from chainmemory.engine.ledger_states import failing_versions
from chainmemory.engine.ledger_verify import report, run
from chainmemory.engine.once import Once, Written, write
from chainmemory.engine.shapes import Boolean, Field, Record, Text
from chainmemory.errors import Conflict, Invalid, NotFound, Unavailable
from chainmemory.ledger.accepts import MOST, Accepts
from chainmemory.ledger.chain import Chain
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.hashing import ZERO
from chainmemory.protocol.identity import account_ref
from chainmemory.protocol.ledger_entry import make_entry
from chainmemory.store.accounts import Head
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.outbox_rows import MEMORY, STATE
from chainmemory.store.projects import Project
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

SEAL: Final = Record(
    {
        "accept_break": Field(
            Boolean(), note="go on knowingly although the chain is broken, or an anchored head is lost"
        ),
        "reason": Field(Text(1, 1_000), note="why; needed with accept_break"),
    }
)


@dataclass(frozen=True, slots=True)
class Adoption:
    """One unsealed record that can be adopted."""

    name: str
    seals: dict[str, Any]
    """The keys that its entry has beside those of every entry."""
    outbox: tuple[str, str, int, str]
    """Kind, subject, position and hash, for the worker."""


def seal(engine: Engine, caller: Caller, once: Once | None, fields: dict[str, Any]) -> Written:
    """Adopt every unsealed record that can be read, in one transaction with the check that allows it.

    An altered record is never sealed again. With `accept_break` a broken chain or a lost head is accepted by
    an entry that names it: the chain is `repaired` from then on, never plain intact.
    Raises Conflict with the report (`ledger_broken`, `head_missing`, `chain_mismatch`), Unavailable where
    there is something to seal and the chain can't be asked, Invalid (`missing_field`).
    """
    accepting, reason = bool(fields["accept_break"]), fields["reason"]
    if accepting and reason is None:
        raise Invalid("Say why you accept the break: give reason.", code="missing_field", field="reason")
    before, heads = run(engine, caller.account_id)
    if heads is None and (accepting or before.unsealed):
        raise Unavailable(
            "The chain can't be asked which heads are anchored, so nothing is sealed now; try again later.",
            code="chain_unavailable",
        )
    if heads is None:
        heads = AnchoredHeads({}, None)
        _refuse(before, None)
        return write(engine, caller, once, lambda _: {"sealed": [], "report": report(before, None)})
    if not accepting:
        _refuse(before, heads)
    sealing = _Sealing(engine, caller.account_id, heads, reason if accepting else None)
    sealing.compare_on_chain(before)
    return write(engine, caller, once, sealing.run)


class _Sealing:
    """One call of `seal`; `run` may run several times."""

    def __init__(self, engine: Engine, account_id: str, heads: AnchoredHeads, accept: str | None) -> None:
        self._engine = engine
        self._account_id = account_id
        self._vault = engine.vault(account_id)
        self._heads = heads
        self._accept = accept
        self._compared: set[str] = set()

    def compare_on_chain(self, before: Checked) -> None:
        """Refuse what the chain holds another hash of. Raises Conflict (`chain_mismatch`), Unavailable."""
        with self._engine.db.read() as tx:
            adoptions = list(_adoptions(tx, self._vault, before.unsealed))
        others = [adoption.name for adoption in adoptions if not self._agrees(adoption)]
        if others:
            raise Conflict(
                f"The chain holds another hash of {', '.join(others[:5])}; nothing was sealed.",
                code="chain_mismatch",
                details={"report": report(before, self._heads), "records": others},
            )
        self._compared = set(before.unsealed)

    def run(self, tx: Tx) -> dict[str, Any]:
        """Check again under the account's lock, then write."""
        head = tx.accounts.lock(self._account_id)
        checked = check(tx, self._account_id, self._heads.by_position)
        chain = follow(tx, self._account_id, self._heads.by_position)
        if set(checked.unsealed) - self._compared:
            raise Conflict("The ledger changed under this call; try again.", code="try_again")
        if self._accept is None:
            _refuse(checked, self._heads)
            if (head.ledger_seq, head.ledger_hash) != (chain.next_seq - 1, chain.before):
                raise _broken(checked, self._heads, "The last entries are gone")
        adoptions = list(_adoptions(tx, self._vault, checked.unsealed))
        accepts = self._accepts(chain, head, checked)
        if not adoptions and accepts is None:
            return {"sealed": [], "report": report(checked, self._heads)}
        self._write(tx, head, chain, accepts, adoptions)
        after = check(tx, self._account_id, self._heads.by_position)
        return {"sealed": [adoption.name for adoption in adoptions], "report": report(after, self._heads)}

    def _accepts(self, chain: Chain, head: Head, checked: Checked) -> Accepts | None:
        """Return what has to be accepted, None where nothing has."""
        lost = chain.heads_lost
        unknown = [one for one in chain.breaks if not chain.is_accepted(one)]
        cut = (head.ledger_seq, head.ledger_hash) != (chain.next_seq - 1, chain.before)
        if self._accept is None or not (lost or unknown or cut):
            return None
        if len(chain.breaks) > MOST or len(lost) > MOST:
            raise _broken(checked, self._heads, f"The chain is broken in more than {MOST} places")
        return Accepts(frozenset(map(tuple, unknown)), frozenset(lost), self._accept)  # type: ignore[arg-type]

    def _write(
        self, tx: Tx, head: Head, chain: Chain, accepts: Accepts | None, adoptions: list[Adoption]
    ) -> None:
        now = clock.now()
        seq, prev = chain.next_seq, chain.before
        given: list[dict[str, Any]] = [{"accepts": accepts.as_json()}] if accepts is not None else []
        rows = []
        for keys in [*given, *(adoption.seals for adoption in adoptions)]:
            entry = make_entry(prev, seq, now, "adopt", **keys)
            rows.append(LedgerRow(self._account_id, seq, entry["hash"], canonical(entry).decode()))
            seq, prev = seq + 1, entry["hash"]
        highest = max(
            (adoption.outbox[2] for adoption in adoptions if adoption.outbox[0] == MEMORY), default=0
        )
        # The next save must not meet an adopted number.
        start = Head(max(highest, head.memory_count), chain.next_seq - 1, chain.before)
        if start != head:
            tx.accounts.advance(self._account_id, old=head, new=start)
        tx.ledger.write(self._account_id, start, rows)
        for kind, subject, position, digest in (adoption.outbox for adoption in adoptions):
            tx.ledger.records.enqueue(kind, subject, position, self._account_id, digest, now)

    def _agrees(self, adoption: Adoption) -> bool:
        """Say whether the chain holds nothing else of this record."""
        kind, subject, position, digest = adoption.outbox
        try:
            if kind == MEMORY:
                return self._engine.chain.recorded_hash(account_ref(subject), position) in (None, digest)
            return self._engine.chain.state_hashes(subject, position, 1)[0] in (ZERO, digest)
        except NotFound as error:
            raise Unavailable(error.message, code="chain_unavailable") from error


def _adoptions(tx: Tx, vault: AccountVault, names: Iterable[str]) -> Iterator[Adoption]:
    """Yield those of the unsealed records that are whole: decrypted, and recomputed to their hash."""
    account_id = vault.account_id
    projects = {project.slug: project for project in tx.projects.list(account_id)}
    failing: dict[str, set[int]] = {}
    for name in names:
        kind, _, place = name.partition(":")
        if kind == "memory":
            row = tx.ledger.records.whole_memory(account_id, int(place))
            record = memory_record(account_id, row, vault) if row is not None else None
            if row is not None and record is not None and record.seals is not None:
                seals = {"memory_id": place, **record.seals}
                yield Adoption(name, seals, (MEMORY, account_id, int(place), str(row.event_hash)))
        elif kind == "state":
            slug, _, version = place.rpartition("@")
            project = projects.get(slug)
            if project is None:
                continue
            if slug not in failing:
                failing[slug] = failing_versions(tx, vault, project)
            if int(version) not in failing[slug]:
                yield from _state(tx, account_id, project, int(version), name)


def _state(tx: Tx, account_id: str, project: Project, version: int, name: str) -> Iterator[Adoption]:
    row = tx.ledger.records.state(project.project_id, version)
    record = state_record(account_id, row) if row is not None else None
    if record is not None and record.seals is not None:
        seals = {"project_id": project.project_id, "version": version, **record.seals}
        yield Adoption(name, seals, (STATE, project.project_id, version, record.seals["state_hash"]))


def _refuse(checked: Checked, heads: AnchoredHeads | None) -> None:
    """Raise Conflict where nothing may be sealed."""
    if checked.chain == "broken":
        raise _broken(checked, heads, f"The chain is broken at entry {checked.broken_at} ({checked.reason})")
    if checked.heads_missing and checked.chain != "repaired":
        raise Conflict(
            f"The head anchored at {checked.heads_missing[0]} is no entry of this ledger, so nothing is "
            "sealed; after a restore send accept_break and reason to go on knowingly.",
            code="head_missing",
            details={"report": report(checked, heads)},
        )


def _broken(checked: Checked, heads: AnchoredHeads | None, what: str) -> Conflict:
    return Conflict(
        f"{what}, so nothing is sealed; after a restore send accept_break and reason to go on knowingly.",
        code="ledger_broken",
        details={"report": report(checked, heads)},
    )
