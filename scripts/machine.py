"""How disturbed the machine is while something is measured: the same small work, timed again and again.

Other guests of a virtual machine's host slow it down, here by a third to a half for minutes. So a figure is
given twice, over the whole run and in its least disturbed tenth, beside what this loop had in the same run.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import orjson

_DOCUMENT = {f"key {number}": ["text", number, {"a": "b" * 50}] for number in range(300)}


def loop_s() -> float:
    """Return the seconds that a fixed piece of work takes now: orjson and SHA-256, about 0.2 ms."""
    before = time.perf_counter()
    hashlib.sha256(orjson.dumps(_DOCUMENT)).digest()
    sum(range(5_000))
    return time.perf_counter() - before


def least_disturbed(seconds: Sequence[float]) -> float:
    """Return the tenth percentile: what was seen where nobody else took the processor."""
    return sorted(seconds)[len(seconds) // 10]


def disturbance(loops: Sequence[float]) -> float:
    """Return how many times as long the loop took over the whole run as in its least disturbed tenth."""
    return round(sum(loops) / len(loops) / least_disturbed(loops), 2)
