"""What a method works with: one worker thread's read connection, what it may take, and the way to hand in a
transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainmemory.node.chain import CliqueChain, chain_class
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import ReadDatabase
from chainmemory.node.evm import BlockAPI, BlockHeaderAPI, HeaderNotFound, StateAPI
from chainmemory.node.genesis import Genesis
from chainmemory.node.rpc.errors import RpcError
from chainmemory.node.rpc.params import BlockRef

if TYPE_CHECKING:
    from chainmemory.node.rpc.filters import Filters


_STEPS_BETWEEN_LOOKS = 50_000
"""Instructions of SQLite's machine: a millisecond or so."""


@dataclass(frozen=True)
class Budget:
    """What one HTTP request may take. A caller can ask for less, as the public `/rpc` does for strangers."""

    seconds: float = 30.0
    """For all its methods together, once they have begun."""
    call_gas: int = 50_000_000
    """For one `eth_call` or `eth_estimateGas`, as in geth."""


class Context:
    """One thread's view of the chain; every method runs inside one database snapshot."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        genesis: Genesis,
        config: NodeConfig,
        submit: Callable[[bytes], Future[bytes]],
        write: Callable[[Callable[[sqlite3.Connection], None]], None],
        filters: Filters,
    ) -> None:
        self.connection = connection
        self.database = ReadDatabase(connection)
        self.chain: CliqueChain = chain_class(genesis)(self.database)
        self.genesis = genesis
        self.config = config
        self.submit = submit
        """Hand in a raw transaction; the future gives its hash once it is durable, or Refused."""
        self.budget = Budget()
        self.deadline = float("inf")
        """When the request being answered must be done, of the monotonic clock."""
        # A search that finds nothing in a long chain would run on after whoever asked has gone.
        connection.set_progress_handler(lambda: time.monotonic() > self.deadline, _STEPS_BETWEEN_LOOKS)
        self.write = write
        """Run a small change in a commit of its own."""
        self.filters = filters
        """Shared by all threads."""

    @property
    def head(self) -> BlockHeaderAPI:
        return self.chain.get_canonical_head()

    def find_header(self, ref: BlockRef) -> BlockHeaderAPI | None:
        """Return the header a caller names, None where there is none. "pending" is the head here."""
        try:
            if ref.hash is not None:
                return self.chain.get_block_header_by_hash(ref.hash)  # type: ignore[arg-type]
            if ref.tag == "earliest":
                return self._canonical(0)
            if ref.tag is not None:
                return self.head
            assert ref.number is not None
            return self._canonical(ref.number)
        except HeaderNotFound:
            return None

    def header(self, ref: BlockRef) -> BlockHeaderAPI:
        """Return the header a caller names; RpcError where there is none or it isn't canonical as asked."""
        header = self.find_header(ref)
        if header is None:
            raise RpcError("header for hash not found" if ref.hash else "header not found")
        if ref.require_canonical and not self.is_canonical(header):
            raise RpcError("hash is not currently canonical")
        return header

    def state(self, ref: BlockRef) -> StateAPI:
        """Return a scratch state after the block a caller names."""
        return self.chain.state_after(self.header(ref))

    def block(self, header: BlockHeaderAPI) -> BlockAPI:
        """Return the whole block of a header."""
        return self.chain.get_block_by_header(header)

    def is_canonical(self, header: BlockHeaderAPI) -> bool:
        """Say whether `header` is on the canonical chain."""
        try:
            return self._canonical(header.block_number).hash == header.hash
        except HeaderNotFound:
            return False

    def _canonical(self, number: int) -> BlockHeaderAPI:
        return self.chain.get_canonical_block_header_by_number(number)  # type: ignore[arg-type]
