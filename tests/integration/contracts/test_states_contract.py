"""ProjectStateAnchor, states: what may be written, what is refused and how it is said (design, Contracts)."""

from __future__ import annotations

import pytest

from api.routes.rpc import CALL_GAS
from tests.support.evm import ZERO, Evm, hash_of

WRITTEN, ALREADY, CONFLICT, GAP, BEHIND, ZERO_HASH, ZERO_NUMBER = range(7)
LAST = 2**64 - 1
P, Q = hash_of("project", 1), hash_of("project", 2)
H1, H2, H3 = (hash_of("state", number) for number in (1, 2, 3))


def test_a_state_is_anchored_and_read_back(evm: Evm) -> None:
    anchors = evm.anchors
    call = anchors.functions.anchor(P, 1, H1)
    assert evm.simulate(call) == 1
    receipt = evm.send(call)
    at = evm.now(receipt)

    assert evm.events(anchors, receipt) == [("StateAnchored", 1, P, 1, H1, at, evm.submitter)]
    assert anchors.functions.stateHashOf(P, 1).call() == H1
    assert anchors.functions.latest(P).call() == [1, H1]
    assert anchors.functions.projectOf(P).call() == (1, 1, 1, at)
    assert anchors.functions.anchorCount().call() == 1
    assert anchors.functions.stateHashOf(Q, 1).call() == ZERO


def test_the_public_rpc_gives_a_page_of_hashes_gas_enough(evm: Evm) -> None:
    page = evm.anchors.functions.stateHashesOf(P, 1, evm.anchors.functions.MAX_PAGE().call())
    assert page.estimate_gas() < CALL_GAS / 4


def test_nothing_anchored_reads_zero(evm: Evm) -> None:
    functions = evm.anchors.functions
    assert functions.stateHashOf(P, 1).call() == ZERO
    assert functions.latest(P).call() == [0, ZERO]
    assert functions.projectOf(P).call() == (0, 0, 0, 0)
    assert functions.verify(P, 1, ZERO).call() is False
    assert functions.anchorCount().call() == 0


def test_verify_wants_this_hash_at_this_version_of_this_project(evm: Evm) -> None:
    verify = evm.anchors.functions.verify
    evm.send(evm.anchors.functions.anchorBatch([(P, 1, H1), (P, 2, H2)]))
    assert verify(P, 1, H1).call() is True
    assert verify(P, 2, H2).call() is True
    for project, version, state_hash in [(P, 1, H2), (P, 2, H1), (P, 3, H1), (P, 3, ZERO), (Q, 1, H1)]:
        assert verify(project, version, state_hash).call() is False


@pytest.mark.parametrize("first", [1, 7, LAST])
def test_a_project_starts_at_any_version_from_one(evm: Evm, first: int) -> None:
    evm.send(evm.anchors.functions.anchor(P, first, H1))
    assert evm.anchors.functions.projectOf(P).call()[:2] == (first, first)


@pytest.mark.parametrize(
    ("version", "state_hash", "reason"),
    [
        (8, H2, ALREADY),
        (8, H3, CONFLICT),
        (7, H2, CONFLICT),
        (6, H1, BEHIND),
        (1, H1, BEHIND),
        (10, H3, GAP),
        (LAST, H3, GAP),
        (9, ZERO, ZERO_HASH),
        (0, H3, ZERO_NUMBER),
    ],
    ids=[
        "again",
        "other hash",
        "other hash, older version",
        "below the first",
        "far below the first",
        "one too far",
        "much too far",
        "zero hash",
        "version 0",
    ],
)
def test_a_single_state_is_refused_with_the_reason(
    evm: Evm, version: int, state_hash: bytes, reason: int
) -> None:
    anchors = evm.anchors
    evm.send(anchors.functions.anchorBatch([(P, 7, H1), (P, 8, H2)]))
    refused = evm.refusal(anchors.functions.anchor(P, version, state_hash))
    assert refused == ("StateRefused", P, version, reason)
    assert anchors.functions.latest(P).call() == [8, H2]
    assert anchors.functions.anchorCount().call() == 2


def test_after_the_last_version_there_is_no_next(evm: Evm) -> None:
    evm.send(evm.anchors.functions.anchor(P, LAST, H1))
    for version in (0, 1, LAST - 1):
        evm.refusal(evm.anchors.functions.anchor(P, version, H2))
    assert evm.anchors.functions.latest(P).call() == [LAST, H1]


def test_a_batch_skips_and_reports_each_bad_element_and_writes_the_rest(evm: Evm) -> None:
    anchors = evm.anchors
    evm.send(anchors.functions.anchorBatch([(P, 3, H1), (P, 4, H2)]))
    call = anchors.functions.anchorBatch(
        [
            (P, 5, H3),
            (P, 4, H2),
            (P, 4, H3),
            (P, 7, H1),
            (P, 2, H1),
            (P, 6, ZERO),
            (P, 0, H1),
            (Q, 1, H1),
            (Q, 1, H1),
            (Q, 1, H2),
            (P, 6, H1),
        ]
    )
    assert evm.simulate(call) == [
        WRITTEN,
        ALREADY,
        CONFLICT,
        GAP,
        BEHIND,
        ZERO_HASH,
        ZERO_NUMBER,
        WRITTEN,
        ALREADY,
        CONFLICT,
        WRITTEN,
    ]
    receipt = evm.send(call)
    at = evm.now(receipt)
    assert evm.events(anchors, receipt) == [
        ("StateAnchored", 3, P, 5, H3, at, evm.submitter),
        ("StateSkipped", P, 4, ALREADY, H2, H2),
        ("StateSkipped", P, 4, CONFLICT, H3, H2),
        ("StateSkipped", P, 7, GAP, H1, ZERO),
        ("StateSkipped", P, 2, BEHIND, H1, ZERO),
        ("StateSkipped", P, 6, ZERO_HASH, ZERO, ZERO),
        ("StateSkipped", P, 0, ZERO_NUMBER, H1, ZERO),
        ("StateAnchored", 4, Q, 1, H1, at, evm.submitter),
        ("StateSkipped", Q, 1, ALREADY, H1, H1),
        ("StateSkipped", Q, 1, CONFLICT, H2, H1),
        ("StateAnchored", 5, P, 6, H1, at, evm.submitter),
    ]
    assert anchors.functions.stateHashesOf(P, 1, 8).call() == [ZERO, ZERO, H1, H2, H3, H1, ZERO, ZERO]
    assert anchors.functions.projectOf(P).call() == (3, 6, 5, at)
    assert anchors.functions.anchorCount().call() == 5


def test_a_batch_of_nothing_new_writes_nothing(evm: Evm) -> None:
    anchors = evm.anchors
    at = evm.now(evm.send(anchors.functions.anchorBatch([(P, 1, H1)])))
    before = anchors.functions.projectOf(P).call()
    evm.tester.time_travel(at + 1000)
    assert evm.events(anchors, evm.send(anchors.functions.anchorBatch([]))) == []
    evm.send(anchors.functions.anchorBatch([(P, 1, H1), (P, 1, H2)]))
    assert anchors.functions.projectOf(P).call() == before
    assert anchors.functions.anchorCount().call() == 1


def test_a_page_of_hashes_is_bounded_and_never_wraps_round(evm: Evm) -> None:
    anchors = evm.anchors
    evm.send(anchors.functions.anchorBatch([(P, 1, H1), (Q, LAST - 1, H2), (Q, LAST, H3)]))
    page = anchors.functions.stateHashesOf
    assert page(P, 0, 3).call() == [ZERO, H1, ZERO]
    assert page(P, 1, 0).call() == []
    assert page(P, 1, 256).call() == [H1, *[ZERO] * 255]
    # A sum that wrapped round at 64 bits would answer version 1's hash in place of a version that can't be.
    assert page(Q, LAST - 1, 4).call() == [H2, H3, ZERO, ZERO]
    assert page(P, LAST, 3).call() == [ZERO, ZERO, ZERO]
    assert evm.refusal(page(P, 1, 257)) == ("PageTooLarge", 257, anchors.functions.MAX_PAGE().call())


def test_anchors_are_found_by_id_project_and_version(evm: Evm) -> None:
    anchors = evm.anchors
    evm.send(anchors.functions.anchorBatch([(P, 1, H1), (Q, 1, H2), (P, 2, H3)]))
    evm.send(anchors.functions.anchor(Q, 2, H1))

    def found(**filters: object) -> list[int]:
        logs = anchors.events.StateAnchored().get_logs(from_block=0, argument_filters=filters)
        return [log["args"]["anchorId"] for log in logs]

    assert found(anchorId=3) == [3]
    assert found(projectId=P) == [1, 3]
    assert found(projectId=Q, version=2) == [4]
    assert found(projectId=P, version=3) == []
