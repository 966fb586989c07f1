"""What the contracts cost: the two budgets of the design, and every figure as committed."""

from __future__ import annotations

import json

import pytest

from tests.support.gas import SNAPSHOT, measure


@pytest.fixture(scope="module")
def gas() -> dict[str, int]:
    return measure()


def test_every_figure_is_the_committed_one(gas: dict[str, int]) -> None:
    """If a change is meant: `python -m tests.support.gas`, and commit the file with its reason."""
    assert gas == json.loads(SNAPSHOT.read_text())


def test_a_state_in_a_steady_batch_of_50_costs_at_most_35_000(gas: dict[str, int]) -> None:
    assert gas["anchorBatch of 50, steady"] <= 50 * 35_000


def test_a_state_under_a_root_of_100_costs_at_most_300(gas: dict[str, int]) -> None:
    assert gas["anchorRoot of 100"] <= 100 * 300


def test_the_largest_payload_fits_a_transaction_of_a_30_million_block(gas: dict[str, int]) -> None:
    assert gas["record of 1 with 64 KiB"] < 30_000_000 // 10
