"""Ranking over keyed tokens: BM25 (Robertson and Zaragoza 2009) without ever seeing a word."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from chainmemory.vault.account import TOKEN_BYTES

_K1: Final = 1.2
_B: Final = 0.75


class Hit(NamedTuple):
    """A memory that holds at least one of the words, and how well it fits (higher is better)."""

    number: int
    score: float


class _Found(NamedTuple):
    number: int
    length: int
    frequencies: list[int]


def rank(
    tokens: Sequence[bytes], candidates: Iterable[tuple[int, bytes]], *, total: int, limit: int
) -> list[Hit]:
    """Return the best `limit` of the candidates, best first; the newer one where two are equal.

    `tokens` are `AccountVault.query_tokens`, `candidates` (number, search_tokens) as `tx.memories.candidates`
    yields them, `total` the number of memories searched. A candidate that holds none of the tokens is
    dropped: the database looks for bytes anywhere, here a token counts only where one begins.
    """
    found = []
    for number, index in candidates:
        frequencies = [_frequency(index, token) for token in tokens]
        if any(frequencies):
            found.append(_Found(number, len(index) // TOKEN_BYTES, frequencies))
    if not found:
        return []
    average = sum(one.length for one in found) / len(found)
    weights = [
        _weight(sum(1 for one in found if one.frequencies[at]), max(total, len(found)))
        for at in range(len(tokens))
    ]
    hits = (Hit(one.number, _score(one, weights, average)) for one in found)
    return heapq.nlargest(limit, hits, key=lambda hit: (hit.score, hit.number))


def _score(one: _Found, weights: Sequence[float], average: float) -> float:
    norm = _K1 * (1 - _B + _B * one.length / average)
    return sum(
        weight * frequency * (_K1 + 1) / (frequency + norm)
        for weight, frequency in zip(weights, one.frequencies, strict=True)
        if frequency
    )


def _weight(holding: int, total: int) -> float:
    """Return a word's inverse document frequency, always above zero."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def _frequency(index: bytes, token: bytes) -> int:
    """Return how often the token stands in the index; a hit across two tokens is none."""
    at = index.find(token)
    while at % TOKEN_BYTES and at != -1:
        at = index.find(token, at + 1)
    if at == -1:
        return 0
    # Tokens are sorted, so equal ones stand together.
    end = at + TOKEN_BYTES
    while index.startswith(token, end):
        end += TOKEN_BYTES
    return (end - at) // TOKEN_BYTES
