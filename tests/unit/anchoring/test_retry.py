"""Errors are decisions: wait how long and why, or stop."""

from __future__ import annotations

import pytest

from chainmemory.anchoring.post import NotEnoughFunds
from chainmemory.anchoring.retry import Retry, RetryPolicy, Stop, decide
from chainmemory.anchoring.setup import NotDeployed, NotSubmitter, lowest_free
from chainmemory.chain.failures import (
    ChainUnavailable,
    CodeMismatch,
    Refusal,
    TransactionRefused,
    WrongChain,
)
from chainmemory.chain.fees import FeesTooHigh
from chainmemory.errors import ChainMemoryError

POLICY = RetryPolicy(first_s=1, cap_s=60)


@pytest.mark.parametrize(
    ("failures", "wait_s"), [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (10**6, 60)]
)
def test_waits_double_up_to_a_cap(failures: int, wait_s: float) -> None:
    assert POLICY.wait(failures) == wait_s


@pytest.mark.parametrize(
    "error",
    [
        ChainUnavailable("The node can't be reached."),
        TransactionRefused(Refusal.INSUFFICIENT_FUNDS, "insufficient funds"),
        TransactionRefused(Refusal.OTHER, "txpool is full"),
        FeesTooHigh("too dear"),
        NotEnoughFunds("too poor"),
        NotDeployed("not there"),
        NotSubmitter("not allowed"),
    ],
)
def test_what_may_pass_is_waited_for_with_its_reason(error: ChainMemoryError) -> None:
    assert decide(error, 3, POLICY) == Retry(4, error.message)


@pytest.mark.parametrize("error", [WrongChain("another chain"), CodeMismatch("another contract")])
def test_what_only_a_person_can_put_right_stops_the_worker(error: ChainMemoryError) -> None:
    assert decide(error, 1, POLICY) == Stop(error.message)


@pytest.mark.parametrize(
    ("used", "taken", "count", "nonces"),
    [
        (0, set(), 3, [0, 1, 2]),
        (5, {5, 6, 8}, 3, [7, 9, 10]),
        (5, {1, 2}, 1, [5]),
        (5, {5}, 0, []),
    ],
)
def test_the_lowest_lowest_free_are_taken_first(
    used: int, taken: set[int], count: int, nonces: list[int]
) -> None:
    assert lowest_free(used, taken, count) == nonces
