"""ProjectStateAnchor, Merkle mode: roots as events or stored, and proofs checked on chain."""

from __future__ import annotations

import pytest

from chainmemory.chain.merkle import State, StateTree
from tests.support.evm import ZERO, Evm, hash_of

ROOT = hash_of("root")


def states(size: int) -> list[State]:
    return [
        State("0x" + hash_of("project", n % 3).hex(), 1 + n // 3, "0x" + hash_of("state", n).hex())
        for n in range(size)
    ]


def as_args(state: State, path: list[str]) -> tuple[tuple[bytes, int, bytes], list[bytes]]:
    project, version, state_hash = state
    item = (bytes.fromhex(project[2:]), version, bytes.fromhex(state_hash[2:]))
    return item, [bytes.fromhex(step[2:]) for step in path]


def test_a_root_is_logged_and_not_stored(evm: Evm) -> None:
    anchors = evm.anchors
    receipt = evm.send(anchors.functions.anchorRoot(ROOT, 100))
    assert evm.events(anchors, receipt) == [("RootAnchored", ROOT, evm.submitter, 100, evm.now(receipt))]
    assert anchors.functions.rootOf(ROOT).call() == ("0x" + "00" * 20, 0, 0)
    found = anchors.events.RootAnchored().get_logs(from_block=0, argument_filters={"root": ROOT})
    assert [log["transactionHash"] for log in found] == [receipt["transactionHash"]]


def test_a_stored_root_is_logged_too_and_stays(evm: Evm) -> None:
    anchors = evm.anchors
    receipt = evm.send(anchors.functions.storeRoot(ROOT, 3))
    at = evm.now(receipt)
    assert evm.events(anchors, receipt) == [("RootAnchored", ROOT, evm.submitter, 3, at)]
    assert anchors.functions.rootOf(ROOT).call() == (evm.submitter, at, 3)
    assert evm.refusal(anchors.functions.storeRoot(ROOT, 4)) == ("RootAlreadyStored", ROOT)
    assert anchors.functions.rootOf(ROOT).call() == (evm.submitter, at, 3)


@pytest.mark.parametrize("function", ["anchorRoot", "storeRoot"])
@pytest.mark.parametrize(("root", "count"), [(ZERO, 1), (ROOT, 0)], ids=["zero root", "no states"])
def test_an_empty_root_is_refused(evm: Evm, function: str, root: bytes, count: int) -> None:
    assert evm.refusal(evm.anchors.functions[function](root, count)) == ("EmptyRoot",)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8])
def test_the_contract_accepts_every_proof_of_the_python_tree(evm: Evm, size: int) -> None:
    leaves = states(size)
    tree = StateTree(leaves)
    root = bytes.fromhex(tree.root[2:])
    evm.send(evm.anchors.functions.storeRoot(root, size))
    for index, state in enumerate(leaves):
        item, path = as_args(state, tree.proof(index).path)
        assert evm.anchors.functions.verifyInRoot(root, item, index, size, path).call() is True
        assert evm.anchors.functions.verifyInStoredRoot(root, item, index, path).call() is True


def test_the_contract_refuses_what_the_tree_does_not_prove(evm: Evm) -> None:
    leaves = states(6)
    tree = StateTree(leaves)
    root = bytes.fromhex(tree.root[2:])
    item, path = as_args(leaves[2], tree.proof(2).path)
    holds = evm.anchors.functions.verifyInRoot
    assert holds(root, item, 2, 6, path).call() is True

    project, version, state_hash = item
    for wrong in [
        (hash_of(0), version, state_hash),
        (project, version + 1, state_hash),
        (project, version, ROOT),
    ]:
        assert holds(root, wrong, 2, 6, path).call() is False
    for index, size in [(3, 6), (0, 6), (6, 6), (2, 2), (2, 3), (2, 0), (2, 9), (2**256 - 1, 6)]:
        assert holds(root, item, index, size, path).call() is False
    longer, shorter, swapped = [*path, ROOT], path[:-1], [path[1], path[0], *path[2:]]
    for wrong_path in [longer, shorter, swapped, [], [ROOT, *path[1:]]]:
        assert holds(root, item, 2, 6, wrong_path).call() is False
    assert holds(ROOT, item, 2, 6, path).call() is False
    assert holds(ZERO, item, 2, 6, path).call() is False
    # An index beyond the tree must not reach the zero root either.
    assert holds(ZERO, item, 6, 6, []).call() is False


def test_a_path_longer_than_its_tree_is_refused_even_where_it_leads_to_the_root(evm: Evm) -> None:
    """The last of 4 leaves isn't number 1 of 2, though the hashes on the way are the same."""
    leaves = states(4)
    tree = StateTree(leaves)
    root = bytes.fromhex(tree.root[2:])
    item, path = as_args(leaves[3], tree.proof(3).path)
    holds = evm.anchors.functions.verifyInRoot
    assert holds(root, item, 3, 4, path).call() is True
    assert holds(root, item, 1, 2, path).call() is False
    assert holds(root, item, 0, 1, path).call() is False


def test_a_node_cannot_pass_for_a_leaf(evm: Evm) -> None:
    """The preimage of a node, read as a state, is another hash: tag and length both differ."""
    tree = StateTree(states(4))
    left, right = tree.proof(2).path[1], tree.proof(0).path[1]
    item = (bytes.fromhex(left[2:]), 1, bytes.fromhex(right[2:]))
    assert evm.anchors.functions.verifyInRoot(bytes.fromhex(tree.root[2:]), item, 0, 1, []).call() is False


def test_a_root_that_was_only_logged_or_never_seen_is_not_stored(evm: Evm) -> None:
    leaves = states(3)
    tree = StateTree(leaves)
    root = bytes.fromhex(tree.root[2:])
    item, path = as_args(leaves[1], tree.proof(1).path)
    stored = evm.anchors.functions.verifyInStoredRoot(root, item, 1, path)
    assert stored.call() is False
    evm.send(evm.anchors.functions.anchorRoot(root, 3))
    assert stored.call() is False
    evm.send(evm.anchors.functions.storeRoot(root, 3))
    assert stored.call() is True
    assert evm.anchors.functions.verifyInStoredRoot(root, item, 0, path).call() is False
