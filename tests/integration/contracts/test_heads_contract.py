"""ProjectStateAnchor, ledger heads: strictly rising, gaps allowed, first write wins (protocol §8)."""

from __future__ import annotations

import pytest

from tests.support.evm import ZERO, Evm, hash_of

WRITTEN, ALREADY, CONFLICT, GAP, BEHIND, ZERO_HASH, ZERO_NUMBER = range(7)
LAST = 2**64 - 1
A, B = hash_of("ledger", 1), hash_of("ledger", 2)
E1, E2, E3 = (hash_of("entry", number) for number in (1, 2, 3))


def test_a_head_is_anchored_and_read_back(evm: Evm) -> None:
    anchors = evm.anchors
    receipt = evm.send(anchors.functions.anchorHead(A, 12, E1))
    assert evm.events(anchors, receipt) == [("HeadAnchored", A, 12, E1, evm.now(receipt), evm.submitter)]
    assert anchors.functions.headOf(A, 12).call() == E1
    assert anchors.functions.latestHead(A).call() == [12, E1]
    assert anchors.functions.headOf(A, 11).call() == ZERO
    assert anchors.functions.latestHead(B).call() == [0, ZERO]
    assert anchors.functions.anchorCount().call() == 0


def test_heads_may_leave_gaps_up_to_the_last_place(evm: Evm) -> None:
    for seq, entry in [(1, E1), (2, E2), (4000, E3), (LAST, E1)]:
        evm.send(evm.anchors.functions.anchorHead(A, seq, entry))
        assert evm.anchors.functions.latestHead(A).call() == [seq, entry]
    assert evm.anchors.functions.headOf(A, 2).call() == E2


@pytest.mark.parametrize(
    ("seq", "entry", "reason"),
    [
        (9, E2, ALREADY),
        (9, E3, CONFLICT),
        (5, E2, CONFLICT),
        (8, E3, BEHIND),
        (4, E3, BEHIND),
        (10, ZERO, ZERO_HASH),
        (0, E3, ZERO_NUMBER),
    ],
    ids=["again", "other hash", "other hash, older", "between", "below", "zero hash", "place 0"],
)
def test_a_single_head_is_refused_with_the_reason(evm: Evm, seq: int, entry: bytes, reason: int) -> None:
    functions = evm.anchors.functions
    evm.send(functions.anchorHeads([(A, 5, E1), (A, 9, E2)]))
    assert evm.refusal(functions.anchorHead(A, seq, entry)) == ("HeadRefused", A, seq, reason)
    assert functions.latestHead(A).call() == [9, E2]


def test_a_batch_of_heads_skips_and_reports(evm: Evm) -> None:
    anchors = evm.anchors
    evm.send(anchors.functions.anchorHead(A, 5, E1))
    call = anchors.functions.anchorHeads(
        [(A, 5, E1), (A, 5, E2), (A, 3, E2), (A, 6, ZERO), (A, 0, E2), (B, 1, E1), (A, 8, E3), (A, 7, E2)]
    )
    outcomes = [ALREADY, CONFLICT, BEHIND, ZERO_HASH, ZERO_NUMBER, WRITTEN, WRITTEN, BEHIND]
    assert evm.simulate(call) == outcomes
    receipt = evm.send(call)
    at = evm.now(receipt)
    assert evm.events(anchors, receipt) == [
        ("HeadSkipped", A, 5, ALREADY, E1, E1),
        ("HeadSkipped", A, 5, CONFLICT, E2, E1),
        ("HeadSkipped", A, 3, BEHIND, E2, ZERO),
        ("HeadSkipped", A, 6, ZERO_HASH, ZERO, ZERO),
        ("HeadSkipped", A, 0, ZERO_NUMBER, E2, ZERO),
        ("HeadAnchored", B, 1, E1, at, evm.submitter),
        ("HeadAnchored", A, 8, E3, at, evm.submitter),
        ("HeadSkipped", A, 7, BEHIND, E2, ZERO),
    ]
    assert anchors.functions.latestHead(A).call() == [8, E3]


def test_heads_and_states_live_apart(evm: Evm) -> None:
    functions = evm.anchors.functions
    evm.send(functions.anchorHead(A, 1, E1))
    evm.send(functions.anchor(A, 1, E2))
    assert functions.headOf(A, 1).call() == E1
    assert functions.stateHashOf(A, 1).call() == E2
