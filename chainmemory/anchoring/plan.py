"""Which waiting rows go into which transaction: in order, as many as fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from chainmemory.chain import gas

# Below geth's limit of 128 KiB for a transaction, with its envelope.
MAX_TX_BYTES = 120_000
# Bigger batches save nothing more per element, and a block has room for others.
MAX_TX_GAS = 8_000_000


@dataclass(frozen=True, slots=True)
class WaitingMemory:
    """A memory to record; `payload_bytes` is its ciphertext's length where it should go along, else None."""

    outbox_id: int
    account_id: str
    number: int
    payload_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WaitingState:
    """A state version to anchor; `first` where it may be its project's first on this contract."""

    outbox_id: int
    project_id: str
    version: int
    first: bool


@dataclass(frozen=True, slots=True)
class WaitingHead:
    """A ledger head to anchor."""

    outbox_id: int
    account_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be planned: gas and bytes of one transaction, and of all new ones together."""

    tx_gas: int
    tx_bytes: int
    total_gas: int
    transactions: int

    def scaled(self, scale: float) -> Limits:
        """Return the limits for bounds that are multiplied by `scale` when signed."""
        return Limits(int(self.tx_gas / scale), self.tx_bytes, int(self.total_gas / scale), self.transactions)


@dataclass(frozen=True, slots=True)
class Batch:
    """One transaction to be: outbox ids in call order, and the gas that bounds it.

    `without_payload` are those of its memories whose payload is too big for any transaction on this chain.
    """

    outbox_ids: tuple[int, ...]
    gas: int
    without_payload: frozenset[int] = frozenset()


def limits_for(block_gas_limit: int, *, gas_in_flight: int, in_flight: int, max_in_flight: int) -> Limits:
    """Say what may be sent beside what is on its way.

    Half a block in flight at most: EIP-1559 aims at that, so a long catch-up doesn't drive up the price.
    """
    half = block_gas_limit // 2
    return Limits(
        tx_gas=min(MAX_TX_GAS, half),
        tx_bytes=MAX_TX_BYTES,
        total_gas=max(0, half - gas_in_flight),
        transactions=max(0, max_in_flight - in_flight),
    )


def plan_memories(waiting: Iterable[WaitingMemory], limits: Limits) -> list[Batch]:
    """Fill transactions with memories, given by account and number ascending.

    A memory whose payload fits no transaction goes without it.
    """
    filler = _Filler(limits, gas.TX_BASE + gas.MEMORIES_BASE)
    previous: WaitingMemory | None = None
    for memory in waiting:
        payload = memory.payload_bytes
        alone = gas.run_gas(memory.number, 1) + gas.memory_gas(payload)
        if not filler.fits_alone(alone, gas.MEMORY_RUN_BYTES + gas.memory_size(payload)):
            payload = None
            filler.without_payload.add(memory.outbox_id)
        follows = (
            previous is not None
            and not filler.empty
            and (previous.account_id, previous.number + 1) == (memory.account_id, memory.number)
        )
        new_run = gas.run_gas(memory.number, 1)
        run = (gas.MEMORY_WORD if memory.number & 0xFF == 0 else 0) if follows else new_run
        run_bytes = 0 if follows else gas.MEMORY_RUN_BYTES
        needed, size = gas.memory_gas(payload), gas.memory_size(payload)
        if not filler.add(memory.outbox_id, run + needed, run_bytes + size) and not filler.add_to_next(
            memory.outbox_id, new_run + needed, gas.MEMORY_RUN_BYTES + size
        ):
            break
        previous = memory
    return filler.batches()


def plan_states(waiting: Iterable[WaitingState], limits: Limits) -> list[Batch]:
    """Fill transactions with states, given by project and version ascending.

    Nonces keep the transactions in order, so a project's versions may span several.
    """
    filler = _Filler(limits, gas.TX_BASE + gas.STATES_BASE)
    for state in waiting:
        needed = gas.STATE_FIRST if state.first else gas.STATE_NEXT
        if not filler.add(state.outbox_id, needed, gas.STATE_BYTES) and not filler.add_to_next(
            state.outbox_id, needed, gas.STATE_BYTES
        ):
            break
    return filler.batches()


def plan_heads(waiting: Iterable[WaitingHead], limits: Limits) -> list[Batch]:
    """Fill transactions with ledger heads, given by account and seq ascending."""
    filler = _Filler(limits, gas.TX_BASE + gas.HEADS_BASE)
    for head in waiting:
        if not filler.add(head.outbox_id, gas.HEAD, gas.STATE_BYTES) and not filler.add_to_next(
            head.outbox_id, gas.HEAD, gas.STATE_BYTES
        ):
            break
    return filler.batches()


def runs(places: Sequence[tuple[str, int]]) -> Iterator[range]:
    """Split (account, number) places into index ranges of one account's consecutive numbers."""
    indexed = enumerate(places)
    for _, group in groupby(indexed, key=lambda entry: (entry[1][0], entry[1][1] - entry[0])):
        indexes = [index for index, _ in group]
        yield range(indexes[0], indexes[-1] + 1)


class _Filler:
    """Fills one transaction after the other until a limit says stop."""

    def __init__(self, limits: Limits, base_gas: int) -> None:
        self._limits = limits
        self._base_gas = base_gas
        self._closed: list[Batch] = []
        self._ids: list[int] = []
        self._gas = base_gas
        self._bytes = 0
        self._total_gas = 0
        self.without_payload: set[int] = set()

    @property
    def empty(self) -> bool:
        return not self._ids

    def fits_alone(self, needed: int, size: int) -> bool:
        return self._base_gas + needed <= self._limits.tx_gas and size <= self._limits.tx_bytes

    def add(self, outbox_id: int, needed: int, size: int) -> bool:
        """Take the element into the transaction at hand; False where it doesn't fit."""
        if len(self._closed) >= self._limits.transactions:
            return False
        if self._gas + needed > self._limits.tx_gas or self._bytes + size > self._limits.tx_bytes:
            return False
        if self._total_gas + self._gas + needed > self._limits.total_gas:
            return False
        self._ids.append(outbox_id)
        self._gas += needed
        self._bytes += size
        return True

    def add_to_next(self, outbox_id: int, needed: int, size: int) -> bool:
        """Begin the next transaction with the element; False where nothing more may be sent."""
        if not self._ids:
            return False
        self._close()
        return self.add(outbox_id, needed, size)

    def batches(self) -> list[Batch]:
        if self._ids:
            self._close()
        return self._closed

    def _close(self) -> None:
        ids = tuple(self._ids)
        self._closed.append(Batch(ids, self._gas, frozenset(self.without_payload.intersection(ids))))
        self._total_gas += self._gas
        self._ids, self._gas, self._bytes = [], self._base_gas, 0
