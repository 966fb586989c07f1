"""The chain as its one writer sees it: create or open it, append a sealed block, import a peer's.

Every change ends in one `BlockWriter.commit`; an error before it leaves the file and the memory as they were.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chainmemory.errors import ConfigurationError
from chainmemory.node import logs, pool
from chainmemory.node.chain import CliqueChain, chain_class, create_genesis
from chainmemory.node.clique import check_alone, recover_signer
from chainmemory.node.database import BlockWriter, ReadDatabase, transaction
from chainmemory.node.evm import BlockAPI, BlockHeaderAPI, HeaderNotFound, ReceiptAPI
from chainmemory.node.formats import check_transaction_chain, decode_block
from chainmemory.node.genesis import Genesis, load_genesis
from chainmemory.node.signers import ConsensusError, Snapshot

log = logging.getLogger("chainmemory.node")


class FutureBlock(ConsensusError):
    """The block's time hasn't come yet; it may be offered again."""

    code = "future_block"


@dataclass(frozen=True)
class Change:
    """What a new block did to the canonical chain."""

    block: BlockAPI
    became_canonical: tuple[BlockAPI, ...]
    dropped: tuple[BlockAPI, ...]
    """Blocks of the branch that lost, newest first; empty unless the chain was reorganised."""


def log_change(verb: str, change: Change) -> None:
    """Say in the log what a block did."""
    block = change.block
    log.info(
        "%s block %d 0x%s with %d transactions", verb, block.number, block.hash.hex(), len(block.transactions)
    )
    if change.dropped:
        log.warning("reorganised: %d blocks left the chain", len(change.dropped))


def stored_genesis(connection: sqlite3.Connection) -> Genesis | None:
    """Return the genesis this file was created with, None for an empty file."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'genesis'").fetchone()
    return None if row is None else load_genesis(row[0])


def initialise(connection: sqlite3.Connection, genesis: Genesis) -> None:
    """Write block 0 into an empty file, in one commit."""
    if stored_genesis(connection) is not None:
        raise ConfigurationError("The chain exists already.")
    writer = BlockWriter(connection)
    create_genesis(writer, genesis)
    writer.later("INSERT INTO meta VALUES ('genesis', ?)", [(genesis.dump(),)])
    writer.commit()


def open_reader(connection: sqlite3.Connection, genesis: Genesis) -> CliqueChain:
    """Return py-evm's chain over a read-only connection."""
    return chain_class(genesis)(ReadDatabase(connection))


class BlockStore:
    """The writing side; one per chain file."""

    def __init__(self, connection: sqlite3.Connection, genesis: Genesis) -> None:
        self.connection = connection
        self.genesis = genesis
        self.database = BlockWriter(connection)
        self.chain = chain_class(genesis)(self.database)

    @property
    def head(self) -> BlockHeaderAPI:
        """The canonical chain's last header."""
        return self.chain.get_canonical_head()

    def signers_after(self, header: BlockHeaderAPI) -> Snapshot:
        """Return the signers and votes after `header`."""
        return self.chain.consensus_context.snapshots.after(bytes(header.hash))

    def append(
        self, block: BlockAPI, receipts: Sequence[ReceiptAPI], unusable: Iterable[bytes] = ()
    ) -> Change:
        """Store a block sealed here, whose state already waits in `database`.

        `unusable` are hashes of waiting transactions that can never be executed. ValidationError when the
        block breaks a rule; nothing is stored then.
        """
        before = self.head
        try:
            self.chain.persist_block(block)
            change = self._settle(before, block, {bytes(block.hash): receipts})
            self.database.later(pool.DELETE, [(tx_hash,) for tx_hash in unusable])
            self.database.commit()
            return change
        finally:
            self.database.forget()

    def drop_waiting(self, hashes: Iterable[bytes]) -> None:
        """Take transactions out of the pool."""
        with transaction(self.connection):
            self.connection.executemany(pool.DELETE, [(tx_hash,) for tx_hash in hashes])

    def import_raw(self, raw: bytes, now: float | None = None) -> Change | None:
        """Check, execute and store a peer's block; None when it is known already.

        `now` is seconds since 1970 (default: the clock). Raises FutureBlock when its time hasn't come, else
        ConsensusError or ValidationError when it breaks a rule; nothing is stored then.
        """
        block = decode_block(raw)
        header = block.header
        if self.chain.headerdb.header_exists(header.hash):
            return None
        if header.timestamp > (time.time() if now is None else now):
            raise FutureBlock(
                f"Block {header.block_number} is of {header.timestamp}, which is in the future."
            )
        before = self.head
        try:
            self._check_before_execution(block)
            self.chain.import_block(block)
            change = self._settle(before, block, {})
            self.database.commit()
            return change
        finally:
            self.database.forget()

    def _check_before_execution(self, block: BlockAPI) -> None:
        """Refuse what needs no execution first, so that only an authority can make this node work."""
        check_alone(block.header, self.genesis.epoch)
        recover_signer(block.header)
        try:
            parent = self.chain.get_block_header_by_hash(block.header.parent_hash)
        except HeaderNotFound:
            raise ConsensusError(f"The parent of block {block.number} is unknown.") from None
        vm = self.chain.get_vm(block.header)
        vm.validate_header(block.header, parent)
        vm.validate_seal_extension(block.header, ())
        for tx in block.transactions:
            check_transaction_chain(tx, self.genesis.chain_id)

    def _settle(
        self, before: BlockHeaderAPI, block: BlockAPI, receipts: Mapping[bytes, Sequence[ReceiptAPI]]
    ) -> Change:
        """Adapt everything that depends on which chain is canonical, after py-evm has stored `block`.

        A branch that lost gives its transactions back to the pool and its logs go; py-evm alone would leave
        its transactions findable at their old places.
        """
        self.chain.consensus_context.snapshots.store(self.signers_after(block.header))
        became, dropped = self._branches(before, self.head, block)
        included = {bytes(tx.hash) for one in became for tx in one.transactions}
        for one in dropped:
            self.database.later(logs.DELETE, [(one.number,)])
            self.database.later(pool.INSERT, [pool.row_of(tx) for tx in one.transactions])
            for tx in one.transactions:
                if bytes(tx.hash) not in included:
                    self.chain.chaindb.forget_transaction(tx.hash)
        for one in became:
            results = receipts.get(bytes(one.hash)) or one.get_receipts(self.chain.chaindb)
            self.database.later(logs.INSERT, logs.rows_of(one, results))
            self.database.later(pool.DELETE_NONCE, [pool.place_of(tx) for tx in one.transactions])
        return Change(block, tuple(became), tuple(dropped))

    def _branches(
        self, before: BlockHeaderAPI, after: BlockHeaderAPI, newest: BlockAPI
    ) -> tuple[list[BlockAPI], list[BlockAPI]]:
        """Return the blocks that became canonical, oldest first, and those that were, newest first.

        `newest` is in memory still, with its transactions' senders known.
        """
        became: list[BlockHeaderAPI] = []
        dropped: list[BlockHeaderAPI] = []
        while before.hash != after.hash:
            if after.block_number >= before.block_number:
                became.append(after)
                after = self.chain.get_block_header_by_hash(after.parent_hash)
            else:
                dropped.append(before)
                before = self.chain.get_block_header_by_hash(before.parent_hash)

        def block_of(header: BlockHeaderAPI) -> BlockAPI:
            return newest if header.hash == newest.hash else self.chain.get_block_by_header(header)

        return [block_of(header) for header in reversed(became)], [block_of(header) for header in dropped]
