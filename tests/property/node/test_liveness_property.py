"""Whatever was sealed at once or apart: when all have heard of all, they agree, and one of them can go on."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chainmemory.node.evm import BlockAPI
from tests.support.clique_chains import ChainFile, authority_keys, make_genesis

MOVES = st.lists(
    st.tuples(st.sets(st.integers(0, 4), min_size=1), st.sets(st.integers(0, 4)) | st.just(set(range(5)))),
    min_size=1,
    max_size=6,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(count=st.integers(2, 5), moves=MOVES)
@example(count=3, moves=[({2}, {0, 1}), ({0, 1}, set())])
@example(count=4, moves=[({3}, {0, 1, 2}), ({0, 1, 2}, set())])
@example(count=5, moves=[({0, 1}, set()), ({2, 3}, set(range(5))), ({0, 1, 2, 3, 4}, set())])
def test_a_majority_that_hears_of_everything_agrees_and_goes_on(
    count: int, moves: list[tuple[set[int], set[int]]]
) -> None:
    """Each move: those of a set that may, seal before they hear of each other; then some hear of everything.

    In the end only a bare majority is left.
    """
    keys = authority_keys(count)
    genesis = make_genesis(keys)
    with tempfile.TemporaryDirectory() as folder:
        chains = [ChainFile(Path(folder) / f"{i}.sqlite", genesis) for i in range(count)]
        try:
            made: list[BlockAPI] = []  # parents always before children
            for sealing, hearing in moves:
                able = [i for i in range(count) if i in sealing and chains[i].may_seal(keys[i])]
                made += [chains[i].seal(keys[i]) for i in able]
                for i in hearing & set(range(count)):
                    _hear(chains[i], made)

            majority = count // 2 + 1
            for chain in chains[:majority]:
                _hear(chain, made)
            heads = {chain.store.head.hash for chain in chains[:majority]}
            assert len(heads) == 1, "they disagree"
            may = [chain.may_seal(key) for chain, key in zip(chains, keys, strict=True)][:majority]
            assert any(may), "each waits for the others"
        finally:
            for chain in chains:
                chain.close()


def _hear(chain: ChainFile, blocks: list[BlockAPI]) -> None:
    for block in blocks:
        chain.take(block)
