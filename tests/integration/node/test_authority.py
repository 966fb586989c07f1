"""When an authority seals: on time, only if there is something to seal, whatever the clock does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.node.authority import WIGGLE_SECONDS, Authority
from chainmemory.node.blocks import BlockStore
from chainmemory.node.sealer import Sealer
from tests.support.clique_chains import ChainFile, address, authority_keys, make_genesis
from tests.support.node_process import sign

KEYS = authority_keys(4)


class Clock:
    """Wall clock and monotonic clock, moved by hand."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.running = 1000.0

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.running += seconds


class Loop:
    """An authority's loop, stepped by hand."""

    def __init__(self, path: Path, signers: int, key: int, **settings: bool) -> None:
        self.chain = ChainFile(path, make_genesis(KEYS[:signers], age=1000))
        self.clock = Clock(self.chain.store.head.timestamp + 100.5)
        sealer = Sealer(self.chain.store, KEYS[key], clock=lambda: self.clock.now)
        self.authority = Authority(
            self.chain.store,
            sealer,
            now=lambda: self.clock.now,
            monotonic=lambda: self.clock.running,
            **settings,
        )

    def step(self) -> float:
        return self.authority._step()

    @property
    def height(self) -> int:
        return int(self.chain.store.head.block_number)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Loop]:
    loop = Loop(tmp_path / "chain.sqlite", signers=1, key=0)
    yield loop
    loop.chain.close()


def test_nothing_to_seal_means_no_block(alone: Loop) -> None:
    assert alone.step() > 0
    alone.chain.offer(sign(5))  # waits for earlier nonces, so nothing could be executed
    assert alone.step() > 0
    alone.chain.offer(sign(0, maxFeePerGas=5, maxPriorityFeePerGas=1))  # below the base fee
    assert alone.step() > 0
    assert alone.height == 0


def test_what_can_never_be_executed_goes_without_a_block(alone: Loop) -> None:
    alone.chain.offer(sign(0, chainId=1))
    assert alone.step() == 0
    assert alone.height == 0
    assert alone.step() > 0
    assert alone.chain.connection.execute("SELECT count(*) FROM pool").fetchone() == (0,)


def test_empty_blocks_lower_the_base_fee_for_who_waits_for_it(alone: Loop) -> None:
    # At genesis it is 10^9, and each empty block takes an eighth off.
    alone.chain.offer(sign(0, maxFeePerGas=6 * 10**8, maxPriorityFeePerGas=1))
    for _ in range(4):
        assert alone.step() == 0
        alone.clock.advance(1)
    assert alone.chain.connection.execute("SELECT count(*) FROM pool").fetchone() == (0,)
    assert alone.height == 4
    assert alone.step() > 0


def test_a_transaction_is_sealed_at_once_and_the_next_a_period_later(alone: Loop) -> None:
    alone.chain.offer(sign(0))
    assert alone.step() == 0
    assert alone.height == 1
    alone.chain.offer(sign(1))
    wait = alone.step()
    assert 0 < wait <= 1
    assert alone.height == 1
    alone.clock.advance(wait)
    assert alone.step() == 0
    assert alone.height == 2
    assert alone.chain.store.head.timestamp == int(alone.clock.now)


def test_empty_blocks_are_sealed_where_asked_for(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "chain.sqlite", signers=1, key=0, empty_blocks=True)
    for expected in (1, 2, 3):
        assert loop.step() == 0
        assert loop.height == expected
        loop.clock.advance(1)
    loop.chain.close()


def test_a_vote_is_worth_a_block_of_its_own_once(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "chain.sqlite", signers=2, key=1)  # it is this one's turn at block 1
    loop.chain.vote(address(KEYS[3]), True)
    assert loop.step() == 0
    assert len(loop.chain.store.signers_after(loop.chain.store.head).votes) == 1
    loop.chain.seal(KEYS[0])
    loop.clock.advance(100)
    assert loop.step() > 0  # the vote stands; nothing more to say
    assert loop.height == 2
    loop.chain.close()


def test_the_clock_going_back_an_hour_costs_a_period_not_an_hour(alone: Loop) -> None:
    alone.chain.offer(sign(0))
    assert alone.step() == 0
    head = alone.chain.store.head
    alone.clock.now -= 3600
    alone.chain.offer(sign(1))
    wait = alone.step()
    assert 0 < wait <= 1
    alone.clock.advance(wait)
    assert alone.step() == 0
    assert alone.chain.store.head.timestamp == head.timestamp + 1


def test_the_clock_going_ahead_an_hour_is_followed(alone: Loop) -> None:
    alone.clock.now += 3600
    alone.chain.offer(sign(0))
    assert alone.step() == 0
    assert alone.chain.store.head.timestamp == int(alone.clock.now)


def test_out_of_turn_it_gives_way_and_then_steps_in(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "chain.sqlite", signers=3, key=2)  # block 1 is the second one's turn
    loop.chain.offer(sign(0))
    wait = loop.step()
    assert WIGGLE_SECONDS <= wait <= WIGGLE_SECONDS * (1 + 3 // 2 + 1)
    loop.clock.advance(wait / 2)
    assert loop.step() == pytest.approx(wait / 2)
    assert loop.height == 0
    loop.clock.advance(wait / 2 + 0.001)
    assert loop.step() == 0
    assert loop.chain.store.head.difficulty == 1
    loop.clock.advance(10)
    loop.chain.offer(sign(1))
    assert loop.step() > 0  # and then it must wait for others
    assert loop.height == 1
    loop.chain.close()


def test_a_stranger_never_seals(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "chain.sqlite", signers=3, key=3, empty_blocks=True)
    loop.chain.offer(sign(0))
    assert loop.step() > 0
    assert loop.height == 0
    loop.chain.close()


def test_jobs_of_other_threads_run_between_blocks(alone: Loop) -> None:
    done: list[int] = []

    def job(store: BlockStore) -> None:
        done.append(store.head.block_number)
        alone.authority.stopping = True

    alone.chain.offer(sign(0))
    alone.authority.events.put(job)
    alone.authority.run()
    assert done == [1]  # it was time to seal first
