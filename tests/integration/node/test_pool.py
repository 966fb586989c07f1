"""What the pool takes and refuses, in geth's words; what it takes is durable."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from chainmemory.errors import Unavailable
from chainmemory.node import admission, pool
from chainmemory.node.admission import Admission, Refused
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.dispatch import answer
from chainmemory.node.rpc.filters import Filters
from tests.support.clique_chains import ChainFile, authority_keys, make_genesis
from tests.support.evm_code import ANCHOR, creation
from tests.support.node_process import USER, sign

KEYS = authority_keys(1)
STRANGER = Account.from_key("0x" + "77" * 32)


class Pool:
    """A chain sealed by hand, with the doorkeeper of its pool."""

    def __init__(self, folder: Path) -> None:
        self.chain = ChainFile(folder / "chain.sqlite", make_genesis(KEYS))
        self.connection = open_connection(self.chain.path)
        self.announced = 0
        self.door = Admission(self.connection, self.chain.store.genesis, self._announce)

    def _announce(self) -> None:
        self.announced += 1

    def offer(self, nonce: int, **fields: Any) -> bytes:
        return self.door.submit(bytes.fromhex(sign(nonce, **fields)[2:])).result(10)

    def refused(self, nonce: int, **fields: Any) -> str:
        with pytest.raises(Refused) as refusal:
            self.offer(nonce, **fields)
        return str(refusal.value)

    def waiting(self) -> list[int]:
        return [entry.nonce for entry in pool.everything(self.chain.connection)]

    def close(self) -> None:
        self.door.close()
        self.connection.close()
        self.chain.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(tmp_path)
    yield made
    made.close()


def test_an_accepted_transaction_is_in_the_file_when_its_hash_comes_back(door: Pool) -> None:
    tx_hash = door.offer(0)
    with sqlite3.connect(door.chain.path) as other:
        assert other.execute("SELECT hash FROM pool").fetchall() == [(tx_hash,)]
    assert door.announced == 1


def test_refusals_use_geths_words(door: Pool) -> None:
    door.offer(0)
    door.chain.seal(KEYS[0])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"nonce": 0}, "nonce too low: next nonce 1, tx nonce 0"),
        ({"nonce": 1, "gas": 30_000_001}, "exceeds block gas limit"),
        ({"nonce": 1, "gas": 20_999}, "intrinsic gas too low: gas 20999, minimum needed 21000"),
        (
            {"nonce": 1, "data": "0x01", "gas": 21_000},
            "intrinsic gas too low: gas 21000, minimum needed 21016",
        ),
        ({"nonce": 1, "maxPriorityFeePerGas": 0}, "transaction underpriced: gas tip cap 0, minimum needed 1"),
        ({"nonce": 1, "gasPrice": 0}, "transaction underpriced"),
        (
            {"nonce": 1, "maxPriorityFeePerGas": 10**11},
            "max priority fee per gas higher than max fee per gas",
        ),
        ({"nonce": 1, "chainId": 1}, "invalid chain id for signer: have 1 want 20250"),
        ({"nonce": 1, "value": 10**28}, "insufficient funds for gas * price + value: balance"),
        ({"nonce": 0, "key": STRANGER}, "insufficient funds for gas * price + value: balance 0, tx cost"),
        ({"nonce": 1, "data": "0x" + "00" * 131_072, "gas": 10_000_000}, "oversized data"),
        ({"nonce": 2**64 - 1}, "nonce has max value"),
    ]
    for fields, words in cases:
        assert door.refused(**fields).startswith(words), fields
    assert door.waiting() == []
    assert door.announced == 1


def test_a_fee_below_the_base_fee_may_wait(door: Pool) -> None:
    door.offer(0, maxFeePerGas=10**6, maxPriorityFeePerGas=1)
    assert door.chain.seal(KEYS[0]).transactions == ()
    assert door.waiting() == [0]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "typed transaction too short"),
        (b"\x02", "typed transaction too short"),
        (b"\x03\xc0", "transaction type not supported"),
        (b"\x7f\xc0", "transaction type not supported"),
        (b"\xc0", "rlp: "),
        (bytes.fromhex(sign(0)[2:]) + b"\0", "rlp: "),
        (
            bytes(
                USER.sign_transaction(
                    {"nonce": 0, "gasPrice": 10**10, "gas": 21_000, "to": USER.address, "value": 0}
                ).raw_transaction
            ),
            "only replay-protected (EIP-155) transactions allowed over RPC",
        ),
    ],
    ids=[
        "nothing",
        "a type alone",
        "blobs",
        "an unknown type",
        "an empty list",
        "a byte too many",
        "unprotected",
    ],
)
def test_bytes_that_are_no_transaction_for_here(door: Pool, raw: bytes, words: str) -> None:
    with pytest.raises(Refused) as refusal:
        door.door.submit(raw)
    assert str(refusal.value).startswith(words)


def test_known_and_replaced(door: Pool) -> None:
    first = door.offer(0, maxFeePerGas=100, maxPriorityFeePerGas=50)
    assert door.refused(0, maxFeePerGas=100, maxPriorityFeePerGas=50) == "already known"
    for fee, tip in ((109, 55), (110, 54), (100, 50), (99, 55), (110, 50)):
        assert (
            door.refused(0, maxFeePerGas=fee, maxPriorityFeePerGas=tip, value=1)
            == "replacement transaction underpriced"
        )
    second = door.offer(0, maxFeePerGas=110, maxPriorityFeePerGas=55)
    assert [entry.hash for entry in pool.everything(door.chain.connection)] == [second]
    assert pool.find(door.chain.connection, first) is None
    door.offer(0, gasPrice=2 * 10**9)  # of another type, and one that can be included
    block = door.chain.seal(KEYS[0])
    assert [tx.max_fee_per_gas for tx in block.transactions] == [2 * 10**9]
    assert door.waiting() == []


def test_all_that_waits_must_be_affordable(door: Pool) -> None:
    most = 10**27 - 100_000 * 10**10
    door.offer(0, value=most // 2)
    assert "queued cost" in door.refused(1, value=most // 2)
    door.offer(0, value=0, maxFeePerGas=2 * 10**10, maxPriorityFeePerGas=2 * 10**9)  # the first is replaced
    door.offer(1, value=most // 2)


def test_future_nonces_wait_for_the_missing_ones(door: Pool) -> None:
    door.offer(2)
    door.offer(1)
    assert door.chain.seal(KEYS[0]).transactions == ()
    door.offer(0)
    assert [tx.nonce for tx in door.chain.seal(KEYS[0]).transactions] == [0, 1, 2]
    assert door.waiting() == []


def test_the_pool_is_bounded(door: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_FUTURE_PER_SENDER", 3)
    monkeypatch.setattr(admission, "MAX_PER_SENDER", 6)
    for nonce in (10, 11, 12):
        door.offer(nonce)
    assert door.refused(13) == "account limit exceeded: 3 transactions wait for nonce 0"
    for nonce in (0, 1, 2):
        door.offer(nonce)
    assert door.refused(3) == "account limit exceeded: pooled 6 txs"
    door.offer(0, maxFeePerGas=2 * 10**10, maxPriorityFeePerGas=2 * 10**9)  # replacing needs no room
    monkeypatch.setattr(admission, "MAX_PER_SENDER", 100)
    monkeypatch.setattr(admission, "MAX_POOL", 6)
    assert door.refused(3) == "txpool is full"
    door.chain.seal(KEYS[0])
    door.offer(3)  # a block made room


def test_the_best_paid_come_first_and_each_senders_in_order(door: Pool) -> None:
    rich = [Account.from_key(bytes([i]) * 32) for i in (1, 2)]
    door.offer(0, to=rich[0].address, value=10**20)
    door.offer(1, to=rich[1].address, value=10**20)
    door.chain.seal(KEYS[0])
    door.offer(2, maxPriorityFeePerGas=5)
    door.offer(3, maxPriorityFeePerGas=9 * 10**9)
    door.offer(0, key=rich[0], maxPriorityFeePerGas=7)
    door.offer(0, key=rich[1], maxPriorityFeePerGas=7)
    block = door.chain.seal(KEYS[0])
    tips = [tx.max_priority_fee_per_gas for tx in block.transactions]
    assert tips == [7, 7, 5, 9 * 10**9]
    assert [tx.sender.hex() for tx in block.transactions[:2]] == [key.address[2:].lower() for key in rich]


def test_a_block_takes_what_fits_and_the_rest_waits(door: Pool) -> None:
    for nonce in range(4):
        door.offer(nonce, gas=12_000_000)
    assert len(door.chain.seal(KEYS[0]).transactions) == 4  # gas used counts, not gas allowed
    spin = door.offer(4, to=None, data=creation(bytes.fromhex("5b600056")), gas=300_000)
    (deployed,) = door.chain.seal(KEYS[0]).transactions
    assert bytes(deployed.hash) == spin


def test_one_commit_serves_all_who_wait(door: Pool) -> None:
    statements: list[str] = []
    hold, held = threading.Event(), threading.Event()

    def block(_connection: sqlite3.Connection) -> None:
        held.set()
        hold.wait(10)

    blocker = threading.Thread(target=door.door.write, args=(block,))
    blocker.start()
    held.wait(10)
    raws = [bytes.fromhex(sign(nonce)[2:]) for nonce in range(50)]
    futures: list[Future[bytes]] = [door.door.submit(raw) for raw in raws]
    assert not any(future.done() for future in futures)
    hold.set()
    blocker.join()
    door.connection.set_trace_callback(statements.append)
    assert len({future.result(10) for future in futures}) == 50
    assert statements.count("COMMIT") <= 2
    assert door.waiting() == list(range(50))


def test_a_batch_of_transactions_shares_its_commits(door: Pool) -> None:
    context = Context(
        open_connection(door.chain.path, read_only=True),
        door.chain.store.genesis,
        NodeConfig(data_dir=door.chain.path.parent, port=1),
        door.door.submit,
        door.door.write,
        Filters(),
    )
    statements: list[str] = []
    door.connection.set_trace_callback(statements.append)

    def call(number: int, method: str, *params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}

    batch = [call(i, "eth_sendRawTransaction", sign(i)) for i in range(40)]
    batch += [call(40, "eth_getTransactionCount", USER.address, "pending")]
    batch += [call(41, "eth_sendRawTransaction", sign(0)), call(42, "eth_sendRawTransaction", "0x01")]
    replies = json.loads(answer(context, json.dumps(batch).encode(), float("inf")))
    assert [reply["id"] for reply in replies] == list(range(43))
    assert all(len(reply["result"]) == 66 for reply in replies[:40])
    assert replies[40]["result"] == hex(40)  # it sees those before it in the batch
    assert [reply["error"]["message"][:5] for reply in replies[41:]] == ["alrea", "typed"]
    assert statements.count("COMMIT") < 40
    context.connection.close()


def test_a_file_that_cannot_be_written_is_said(door: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(admission.pool, "row_of", broken)
    with pytest.raises(Unavailable, match="disk I/O error"):
        door.offer(0)
    monkeypatch.undo()
    door.offer(0)
    assert door.waiting() == [0]


def test_the_door_sees_what_a_block_took(door: Pool) -> None:
    for nonce in range(3):
        door.offer(nonce)
    door.chain.seal(KEYS[0])
    assert door.refused(1) == "nonce too low: next nonce 3, tx nonce 1"
    door.offer(3, to=None, data=creation(ANCHOR), gas=300_000)
    assert door.waiting() == [3]
