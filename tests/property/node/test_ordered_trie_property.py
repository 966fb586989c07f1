"""The trie of a list has the root and the nodes that py-trie finds by inserting."""

from __future__ import annotations

import rlp
from hypothesis import given, settings
from hypothesis import strategies as st
from trie import HexaryTrie

from chainmemory.node.ordered_trie import EMPTY_ROOT, list_trie


@settings(deadline=None, max_examples=40)
@given(
    items=st.lists(st.binary(min_size=1, max_size=40), max_size=20)
    | st.builds(
        lambda n, size: [bytes([1 + i % 255]) * size for i in range(n)],
        st.integers(100, 300),
        st.integers(1, 40),
    )
)
def test_it_is_the_trie_of_the_yellow_paper(items: list[bytes]) -> None:
    root, nodes = list_trie(items)
    expected = HexaryTrie({}, prune=True)
    for index, item in enumerate(items):
        expected[rlp.encode(index)] = item
    assert root == expected.root_hash
    if items:
        assert nodes == {key: value for key, value in expected.db.items() if key != EMPTY_ROOT}
        stored = HexaryTrie(dict(nodes), root)
        assert [stored[rlp.encode(index)] for index in range(len(items))] == items
