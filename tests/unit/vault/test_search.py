"""Ranking over keyed tokens."""

from __future__ import annotations

import pytest

from chainmemory.vault.account import AccountVault
from chainmemory.vault.search import rank


@pytest.fixture
def vault() -> AccountVault:
    return AccountVault("ab" * 16, bytes(range(32)))


def _ranked(vault: AccountVault, query: str, texts: list[str], limit: int = 10) -> list[int]:
    candidates = [(number, vault.search_tokens(text)) for number, text in enumerate(texts, start=1)]
    hits = rank(vault.query_tokens(query), candidates, total=len(texts), limit=limit)
    assert all(hit.score > 0 for hit in hits)
    return [hit.number for hit in hits]


def test_only_texts_with_a_word_are_found(vault: AccountVault) -> None:
    assert _ranked(vault, "anchor", ["an anchor", "a boat", "ANCHORS away", "Anchor!"]) == [4, 1]


def test_a_rare_word_weighs_more_than_a_common_one(vault: AccountVault) -> None:
    texts = ["the ledger", "the geth node", "the chain", "the worker", "the state"]
    assert _ranked(vault, "the geth", texts)[0] == 2


def test_more_of_the_words_rank_higher(vault: AccountVault) -> None:
    texts = ["gas price", "gas price limit", "gas gas gas gas", "unrelated"]
    assert _ranked(vault, "gas price limit", texts)[0] == 2


def test_a_word_said_more_often_ranks_higher_at_equal_length(vault: AccountVault) -> None:
    assert _ranked(vault, "gas", ["gas a b c", "gas gas b c", "x y z w"]) == [2, 1]


def test_a_short_text_ranks_above_a_long_one(vault: AccountVault) -> None:
    assert _ranked(vault, "gas", ["gas " + "filler word " * 50, "gas fee", "none"]) == [2, 1]


def test_equal_texts_put_the_newer_first(vault: AccountVault) -> None:
    assert _ranked(vault, "gas", ["gas", "gas", "gas"]) == [3, 2, 1]


def test_the_limit_cuts(vault: AccountVault) -> None:
    assert _ranked(vault, "gas", ["gas"] * 20, limit=3) == [20, 19, 18]


def test_nothing_to_look_for_or_in(vault: AccountVault) -> None:
    assert rank([], [(1, vault.search_tokens("gas"))], total=1, limit=5) == []
    assert rank(vault.query_tokens("gas"), [], total=0, limit=5) == []
    assert rank(vault.query_tokens("gas"), [(1, b"")], total=1, limit=5) == []


def test_bytes_across_two_tokens_are_no_hit() -> None:
    token = b"ABCDEFGH"
    across = b"xxxxABCD" + b"EFGHyyyy"
    both = across + token + token
    hits = rank([token], [(1, across), (2, both)], total=2, limit=5)
    assert [hit.number for hit in hits] == [2]


def test_an_odd_index_is_searched_without_failing(vault: AccountVault) -> None:
    token = vault.query_tokens("gas")[0]
    hits = rank([token], [(1, token + b"tail"), (2, token[:4]), (3, b"")], total=3, limit=5)
    assert [hit.number for hit in hits] == [1]
