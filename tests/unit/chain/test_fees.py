"""The fee policy: legacy and EIP-1559, under a cap, with replacements that a pool accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainmemory.chain.fees import GWEI, FeePolicy, Fees, FeesTooHigh
from chainmemory.chain.types import FeeMarket

POLICY = FeePolicy(cap=200 * GWEI)
wei = st.integers(min_value=0, max_value=10**13)


def test_a_chain_without_base_fee_gets_a_legacy_price() -> None:
    fees = POLICY.quote(FeeMarket(None, 0, 3 * GWEI))

    assert fees.fields() == {"gasPrice": 3 * GWEI}


def test_a_free_chain_costs_nothing() -> None:
    assert POLICY.quote(FeeMarket(None, 0, 0)) == Fees(0, None)
    assert POLICY.quote(FeeMarket(0, 0, 0)) == Fees(0, 0)


def test_eip1559_leaves_room_for_the_base_fee_to_double() -> None:
    fees = POLICY.quote(FeeMarket(10 * GWEI, 2 * GWEI, 12 * GWEI))

    assert fees.fields() == {"maxFeePerGas": 22 * GWEI, "maxPriorityFeePerGas": 2 * GWEI}


def test_the_maximum_is_never_above_the_cap() -> None:
    assert POLICY.quote(FeeMarket(150 * GWEI, 1 * GWEI, 0)).max_fee == 200 * GWEI


@pytest.mark.parametrize("market", [FeeMarket(200 * GWEI, 1, 0), FeeMarket(None, 0, 200 * GWEI + 1)])
def test_above_the_cap_nothing_is_sent_and_both_numbers_are_said(market: FeeMarket) -> None:
    with pytest.raises(FeesTooHigh, match=r"asks 200\.\d+ gwei .* cap is 200 \(max_fee_gwei\)"):
        POLICY.quote(market)


@given(base=wei, tip=wei, later_base=wei, later_tip=wei)
def test_a_replacement_is_a_tenth_dearer_in_both_fields_and_under_the_cap(
    base: int, tip: int, later_base: int, later_tip: int
) -> None:
    policy = FeePolicy(cap=10**15)
    old = policy.quote(FeeMarket(base, tip, 0))

    new = policy.bump(old, FeeMarket(later_base, later_tip, 0))

    assert old.tip is not None
    assert new.tip is not None
    assert new.max_fee * 10 >= old.max_fee * 11
    assert new.max_fee > old.max_fee
    assert new.tip * 10 >= old.tip * 11
    assert new.tip > old.tip
    assert new.tip <= new.max_fee <= policy.cap


def test_a_legacy_transaction_is_replaced_by_a_legacy_one() -> None:
    new = POLICY.bump(Fees(8 * GWEI, None), FeeMarket(1 * GWEI, 1 * GWEI, 2 * GWEI))

    assert new == Fees(9 * GWEI + 1, None)


def test_a_replacement_stops_at_the_cap() -> None:
    with pytest.raises(FeesTooHigh):
        POLICY.bump(Fees(190 * GWEI, 1), FeeMarket(1, 1, 1))


def test_fees_survive_json() -> None:
    for fees in (Fees(10**30, 10**29), Fees(7, None)):
        assert Fees.from_json(fees.to_json()) == fees
