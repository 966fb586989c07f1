"""The holes of py-evm's Clique (chain-notes.md, ten points), each shown closed on real blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eth.vm.forks.london.state import LondonState
from eth_keys.datatypes import PrivateKey
from eth_utils.exceptions import ValidationError

from chainmemory.node import blocks, clique, sealer
from chainmemory.node.blocks import BlockStore, FutureBlock, open_reader
from chainmemory.node.clique import recover_signer, seal
from chainmemory.node.database import open_connection
from chainmemory.node.evm import BlockAPI, BlockNumber
from chainmemory.node.formats import contract_address, encode_block
from chainmemory.node.signers import ConsensusError
from chainmemory.node.vm import CliqueState, CliqueVM
from tests.support.clique_chains import ChainFile, address, authority_keys, make_genesis
from tests.support.evm_code import ANCHOR, creation
from tests.support.node_process import USER, sign

KEYS = authority_keys(4)
SIGNERS, OUTSIDER = KEYS[:3], KEYS[3]
EPOCH = 6


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ChainFile, ChainFile]]:
    """Two nodes of one chain; a block sealed on the first is offered to the second."""
    genesis = make_genesis(SIGNERS, epoch=EPOCH)
    first, second = (ChainFile(tmp_path / f"{name}.sqlite", genesis) for name in ("first", "second"))
    yield first, second
    first.close()
    second.close()


def signer_of(block: BlockAPI) -> PrivateKey:
    return next(key for key in KEYS if address(key) == recover_signer(block.header))


def reseal(block: BlockAPI, key: PrivateKey | None = None, **fields: Any) -> BlockAPI:
    """Change header fields and seal again, by default with the authority that sealed it first."""
    return block.copy(header=seal(block.header.copy(**fields), key or signer_of(block)))


def extra(block: BlockAPI, middle: bytes) -> bytes:
    return block.header.extra_data[:32] + middle + bytes(65)


def earlier_signer(block: BlockAPI) -> PrivateKey:
    """The signer of the block before, which must wait now."""
    return SIGNERS[(block.number - 1) % 3]


FORGERIES: dict[str, tuple[Callable[[BlockAPI], BlockAPI], str]] = {
    "another state root under the old seal": (
        lambda b: b.copy(header=b.header.copy(state_root=b"\1" * 32)),
        "not one of the 3 authorised signers",
    ),
    "another state root, sealed again by the authority": (
        lambda b: reseal(b, state_root=b"\1" * 32),
        "state_root",
    ),
    "a lie about the gas used": (lambda b: reseal(b, gas_used=b.header.gas_used + 1), "gas_used"),
    "another receipts root": (lambda b: reseal(b, receipt_root=b"\2" * 32), "receipt_root"),
    "another transactions root": (lambda b: reseal(b, transaction_root=b"\2" * 32), "transaction_root"),
    "another logs bloom": (lambda b: reseal(b, bloom=1), "bloom"),
    "a transaction left out": (lambda b: b.copy(transactions=()), "transaction_root|gas_used"),
    "sealed by an outsider": (lambda b: reseal(b, OUTSIDER), "not one of the 3 authorised signers"),
    "sealed by zeros": (
        lambda b: b.copy(header=b.header.copy(extra_data=extra(b, b""))),
        "not a signature",
    ),
    "a seal with an impossible recovery id": (
        lambda b: b.copy(header=b.header.copy(extra_data=b.header.extra_data[:-1] + b"\x1b")),
        "not a signature",
    ),
    "the signer of the block before": (
        lambda b: reseal(b, earlier_signer(b), difficulty=1),
        "signed recently",
    ),
    "the wrong difficulty for the turn": (
        lambda b: reseal(b, difficulty=3 - b.header.difficulty),
        "difficulty must be",
    ),
    "a difficulty of 3": (lambda b: reseal(b, difficulty=3), "difficulty must be 1 or 2"),
    "the parent's own time": (
        lambda b: reseal(b, timestamp=b.header.timestamp - 1),
        "less than 1 s after",
    ),
    "a nonce that is no vote": (lambda b: reseal(b, nonce=b"\1" * 8), "no vote"),
    "a mix hash": (lambda b: reseal(b, mix_hash=b"\1" * 32), "mix hash"),
    "signers listed between checkpoints": (
        lambda b: reseal(b, extra_data=extra(b, address(OUTSIDER))),
        "Only a checkpoint",
    ),
    "no room for a seal": (
        lambda b: b.copy(header=b.header.copy(extra_data=b.header.extra_data[:32])),
        "too short",
    ),
    "a gas limit that jumps": (lambda b: reseal(b, gas_limit=b.header.gas_limit * 2), "gas limit"),
    "another base fee": (
        lambda b: reseal(b, base_fee_per_gas=b.header.base_fee_per_gas + 1),
        "base fee",
    ),
    "a number that skips one": (lambda b: reseal(b, block_number=b.number + 2), "doesn't follow"),
    "an unknown parent": (lambda b: reseal(b, parent_hash=b"\7" * 32), "parent of block 5 is unknown"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_block_is_refused_and_leaves_no_trace(pair: tuple[ChainFile, ChainFile], name: str) -> None:
    first, second = pair
    for _ in range(4):
        assert second.take(first.seal_next(SIGNERS)) is not None
    first.offer(sign(0))
    good = first.seal_next(SIGNERS)
    forge, problem = FORGERIES[name]
    before = list(second.connection.execute("SELECT * FROM kv ORDER BY key"))

    with pytest.raises((ConsensusError, ValidationError), match=f"(?i){problem}"):
        second.take(forge(good))

    assert list(second.connection.execute("SELECT * FROM kv ORDER BY key")) == before
    assert second.take(good) is not None  # the honest one is still welcome
    assert second.store.head.hash == good.hash


CHECKPOINT_FORGERIES: dict[str, tuple[Callable[[BlockAPI], BlockAPI], str]] = {
    "an outsider instead of all signers": (
        lambda b: reseal(b, extra_data=extra(b, address(OUTSIDER))),
        "doesn't list the current signers",
    ),
    "one signer too many": (
        lambda b: reseal(b, extra_data=extra(b, b"".join(sorted(map(address, KEYS))))),
        "doesn't list the current signers",
    ),
    "the signers out of order": (
        lambda b: reseal(b, extra_data=extra(b, b"".join(map(address, reversed(SIGNERS))))),
        "doesn't list the current signers",
    ),
    "no signers": (lambda b: reseal(b, extra_data=extra(b, b"")), "must list the signers"),
    "half an address": (lambda b: reseal(b, extra_data=extra(b, bytes(10))), "must list the signers"),
    "a vote": (lambda b: reseal(b, coinbase=address(OUTSIDER)), "must not vote"),
    "an adding nonce": (lambda b: reseal(b, nonce=b"\xff" * 8), "must not vote"),
}


@pytest.mark.parametrize("name", CHECKPOINT_FORGERIES)
def test_a_checkpoint_cannot_change_the_signers(pair: tuple[ChainFile, ChainFile], name: str) -> None:
    first, second = pair
    for _ in range(EPOCH - 1):
        assert second.take(first.seal_next(SIGNERS)) is not None
    good = first.seal_next(SIGNERS)
    forge, problem = CHECKPOINT_FORGERIES[name]
    with pytest.raises((ConsensusError, ValidationError), match=problem):
        second.take(forge(good))
    assert second.take(good) is not None
    assert second.store.signers_after(second.store.head).signers == tuple(map(address, SIGNERS))


def test_a_block_from_the_future_may_come_again(pair: tuple[ChainFile, ChainFile]) -> None:
    first, second = pair
    block = first.seal(SIGNERS[1], at=time.time() + 60)
    with pytest.raises(FutureBlock):
        second.take(block)
    assert second.store.import_raw(encode_block(block), now=time.time() + 61) is not None


@pytest.mark.parametrize("raw", [b"", b"\xc0", b"\xf8", b"garbage", b"\xc3\x01\x02\x03", bytes(1000)])
def test_bytes_that_are_no_block_are_refused(pair: tuple[ChainFile, ChainFile], raw: bytes) -> None:
    with pytest.raises(ValidationError, match="not a block"):
        pair[1].store.import_raw(raw)


def test_a_known_block_is_nothing_new(pair: tuple[ChainFile, ChainFile]) -> None:
    first, second = pair
    block = first.seal_next(SIGNERS)
    assert second.take(block) is not None
    assert second.take(block) is None


def test_the_sealer_earns_the_tips_though_its_seal_comes_last(pair: tuple[ChainFile, ChainFile]) -> None:
    first, second = pair
    first.offer(sign(0, gas=21_000))
    block = first.seal_next(SIGNERS)
    assert block.header.coinbase == bytes(20)
    second.take(block)
    state = second.store.chain.state_after(second.store.head)
    assert state.get_balance(recover_signer(block.header)) == 21_000 * 10**9


def test_a_vote_leaves_no_empty_account_in_the_state(pair: tuple[ChainFile, ChainFile]) -> None:
    first, second = pair
    quiet = first.seal_next(SIGNERS)
    first.vote(address(OUTSIDER), True)
    voting = first.seal_next(SIGNERS)
    assert voting.header.coinbase == address(OUTSIDER)
    for block in (quiet, voting):
        second.take(block)
    # Nothing was executed, so nothing in the state may have changed: not at 0x0, not at the vote's subject.
    genesis = second.store.chain.get_canonical_block_header_by_number(BlockNumber(0))
    assert voting.header.state_root == quiet.header.state_root == genesis.state_root


def test_one_block_is_one_commit(pair: tuple[ChainFile, ChainFile]) -> None:
    first, second = pair
    first.offer(sign(0, to=None, data=creation(ANCHOR), gas=300_000), sign(1), sign(2))
    statements: list[str] = []
    for chain in pair:
        chain.connection.set_trace_callback(statements.append)
    block = first.seal_next(SIGNERS)
    assert len(block.transactions) == 3
    assert statements.count("COMMIT") == 1
    assert first.connection.execute("SELECT count(*) FROM pool").fetchone() == (0,)
    statements.clear()
    second.take(block)
    assert statements.count("COMMIT") == 1
    assert second.connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_a_failure_while_storing_leaves_nothing(
    pair: tuple[ChainFile, ChainFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    first.offer(sign(0))
    before = list(first.connection.execute("SELECT * FROM kv ORDER BY key"))
    # A row that breaks the table's rules, in the same commit as the block:
    monkeypatch.setattr(blocks.logs, "rows_of", lambda *_: [(None,) * 10])
    with pytest.raises(Exception, match="NOT NULL"):
        first.seal_next(SIGNERS)
    monkeypatch.undo()
    assert list(first.connection.execute("SELECT * FROM kv ORDER BY key")) == before
    assert len(first.seal_next(SIGNERS).transactions) == 1


def test_a_restart_replays_few_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genesis = make_genesis(SIGNERS, epoch=100_000)
    chain = ChainFile(tmp_path / "chain.sqlite", genesis)
    while chain.store.head.block_number < 3 * clique.SNAPSHOT_EVERY + 10:
        chain.seal_next(SIGNERS)
    expected = chain.store.signers_after(chain.store.head)
    chain.close()

    replayed: list[int] = []
    original = clique.facts
    monkeypatch.setattr(
        clique, "facts", lambda header: replayed.append(header.block_number) or original(header)
    )
    connection = open_connection(tmp_path / "chain.sqlite")
    store = BlockStore(connection, genesis)
    assert store.signers_after(store.head) == expected
    assert len(replayed) == 10
    connection.close()


def test_shanghai_code_fails_and_leaves_no_contract(pair: tuple[ChainFile, ChainFile]) -> None:
    first, _ = pair
    push0_return = bytes.fromhex("5f5ff3")
    first.offer(sign(0, to=None, data=push0_return, gas=100_000))
    block = first.seal_next(SIGNERS)
    (receipt,) = block.get_receipts(first.store.chain.chaindb)
    assert receipt.state_root == b""  # status 0
    assert receipt.gas_used == 100_000
    created = contract_address(block.transactions[0])
    assert first.store.chain.state_after(first.store.head).get_code(created) == b""


def test_votes_bring_a_signer_in_and_out(pair: tuple[ChainFile, ChainFile]) -> None:
    first, second = pair
    first.vote(address(OUTSIDER), True)
    for _ in range(3):
        second.take(first.seal_next(SIGNERS))
    assert second.store.signers_after(second.store.head).signers == tuple(sorted(map(address, KEYS)))
    first.vote(address(OUTSIDER), False)
    while address(OUTSIDER) in second.store.signers_after(second.store.head).signers:
        second.take(first.seal_next(KEYS))
        assert second.store.head.block_number < 3 * EPOCH
    assert second.store.head.hash == first.store.head.hash


def test_an_authority_votes_once_and_not_at_checkpoints(pair: tuple[ChainFile, ChainFile]) -> None:
    first, _ = pair
    first.vote(address(OUTSIDER), True)
    first.seal(SIGNERS[1])
    first.seal(SIGNERS[0])
    head = first.store.head
    assert recover_signer(head) == address(SIGNERS[0])
    assert len(first.store.signers_after(head).votes) == 0  # two of three is a majority: it is in
    assert sealer.Sealer(first.store, SIGNERS[2]).turn(head).vote is None


def test_readers_see_whole_blocks_only(pair: tuple[ChainFile, ChainFile]) -> None:
    first, _ = pair
    reader = open_connection(first.path, read_only=True)
    chain = open_reader(reader, first.store.genesis)
    first.offer(sign(0))
    first.seal_next(SIGNERS)
    with chain.chaindb.db.snapshot():
        seen = chain.get_canonical_head()
        first.seal_next(SIGNERS)
        assert chain.get_canonical_head().hash == seen.hash
    assert chain.get_canonical_head().block_number == 2
    with pytest.raises(TypeError, match="read-only"):
        chain.chaindb.db[b"x"] = b"y"
    reader.close()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"chainId": 1}, "invalid chain id"),
        ({"maxFeePerGas": 2 * 10**9, "maxPriorityFeePerGas": 3 * 10**9}, "priority fee"),
        ({"maxFeePerGas": 10**23, "gas": 21_000}, "insufficient funds"),
    ],
    ids=["another chain's", "a tip above the fee", "a fee beyond the balance"],
)
def test_what_py_evm_would_execute_and_geth_would_not_is_refused(
    pair: tuple[ChainFile, ChainFile], monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], problem: str
) -> None:
    """An authority of bad faith includes it all the same; the others must not follow."""
    first, second = pair
    first.offer(sign(0, **fields))
    monkeypatch.setattr(CliqueState, "validate_transaction", LondonState.validate_transaction)
    block = first.seal_next(SIGNERS)
    assert len(block.transactions) == 1
    monkeypatch.undo()
    with pytest.raises(ValidationError, match=problem):
        second.take(block)


def test_a_transaction_that_breaks_the_evm_does_not_stop_the_chain(
    pair: tuple[ChainFile, ChainFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    first.offer(sign(0), sign(1))
    original = CliqueVM.apply_transaction

    def apply(vm: CliqueVM, header: Any, transaction: Any) -> Any:
        if transaction.nonce == 1:
            raise RecursionError("a bug in the EVM")
        return original(vm, header, transaction)

    monkeypatch.setattr(CliqueVM, "apply_transaction", apply)
    assert sealer.Sealer(first.store, SIGNERS[1], clock=lambda: first.store.head.timestamp + 1).seal() is None
    assert first.connection.execute("SELECT count(*) FROM pool").fetchone() == (1,)
    assert [tx.nonce for tx in first.seal_next(SIGNERS).transactions] == [0]


def test_a_transaction_of_another_chain_cannot_be_included(pair: tuple[ChainFile, ChainFile]) -> None:
    """An authority of bad faith could put it in a block; py-evm would execute it, geth would not."""
    first, second = pair
    first.offer(sign(0, chainId=1))
    assert len(first.seal_next(SIGNERS).transactions) == 0
    assert first.connection.execute("SELECT count(*) FROM pool").fetchone() == (0,)
    state = first.store.chain.state_after(first.store.head)
    assert state.get_nonce(bytes.fromhex(USER.address[2:])) == 0
    second.take(first.store.chain.get_block_by_header(first.store.head))
