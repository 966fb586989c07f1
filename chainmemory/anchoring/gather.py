"""Turning waiting rows into transactions: memories first, then states, then heads, as many as fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import orjson

from chainmemory.anchoring.plan import (
    Batch,
    Limits,
    WaitingHead,
    WaitingMemory,
    WaitingState,
    limits_for,
    plan_heads,
    plan_memories,
    plan_states,
)
from chainmemory.anchoring.post import Draft
from chainmemory.anchoring.roots import MOST_LEAVES, tree_of
from chainmemory.anchoring.station import ROOT, Contracts, Station, head_item, memory_batches, state_item
from chainmemory.chain import gas
from chainmemory.chain.registry import CATEGORY_CODES, MAX_CIPHERTEXT, Payload
from chainmemory.store.memories import Payload as StoredPayload
from chainmemory.store.outbox_rows import HEAD, MEMORY, STATE, OutboxRow
from chainmemory.store.transactions import TransactionRow
from chainmemory.store.tx import Tx

# Rows looked at for one round, at most.
_ROWS = 2_000
# With less room than this there is no point in looking.
_LEAST_ROOM = 200_000
# Ciphertexts may have a megabyte each, so few are in memory at once.
_BLOBS_AT_ONCE = 16
# While memories and states both wait, memories take this share of the room: states need them first.
_MEMORY_SHARE = 2 / 3


class Cadence:
    """When a kind of row is due: `wait_s` after some were last sent, or at once while some were left."""

    def __init__(self, station: Station) -> None:
        options = station.options
        self._steady = station.clock.steady
        self._waits = {
            MEMORY: options.memory_wait_s,
            STATE: options.state_wait_s,
            HEAD: options.head_wait_s,
        }
        self._last: dict[str, float] = {}

    def due(self, kind: str) -> bool:
        last = self._last.get(kind)
        return last is None or self._steady() - last >= self._waits[kind]

    def sent(self, kind: str, *, more: bool) -> None:
        """Note that what was due of a kind was sent; where the room didn't suffice, it stays due."""
        if more:
            self._last.pop(kind, None)
        else:
            self._last[kind] = self._steady()


class Gatherer:
    """Plans and encodes for one station; `gas_scale` multiplies every bound (after running out of gas)."""

    def __init__(self, station: Station, trusted: set[str]) -> None:
        """Take a station, and the projects whose history on the contract is known to be ours.

        A project not among them sends one version alone at first: had the contract another hash for it, the
        versions behind it in the same batch would still be written.
        """
        self._station = station
        self._trusted = trusted
        self._direct_up_to: dict[str, int] = {}
        self._held_back = False
        self.cadence = Cadence(station)
        self.gas_scale = 1.0

    def drafts(self, contracts: Contracts, block_gas_limit: int, used: Callable[[], int]) -> list[Draft]:
        """Return the transactions to send now, in order; empty where nothing is due or there's no room.

        `used` asks for the signer's nonce on the chain: what is below it takes no room any more.
        """
        options, now = self._station.options, self._station.clock.now()
        with self._station.db.read() as tx:
            out = self._station.open_transactions(tx)
            unmined = {row.nonce: row for row in out if row.nonce >= used()}
            limits = limits_for(
                block_gas_limit,
                gas_in_flight=sum(row.gas_limit for row in unmined.values()),
                in_flight=len(unmined),
                max_in_flight=options.max_in_flight,
            ).scaled(self.gas_scale)
            if not limits.transactions or limits.total_gas < _LEAST_ROOM:
                return []
            hashes_out = {row.tx_hash for row in out}
            heads = self._heads(tx, contracts, limits, now, hashes_out)
            limits = _less(limits, heads)
            states = self._waiting_states(tx, contracts, limits, now, out)
            room = _share(limits, _MEMORY_SHARE) if states else limits
            memories = self._memories(tx, contracts, room, now, hashes_out)
            return memories + self._states(contracts, states, _less(limits, memories)) + heads

    # -- memories ---------------------------------------------------------------------------------

    def _memories(
        self, tx: Tx, contracts: Contracts, limits: Limits, now: str, hashes_out: set[str]
    ) -> list[Draft]:
        if not self.cadence.due(MEMORY):
            return []
        most = _most(limits, gas.MEMORY)
        due = tx.outbox.due(MEMORY, now=now, limit=most, part=self._station.options.part)
        rows = [row for row in due if row.tx_hash not in hashes_out]
        payloads: dict[int, Payload] = {}
        batches = plan_memories(self._with_payloads(tx, rows, payloads), limits)
        self._note(MEMORY, rows, batches, most)
        return [self._memory_draft(contracts, batch, rows, payloads) for batch in batches]

    def _with_payloads(
        self, tx: Tx, rows: Sequence[OutboxRow], payloads: dict[int, Payload]
    ) -> Iterator[WaitingMemory]:
        """Yield the rows for the planner, reading ciphertexts only as far as it asks."""
        for account_id, group in groupby(rows, key=lambda row: row.subject):
            of_account = list(group)
            for start in range(0, len(of_account), _BLOBS_AT_ONCE):
                part = of_account[start : start + _BLOBS_AT_ONCE]
                if self._station.options.payload:
                    stored = {
                        p.number: p for p in tx.memories.payloads(account_id, [r.position for r in part])
                    }
                    for row in part:
                        payload = _payload(stored.get(row.position))
                        if payload is not None:
                            payloads[row.id] = payload
                for row in part:
                    known = payloads.get(row.id)
                    size = None if known is None else len(known.ciphertext)
                    yield WaitingMemory(row.id, account_id, row.position, size)

    def _memory_draft(
        self,
        contracts: Contracts,
        batch: Batch,
        rows: Sequence[OutboxRow],
        payloads: dict[int, Payload],
    ) -> Draft:
        chosen = _chosen(rows, batch)
        carried = {
            row.id: payloads[row.id]
            for row in chosen
            if row.id in payloads and row.id not in batch.without_payload
        }
        with_payload: dict[str, list[int]] = defaultdict(list)
        for row in chosen:
            if row.id in carried:
                with_payload[row.subject].append(row.position)
        return Draft(
            MEMORY,
            contracts.registry.address,
            contracts.registry.encode(memory_batches(chosen, carried)),
            self._gas(batch),
            batch.outbox_ids,
            tuple((account_id, tuple(numbers)) for account_id, numbers in with_payload.items()),
        )

    # -- states and heads -------------------------------------------------------------------------

    def _waiting_states(
        self, tx: Tx, contracts: Contracts, limits: Limits, now: str, out: Sequence[TransactionRow]
    ) -> list[OutboxRow]:
        if not self.cadence.due(STATE):
            return []
        most = self._most_states(limits)
        hashes_out = {row.tx_hash for row in out}
        due = tx.outbox.due_states(now=now, limit=most, part=self._station.options.part)
        rows = [row for row in due if row.tx_hash not in hashes_out]
        sent = {outbox_id for row in out if row.purpose == STATE for outbox_id in row.outbox_ids}
        if self._station.options.merkle:
            under_way = {row.subject for row in tx.outbox.by_ids(sent)}
            free = [row for row in rows if row.subject not in under_way]
            chosen = self._only_direct_ones(contracts, free) or free
        elif all(row.subject in self._trusted for row in rows):
            chosen = rows
        else:
            chosen = self._one_of_each_new(rows, {row.subject for row in tx.outbox.by_ids(sent)})
        self._held_back = len(chosen) < len(rows)
        return chosen

    def _one_of_each_new(self, rows: Sequence[OutboxRow], under_way: set[str]) -> list[OutboxRow]:
        """Return the trusted projects' rows, and the first of each other that has none under way."""
        chosen: list[OutboxRow] = []
        for row in rows:
            if row.subject in self._trusted:
                chosen.append(row)
            elif row.subject not in under_way:
                chosen.append(row)
                under_way.add(row.subject)
        return chosen

    def _only_direct_ones(self, contracts: Contracts, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        """Return those rows, if any, whose place the contract itself has settled already.

        They are sent directly, whatever the mode: the contract then says whether it holds this hash, another,
        or begins above. What waits behind them goes under a root once that is known.
        """
        anchors = contracts.anchors
        for project_id in {row.subject for row in rows} - self._direct_up_to.keys():
            self._direct_up_to[project_id] = anchors.project_of(project_id).latest_version
        return [row for row in rows if row.position <= self._direct_up_to[row.subject]]

    def _most_states(self, limits: Limits) -> int:
        if self._station.options.merkle:
            return MOST_LEAVES + 1
        return _most(limits, gas.STATE_NEXT)

    def _root(self, contracts: Contracts, rows: Sequence[OutboxRow], limits: Limits) -> list[Draft]:
        """Put states under one root, in the order they wait: a project's versions as they follow."""
        leaves = rows[:MOST_LEAVES]
        bound = int((gas.TX_BASE + gas.ROOT) * self.gas_scale)
        fits = limits.transactions > 0 and limits.total_gas >= bound
        batches = [Batch(tuple(row.id for row in leaves), bound)] if fits else []
        self._note(STATE, rows, batches, self._most_states(limits))
        data = contracts.anchors.encode_root(tree_of(leaves).root, len(leaves))
        return [
            Draft(ROOT, contracts.anchors.address, data, batch.gas, batch.outbox_ids) for batch in batches
        ]

    def _states(self, contracts: Contracts, rows: list[OutboxRow], limits: Limits) -> list[Draft]:
        if not rows:
            return []
        if self._station.options.merkle and not any(
            row.position <= self._direct_up_to[row.subject] for row in rows
        ):
            return self._root(contracts, rows, limits)
        waiting = (
            WaitingState(row.id, row.subject, row.position, row.subject not in self._trusted) for row in rows
        )
        batches = plan_states(waiting, limits)
        self._note(STATE, rows, batches, self._most_states(limits))
        return [
            Draft(
                STATE,
                contracts.anchors.address,
                contracts.anchors.encode_states([state_item(row) for row in _chosen(rows, batch)]),
                self._gas(batch),
                batch.outbox_ids,
            )
            for batch in batches
        ]

    def _heads(
        self, tx: Tx, contracts: Contracts, limits: Limits, now: str, hashes_out: set[str]
    ) -> list[Draft]:
        due = tx.outbox.due(HEAD, now=now, limit=_ROWS, part=self._station.options.part)
        rows = [row for row in due if row.tx_hash not in hashes_out]
        batches = plan_heads((WaitingHead(row.id, row.subject, row.position) for row in rows), limits)
        return [
            Draft(
                HEAD,
                contracts.anchors.address,
                contracts.anchors.encode_heads([head_item(row) for row in _chosen(rows, batch)]),
                self._gas(batch),
                batch.outbox_ids,
            )
            for batch in batches
        ]

    # -- underneath -------------------------------------------------------------------------------

    def _gas(self, batch: Batch) -> int:
        return int(batch.gas * self.gas_scale)

    def _note(self, kind: str, rows: Sequence[OutboxRow], batches: Sequence[Batch], most: int) -> None:
        planned = sum(len(batch.outbox_ids) for batch in batches)
        more = planned < len(rows) or len(rows) >= most or (kind == STATE and self._held_back)
        if rows:
            self.cadence.sent(kind, more=more)


def _payload(stored: StoredPayload | None) -> Payload | None:
    """Return what may go on chain beside a memory's hash; None where it was forgotten or is too long."""
    if stored is None or stored.forgotten or stored.content_blob is None:
        return None
    header = orjson.loads(stored.header)
    category, length = header.get("category"), header.get("content_length")
    if len(stored.content_blob) > MAX_CIPHERTEXT or category not in CATEGORY_CODES or length is None:
        return None
    return Payload(category, header["importance"], length, stored.content_blob)


def _chosen(rows: Sequence[OutboxRow], batch: Batch) -> list[OutboxRow]:
    by_id = {row.id: row for row in rows}
    return [by_id[outbox_id] for outbox_id in batch.outbox_ids]


def _most(limits: Limits, gas_each: int) -> int:
    """Return how many rows are worth reading for this room, plus one that tells whether some are left."""
    return min(_ROWS, limits.total_gas // gas_each + 1)


def _less(limits: Limits, drafts: Sequence[Draft]) -> Limits:
    return Limits(
        limits.tx_gas,
        limits.tx_bytes,
        max(0, limits.total_gas - sum(draft.gas_limit for draft in drafts)),
        limits.transactions - len(drafts),
    )


def _share(limits: Limits, part: float) -> Limits:
    return Limits(limits.tx_gas, limits.tx_bytes, int(limits.total_gas * part), limits.transactions)
