"""The heaviest chain wins, and what the loser held is not lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eth_keys.datatypes import PrivateKey

from chainmemory.node import logs, pool
from chainmemory.node.evm import BlockAPI, BlockNumber, HeaderNotFound, TransactionNotFound
from chainmemory.node.formats import contract_address
from tests.support.clique_chains import ChainFile, authority_keys, make_genesis
from tests.support.evm_code import ANCHOR, creation
from tests.support.node_process import sign

KEYS = authority_keys(5)


@pytest.fixture
def chains(tmp_path: Path) -> Iterator[tuple[ChainFile, ChainFile, str]]:
    """Two nodes that agree on block 1, which deploys the anchor contract; and its address."""
    genesis = make_genesis(KEYS)
    light, heavy = (ChainFile(tmp_path / f"{name}.sqlite", genesis) for name in ("light", "heavy"))
    light.offer(sign(0, to=None, data=creation(ANCHOR), gas=300_000))
    block = light.seal(KEYS[1])
    heavy.take(block)
    yield light, heavy, "0x" + contract_address(block.transactions[0]).hex()
    light.close()
    heavy.close()


def anchor(nonce: int, contract: str, value: int) -> str:
    return sign(nonce, to=contract, data=f"0x{nonce:064x}{value:064x}")


def values(chain: ChainFile) -> list[int]:
    found = logs.search(chain.connection, first=0, last=99, addresses=[], topics=[], limit=99, max_bytes=9**9)
    return [int.from_bytes(log.data, "big") for log in found]


def check_whole(chain: ChainFile) -> None:
    """Every number up to the head, and none above, leads to a block whose transactions are found there."""
    head = chain.store.head
    parent = None
    for number in range(head.block_number + 1):
        block: BlockAPI = chain.store.chain.get_canonical_block_by_number(BlockNumber(number))
        assert parent is None or block.header.parent_hash == parent
        parent = block.hash
        for index, transaction in enumerate(block.transactions):
            place = chain.store.chain.get_canonical_transaction_index(transaction.hash)
            assert place == (number, index)
    assert parent == head.hash
    with pytest.raises(HeaderNotFound):
        chain.store.chain.get_canonical_block_header_by_number(BlockNumber(head.block_number + 1))


def _sealed_aside(chain: ChainFile, key: PrivateKey, at: float) -> BlockAPI:
    """Return a block that `key` seals on the chain's head, without the chain taking it."""
    with closing(sqlite3.connect(chain.path.with_name(f"aside-{at}.sqlite"))) as copy:
        chain.connection.backup(copy)
    aside = ChainFile(chain.path.with_name(f"aside-{at}.sqlite"), chain.store.genesis)
    try:
        return aside.seal(key, at=at)
    finally:
        aside.close()


def test_a_shorter_but_heavier_branch_takes_over(chains: tuple[ChainFile, ChainFile, str]) -> None:
    light, heavy, contract = chains
    # Three blocks out of turn weigh 3, two in turn weigh 4.
    mine = [anchor(1, contract, 71), anchor(2, contract, 72), anchor(3, contract, 73)]
    for raw, key in zip(mine, (KEYS[0], KEYS[4], KEYS[2]), strict=True):
        light.offer(raw)
        assert light.seal(key).header.difficulty == 1
    lost = [light.store.chain.get_canonical_block_by_number(BlockNumber(n)) for n in (2, 3, 4)]
    heavy.offer(anchor(1, contract, 71), anchor(2, contract, 99))
    branch = [heavy.seal(KEYS[2]), heavy.seal(KEYS[3])]
    assert [block.header.difficulty for block in branch] == [2, 2]
    assert values(light) == [71, 72, 73]

    first = light.take(branch[0])
    assert first is not None
    assert first.became_canonical == first.dropped == ()
    assert light.store.head.block_number == 4  # 3 + … against 2: not yet heavier
    second = light.take(branch[1])
    assert second is not None
    assert [block.number for block in second.became_canonical] == [2, 3]
    assert [block.number for block in second.dropped] == [4, 3, 2]

    assert light.store.head.hash == heavy.store.head.hash
    assert values(light) == [71, 99]
    check_whole(light)
    # Nonce 1 is in both branches and nonce 2 was used by another; only nonce 3 can still come, and waits.
    waiting = [entry.nonce for entry in pool.everything(light.connection)]
    assert waiting == [3]
    with pytest.raises(TransactionNotFound):
        light.store.chain.get_canonical_transaction_index(lost[1].transactions[0].hash)

    light.seal(KEYS[4])
    assert values(light) == [71, 99, 73]
    light.seal(KEYS[0])  # and the numbers that the lost branch had used are filled again
    check_whole(light)


def test_the_chain_can_turn_back_to_the_first_branch(chains: tuple[ChainFile, ChainFile, str]) -> None:
    light, heavy, contract = chains
    light.offer(anchor(1, contract, 71))
    first = light.seal(KEYS[3])
    heavy.offer(anchor(1, contract, 99))
    branch = heavy.seal(KEYS[2])
    light.take(branch)
    assert values(light) == [99]
    # A third node had built on the first branch; its chain weighs more again.
    heavy.take(first)
    longer = ChainFile(light.path.with_name("longer.sqlite"), light.store.genesis)
    longer.take(light.store.chain.get_canonical_block_by_number(BlockNumber(1)))
    longer.take(first)
    more = [longer.seal(KEYS[4]), longer.seal(KEYS[0])]
    for block in more:
        light.take(block)
    assert light.store.head.hash == more[1].hash
    assert values(light) == [71]
    check_whole(light)
    assert pool.count(light.connection) == 0
    longer.close()


def test_of_equal_branches_all_take_the_same(chains: tuple[ChainFile, ChainFile, str]) -> None:
    light, heavy, contract = chains
    light.offer(anchor(1, contract, 71))
    heavy.offer(anchor(1, contract, 99))
    mine, theirs = light.seal(KEYS[0]), heavy.seal(KEYS[4])
    assert mine.header.difficulty == theirs.header.difficulty == 1
    winner = min(mine, theirs, key=lambda block: block.hash)
    changes = [light.take(theirs), heavy.take(mine)]
    assert sorted(len(change.dropped) for change in changes if change) == [0, 1]
    for chain in (light, heavy):
        assert chain.store.head.hash == winner.hash
        assert values(chain) == [71 if winner is mine else 99]
        check_whole(chain)
    light.take(mine)  # known: nothing turns back
    assert light.store.head.hash == winner.hash


def test_of_equal_branches_the_shorter_is_taken(tmp_path: Path) -> None:
    genesis = make_genesis(KEYS)
    short, long = (ChainFile(tmp_path / f"{name}.sqlite", genesis) for name in ("short", "long"))
    short.seal(KEYS[1])  # in turn: weighs 2
    blocks = [long.seal(KEYS[0]), long.seal(KEYS[4])]
    for block in blocks:
        short.take(block)
    long.take(short.store.chain.get_canonical_block_by_number(BlockNumber(1)))
    assert short.store.head.block_number == long.store.head.block_number == 1
    check_whole(short)
    check_whole(long)
    short.close()
    long.close()


def test_an_authority_cannot_replace_the_head_that_it_sealed(
    chains: tuple[ChainFile, ChainFile, str],
) -> None:
    """Else the only authority of a chain could, long after, put another last block in its place."""
    light, heavy, _ = chains
    at = light.store.head.timestamp + 1
    first = light.seal(KEYS[0], at=at)
    others: list[BlockAPI] = []
    while all(block.hash > first.hash for block in others):  # until one would win the tie by its hash
        at += 1
        others.append(_sealed_aside(heavy, KEYS[0], at))
    light.take(min(others, key=lambda block: block.hash))
    assert light.store.head.hash == first.hash


def test_two_of_three_that_sealed_at_once_go_on_without_the_third(tmp_path: Path) -> None:
    """Each has signed last on its own branch; each would wait for the other for ever."""
    keys = KEYS[:3]
    genesis = make_genesis(keys)
    one, two = (ChainFile(tmp_path / f"{name}.sqlite", genesis) for name in ("one", "two"))
    # The third seals out of turn and dies; block 2 would be its turn, so the others have equal rights.
    last = one.seal(keys[2])
    two.take(last)
    mine, theirs = one.seal(keys[0]), two.seal(keys[1])
    assert mine.header.difficulty == theirs.header.difficulty == 1
    assert one.may_seal(keys[0]) == two.may_seal(keys[1]) == 0
    one.take(theirs)
    two.take(mine)
    assert one.store.head.hash == two.store.head.hash
    assert one.may_seal(keys[0]) or two.may_seal(keys[1])
    for _ in range(4):
        block = one.seal_next(keys[:2])
        assert two.take(block) is not None
    assert one.store.head.hash == two.store.head.hash
    one.close()
    two.close()
