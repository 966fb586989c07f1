"""The cache of current states: bounded, and never going back."""

from __future__ import annotations

from chainmemory.engine import state_cache
from chainmemory.engine.state_cache import StateCache
from chainmemory.state.builder import ProjectState, apply_call, check_call

PROJECT = "0x" + "11" * 32


def _next(state: ProjectState, phase: str) -> ProjectState:
    call = check_call({"ops": [{"op": "set_phase", "phase": phase}]})
    return apply_call(state, call, event_hashes={}, highest_memory=0, project_secret=bytes(32)).state


def test_a_later_version_replaces_an_earlier_one_and_never_the_other_way() -> None:
    cache = StateCache()
    first = _next(ProjectState.empty(PROJECT), "one")
    second = _next(first, "two")
    assert cache.get(PROJECT) is None
    cache.put(PROJECT, second, 10)
    cache.put(PROJECT, first, 10)
    assert cache.get(PROJECT) is second


def test_the_least_recently_used_go_first_when_too_many_bytes_are_held() -> None:
    cache = StateCache()
    state = _next(ProjectState.empty(PROJECT), "one")
    third = state_cache.MOST_BYTES // 3
    for name in ("a", "b", "c"):
        cache.put(name, state, third)
    assert cache.get("a") is state
    cache.put("d", state, third)
    assert [cache.get(name) is not None for name in "abcd"] == [True, False, True, True]
    cache.put("a", state, 1)
    cache.put("e", state, third)
    assert [cache.get(name) is not None for name in "acde"] == [True, True, True, True]


def test_there_are_never_more_states_than_the_limit() -> None:
    cache = StateCache()
    state = _next(ProjectState.empty(PROJECT), "one")
    for number in range(state_cache.MOST_STATES + 5):
        cache.put(str(number), state, 1)
    assert cache.get("4") is None
    assert cache.get("5") is state
