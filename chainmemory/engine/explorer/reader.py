"""What one page reads of the chain: any node's JSON-RPC, within one time limit, understood or refused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from chainmemory.chain.failures import CallReverted, CodeMismatch, NodeRefused
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.answers import (
    Block,
    Garbled,
    Receipt,
    Transaction,
    read_address,
    read_block,
    read_data,
    read_log,
    read_quantity,
    read_receipt,
    read_transaction,
)
from chainmemory.engine.explorer.memo import Memo
from chainmemory.errors import Unavailable

PAGE_S: Final = 10.0
"""How long one page may read, in seconds."""
CODE_FOR_S: Final = 60.0
BLOCK_FOR_S: Final = 2.0
MAX_NUMBER: Final = 2**63 - 1
"""The highest block number that nodes take."""

_ABSENT: Final = re.compile(r"not found|unknown (block|transaction)|does not exist", re.IGNORECASE)

A = TypeVar("A")
B = TypeVar("B")


class TooSlow(Unavailable):
    """The node takes longer than a page waits."""

    code = "chain_slow"


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
        return self._memo.get(("chain_id",), CODE_FOR_S, lambda: read_quantity(self.ask("eth_chainId")))

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
            return [read_address(one) for one in answer] if isinstance(answer, list) else None

        return self._memo.get(("signers", number), BLOCK_FOR_S, fetch)

    def code(self, address: str) -> bytes:
        return self._memo.get(
            ("code", address), CODE_FOR_S, lambda: read_data(self.ask("eth_getCode", address, "latest"))
        )

    def balance(self, address: str) -> int:
        return read_quantity(self.ask("eth_getBalance", address, "latest"))

    def nonce(self, address: str) -> int:
        return read_quantity(self.ask("eth_getTransactionCount", address, "latest"))

    def call(self, to: str, data: bytes, number: int) -> bytes:
        """Run a read-only call on the state after a block."""
        return read_data(self.ask("eth_call", {"to": to, "data": "0x" + data.hex()}, hex(number)))

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
        return [read_log(entry) for entry in answer]
