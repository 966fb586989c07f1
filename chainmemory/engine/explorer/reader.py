"""What one page reads of the chain: any node's JSON-RPC, within one time limit, understood or refused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from eth_utils.address import to_checksum_address

from chainmemory.chain.failures import CallReverted, CodeMismatch, NodeRefused
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.memo import Memo
from chainmemory.errors import Unavailable

PAGE_S: Final = 10.0
"""How long one page may read, in seconds."""
CODE_FOR_S: Final = 60.0
BLOCK_FOR_S: Final = 2.0
MAX_NUMBER: Final = 2**63 - 1
"""The highest block number that nodes take."""

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_DATA: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
_ABSENT: Final = re.compile(r"not found|unknown (block|transaction)|does not exist", re.IGNORECASE)

A = TypeVar("A")
B = TypeVar("B")


class Garbled(Unavailable):
    """The node answered something that can't be what was asked for."""

    code = "chain_garbled"


class TooSlow(Unavailable):
    """The node takes longer than a page waits."""

    code = "chain_slow"


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction as the node tells it; block and index are None while it waits."""

    hash: str
    sender: str
    to: str | None
    value: int
    nonce: int
    gas: int
    gas_price: int | None
    max_fee: int | None
    tip: int | None
    type: int
    data: bytes
    block_number: int | None
    block_hash: str | None
    index: int | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a transaction; `succeeded` is None before Byzantium, where no receipt says."""

    tx_hash: str
    succeeded: bool | None
    gas_used: int
    gas_price: int | None
    created: str | None
    block_number: int
    logs: tuple[Log, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A block; `transactions` are there where they were asked for, `header` is the node's own object."""

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    miner: str
    difficulty: int
    gas_limit: int
    gas_used: int
    base_fee: int | None
    size: int | None
    extra: bytes
    state_root: str
    transactions_root: str
    receipts_root: str
    transaction_hashes: tuple[str, ...]
    transactions: tuple[Transaction, ...]
    header: Mapping[str, Any]


class Reader:
    """Reads for one page. Raises Unavailable where the node doesn't answer, or not in time."""

    def __init__(self, gateway: Gateway, pool: ThreadPoolExecutor, memo: Memo) -> None:
        self._gateway = gateway
        self._pool = pool
        self._memo = memo
        self._deadline = time.monotonic() + PAGE_S

    @property
    def left_s(self) -> float:
        """How much time the page has left, in seconds."""
        return self._deadline - time.monotonic()

    def ask(self, method: str, *params: Any) -> Any:
        """Ask the node. Raises NodeRefused where it answers with an error, TooSlow past the page's time."""
        if self.left_s <= 0:
            raise TooSlow("The node takes too long.")
        return self._gateway.ask(method, params)

    def lookup(self, method: str, *params: Any) -> Any:
        """Ask for one thing; None where the node has none, in whichever way it says so."""
        try:
            return self.ask(method, *params)
        except NodeRefused as error:
            if _ABSENT.search(error.message):
                return None
            raise

    def offers(self, method: str, *params: Any) -> Any:
        """Ask for something that not every node offers; None where this one doesn't."""
        try:
            return self.ask(method, *params)
        except NodeRefused:
            return None

    def run(self, read: Callable[[], A]) -> A:
        """Run a read of the contracts' bindings within the page's time."""
        if self.left_s <= 0:
            raise TooSlow("The node takes too long.")
        try:
            return read()
        except (CodeMismatch, CallReverted) as error:
            raise Garbled("What lies at a contract's address answers as another contract.") from error

    def each(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Read several things at once, in the order given. `read` must not call `each` itself."""
        return list(self._pool.map(read, items))

    def chain_id(self) -> int:
        """Return the chain's id, at most a minute old."""
        return self._memo.get(("chain_id",), CODE_FOR_S, lambda: _quantity(self.ask("eth_chainId")))

    def head(self) -> Block:
        """Return the newest block, at most two seconds old."""
        block = self._memo.get(("head",), BLOCK_FOR_S, lambda: self.block("latest"))
        if block is None:
            raise Garbled("The node has no newest block.")
        return block

    def block(self, number_or_hash: int | str, *, full: bool = False) -> Block | None:
        """Return a block by number, hash (hex32) or tag; None where the node has none."""
        by_hash = isinstance(number_or_hash, str) and number_or_hash.startswith("0x")
        method = "eth_getBlockByHash" if by_hash else "eth_getBlockByNumber"
        name = hex(number_or_hash) if isinstance(number_or_hash, int) else number_or_hash
        answer = self.lookup(method, name, full)
        return None if answer is None else read_block(answer)

    def numbered(self, number: int) -> Block | None:
        """Return a block by number, at most two seconds old."""
        return self._memo.get(("block", number), BLOCK_FOR_S, lambda: self.block(number))

    def transaction(self, tx_hash: str) -> Transaction | None:
        answer = self.lookup("eth_getTransactionByHash", tx_hash)
        return None if answer is None else read_transaction(answer)

    def receipt(self, tx_hash: str) -> Receipt | None:
        answer = self.lookup("eth_getTransactionReceipt", tx_hash)
        return None if answer is None else read_receipt(answer)

    def block_receipts(self, number: int) -> dict[str, Receipt] | None:
        """Return a block's receipts by transaction hash; None where the node doesn't offer that."""
        answer = self.offers("eth_getBlockReceipts", hex(number))
        if not isinstance(answer, list):
            return None
        return {receipt.tx_hash: receipt for receipt in map(read_receipt, answer)}

    def signers(self, number: int) -> list[str] | None:
        """Return who may sign the block after this one, checksummed; None where the node doesn't say."""

        def fetch() -> list[str] | None:
            answer = self.offers("clique_getSigners", hex(number))
            return [_address(one) for one in answer] if isinstance(answer, list) else None

        return self._memo.get(("signers", number), BLOCK_FOR_S, fetch)

    def code(self, address: str) -> bytes:
        return self._memo.get(
            ("code", address), CODE_FOR_S, lambda: _data(self.ask("eth_getCode", address, "latest"))
        )

    def balance(self, address: str) -> int:
        return _quantity(self.ask("eth_getBalance", address, "latest"))

    def nonce(self, address: str) -> int:
        return _quantity(self.ask("eth_getTransactionCount", address, "latest"))

    def call(self, to: str, data: bytes, number: int) -> bytes:
        """Run a read-only call on the state after a block."""
        return _data(self.ask("eth_call", {"to": to, "data": "0x" + data.hex()}, hex(number)))

    def logs(
        self, address: str, topics: Sequence[str | Sequence[str] | None], first: int, last: int
    ) -> list[Log]:
        """Return a contract's logs of the blocks `first` to `last`, both included, in the chain's order."""
        query = {
            "address": address,
            "topics": list(topics),
            "fromBlock": hex(first),
            "toBlock": hex(last),
        }
        answer = self.ask("eth_getLogs", query)
        if not isinstance(answer, list):
            raise Garbled("The node's logs are no list.")
        return [_log(entry) for entry in answer]


def read_block(answer: Any) -> Block:
    """Understand a JSON-RPC block. Raises Garbled."""
    header = _object(answer)
    listed = header.get("transactions")
    entries = listed if isinstance(listed, list) else []
    transactions = tuple(read_transaction(entry) for entry in entries if isinstance(entry, Mapping))
    return Block(
        number=_quantity(header.get("number")),
        hash=_hash(header.get("hash")),
        parent_hash=_hash(header.get("parentHash")),
        timestamp=_quantity(header.get("timestamp")),
        miner=_address(header.get("miner")),
        difficulty=_maybe(header.get("difficulty")) or 0,
        gas_limit=_quantity(header.get("gasLimit")),
        gas_used=_quantity(header.get("gasUsed")),
        base_fee=_maybe(header.get("baseFeePerGas")),
        size=_maybe(header.get("size")),
        extra=_data(header.get("extraData")),
        state_root=_hash(header.get("stateRoot")),
        transactions_root=_hash(header.get("transactionsRoot")),
        receipts_root=_hash(header.get("receiptsRoot")),
        transaction_hashes=tuple(_hash(entry) for entry in entries if not isinstance(entry, Mapping))
        or tuple(transaction.hash for transaction in transactions),
        transactions=transactions,
        header={name: value for name, value in header.items() if name != "transactions"},
    )


def read_transaction(answer: Any) -> Transaction:
    """Understand a JSON-RPC transaction of any type, a rollup's own ones too. Raises Garbled."""
    entry = _object(answer)
    to = entry.get("to")
    block_hash = entry.get("blockHash")
    return Transaction(
        hash=_hash(entry.get("hash")),
        sender=_address(entry.get("from")),
        to=None if to is None else _address(to),
        value=_quantity(entry.get("value")),
        nonce=_quantity(entry.get("nonce")),
        gas=_quantity(entry.get("gas")),
        gas_price=_maybe(entry.get("gasPrice")),
        max_fee=_maybe(entry.get("maxFeePerGas")),
        tip=_maybe(entry.get("maxPriorityFeePerGas")),
        type=_maybe(entry.get("type")) or 0,
        data=_data(entry.get("input", entry.get("data", "0x"))),
        block_number=_maybe(entry.get("blockNumber")),
        block_hash=None if block_hash is None else _hash(block_hash),
        index=_maybe(entry.get("transactionIndex")),
    )


def read_receipt(answer: Any) -> Receipt:
    """Understand a JSON-RPC receipt. Raises Garbled."""
    entry = _object(answer)
    status, created, logs = _maybe(entry.get("status")), entry.get("contractAddress"), entry.get("logs")
    return Receipt(
        tx_hash=_hash(entry.get("transactionHash")),
        succeeded=None if status is None else status == 1,
        gas_used=_quantity(entry.get("gasUsed")),
        gas_price=_maybe(entry.get("effectiveGasPrice")),
        created=None if created is None else _address(created),
        block_number=_quantity(entry.get("blockNumber")),
        logs=tuple(_log(log) for log in logs) if isinstance(logs, list) else (),
    )


def _log(answer: Any) -> Log:
    entry = _object(answer)
    topics = entry.get("topics")
    return Log(
        address=_address(entry.get("address")),
        topics=tuple(_hash(topic) for topic in topics) if isinstance(topics, list) else (),
        data=_data(entry.get("data")),
        block_number=_quantity(entry.get("blockNumber")),
        block_hash=_hash(entry.get("blockHash")),
        tx_hash=_hash(entry.get("transactionHash")),
        index=_quantity(entry.get("logIndex")),
    )


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        raise Garbled("The node's answer is no object.")
    return answer


def _quantity(value: Any) -> int:
    if not isinstance(value, str) or _QUANTITY.fullmatch(value) is None:
        raise Garbled("The node's answer has no number where one belongs.")
    return int(value, 16)


def _maybe(value: Any) -> int | None:
    return None if value is None else _quantity(value)


def _data(value: Any) -> bytes:
    if not isinstance(value, str) or _DATA.fullmatch(value) is None:
        raise Garbled("The node's answer has no bytes where they belong.")
    return bytes.fromhex(value[2:])


def _hash(value: Any) -> str:
    return "0x" + _sized(value, 32).hex()


def _address(value: Any) -> str:
    return str(to_checksum_address(_sized(value, 20)))


def _sized(value: Any, size: int) -> bytes:
    raw = _data(value)
    if len(raw) != size:
        raise Garbled(f"The node's answer has {len(raw)} bytes where {size} belong.")
    return raw
