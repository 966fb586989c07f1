"""Planning: in order, as many as fit, nothing twice and nothing lost."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from chainmemory.anchoring.plan import (
    MAX_TX_BYTES,
    MAX_TX_GAS,
    Batch,
    Limits,
    WaitingHead,
    WaitingMemory,
    WaitingState,
    limits_for,
    plan_heads,
    plan_memories,
    plan_states,
    runs,
)
from chainmemory.chain import gas

ROOMY = Limits(tx_gas=8_000_000, tx_bytes=120_000, total_gas=15_000_000, transactions=16)

limits = st.builds(
    Limits,
    tx_gas=st.integers(0, 3_000_000),
    tx_bytes=st.integers(0, 20_000),
    total_gas=st.integers(0, 6_000_000),
    transactions=st.integers(0, 6),
)


def _memories(*counts: int, payload: int | None = None) -> list[WaitingMemory]:
    return [
        WaitingMemory(1000 * account + number, f"account{account}", number, payload)
        for account, count in enumerate(counts)
        for number in range(1, count + 1)
    ]


def _ids(batches: Sequence[Batch]) -> list[int]:
    return [outbox_id for batch in batches for outbox_id in batch.outbox_ids]


def test_a_few_memories_of_several_accounts_share_one_transaction() -> None:
    (batch,) = plan_memories(_memories(3, 2), ROOMY)

    assert batch.outbox_ids == (1, 2, 3, 1001, 1002)


def test_states_of_one_project_go_on_in_the_next_transaction_in_order() -> None:
    waiting = [WaitingState(version, "project", version, version == 1) for version in range(1, 601)]

    batches = plan_states(waiting, ROOMY)

    assert len(batches) == 2
    assert _ids(batches) == list(range(1, len(_ids(batches)) + 1))
    assert all(batch.gas <= ROOMY.tx_gas for batch in batches)
    assert sum(batch.gas for batch in batches) <= ROOMY.total_gas
    # The next one wouldn't have fitted.
    assert sum(batch.gas for batch in batches) + gas.STATE_NEXT > ROOMY.total_gas


def test_a_payload_that_fits_no_transaction_is_left_out() -> None:
    tight = Limits(tx_gas=500_000, tx_bytes=120_000, total_gas=15_000_000, transactions=16)
    waiting = [WaitingMemory(1, "a", 1, 100), WaitingMemory(2, "a", 2, 60_000), WaitingMemory(3, "a", 3, 100)]

    batches = plan_memories(waiting, tight)

    assert _ids(batches) == [1, 2, 3]
    assert frozenset().union(*(batch.without_payload for batch in batches)) == {2}


def test_nothing_is_planned_where_no_transaction_may_be_sent() -> None:
    none = Limits(tx_gas=8_000_000, tx_bytes=120_000, total_gas=15_000_000, transactions=0)

    assert plan_memories(_memories(3), none) == []
    assert plan_states([WaitingState(1, "p", 1, True)], none) == []
    assert plan_heads([WaitingHead(1, "a", 1)], none) == []


def test_a_run_pays_for_each_word_of_bits_it_touches() -> None:
    (one_word,) = plan_memories([WaitingMemory(1, "a", 1), WaitingMemory(2, "a", 2)], ROOMY)
    (two_words,) = plan_memories([WaitingMemory(1, "a", 255), WaitingMemory(2, "a", 256)], ROOMY)

    assert two_words.gas - one_word.gas == gas.MEMORY_WORD


@given(
    counts=st.lists(st.integers(1, 40), max_size=5),
    payload=st.one_of(st.none(), st.integers(0, 30_000)),
    limits=limits,
)
def test_memories_are_planned_in_order_within_all_limits(
    counts: list[int], payload: int | None, limits: Limits
) -> None:
    waiting = _memories(*counts, payload=payload)

    batches = plan_memories(waiting, limits)

    assert _ids(batches) == [memory.outbox_id for memory in waiting][: len(_ids(batches))]
    _within(batches, limits)


@given(versions=st.integers(0, 300), first=st.integers(1, 5), limits=limits)
def test_states_are_planned_in_order_within_all_limits(versions: int, first: int, limits: Limits) -> None:
    waiting = [WaitingState(v, "p", v, v == first) for v in range(first, first + versions)]

    batches = plan_states(waiting, limits)

    assert _ids(batches) == [state.outbox_id for state in waiting][: len(_ids(batches))]
    _within(batches, limits)


def _within(batches: Sequence[Batch], limits: Limits) -> None:
    assert len(batches) <= limits.transactions
    assert all(batch.outbox_ids for batch in batches)
    assert all(batch.gas <= limits.tx_gas for batch in batches)
    assert sum(batch.gas for batch in batches) <= limits.total_gas


def test_half_a_block_is_in_flight_at_most() -> None:
    empty = limits_for(30_000_000, gas_in_flight=0, in_flight=0, max_in_flight=16)
    busy = limits_for(30_000_000, gas_in_flight=12_000_000, in_flight=15, max_in_flight=16)
    full = limits_for(30_000_000, gas_in_flight=16_000_000, in_flight=17, max_in_flight=16)

    assert empty == Limits(MAX_TX_GAS, MAX_TX_BYTES, 15_000_000, 16)
    assert (busy.total_gas, busy.transactions) == (3_000_000, 1)
    assert (full.total_gas, full.transactions) == (0, 0)


def test_a_small_block_bounds_a_transaction() -> None:
    assert limits_for(6_000_000, gas_in_flight=0, in_flight=0, max_in_flight=16).tx_gas == 3_000_000


def test_bounds_that_grow_leave_room_for_fewer() -> None:
    scaled = ROOMY.scaled(2.0)

    assert (scaled.tx_gas, scaled.total_gas, scaled.tx_bytes) == (4_000_000, 7_500_000, 120_000)


def test_runs_split_where_the_account_or_the_numbers_break() -> None:
    places = [("a", 1), ("a", 2), ("a", 4), ("b", 5), ("b", 6), ("c", 7)]

    assert list(runs(places)) == [range(2), range(2, 3), range(3, 5), range(5, 6)]
    assert list(runs([])) == []
