"""Chains made in process: several authorities, a clock of our own, blocks good and bad."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from eth_keys.datatypes import PrivateKey

from chainmemory.node import database, pool
from chainmemory.node.blocks import BlockStore, Change, initialise, stored_genesis
from chainmemory.node.evm import BlockAPI
from chainmemory.node.formats import decode_transaction, encode_block
from chainmemory.node.genesis import Genesis, new_genesis
from chainmemory.node.sealer import Sealer, propose
from tests.support.node_process import CHAIN_ID, USER


def authority_keys(count: int) -> list[PrivateKey]:
    """Return keys in the order of their addresses, which is the order of their turns."""
    keys = [PrivateKey(bytes([0x30 + i]) * 32) for i in range(count)]
    return sorted(keys, key=lambda key: key.public_key.to_canonical_address())


def address(key: PrivateKey) -> bytes:
    """Return a key's address."""
    return bytes(key.public_key.to_canonical_address())


def make_genesis(signers: Sequence[PrivateKey], *, epoch: int = 30_000, age: int = 100_000) -> Genesis:
    """Return a genesis `age` seconds old, so that many blocks fit between it and now."""
    return new_genesis(
        signers=[address(key) for key in signers],
        alloc=[USER.address],
        chain_id=CHAIN_ID,
        period=1,
        epoch=epoch,
        gas_limit=30_000_000,
        timestamp=int(time.time()) - age,
    )


class ChainFile:
    """A chain in a file of its own, sealed by whichever authority the test names."""

    def __init__(self, path: Path, genesis: Genesis) -> None:
        self.path = path
        self.connection: sqlite3.Connection = database.open_connection(path)
        if stored_genesis(self.connection) is None:
            initialise(self.connection, genesis)
        self.store = BlockStore(self.connection, genesis)

    def offer(self, *raws: str) -> None:
        """Put raw transactions (hex) into the pool, unchecked."""
        rows = [pool.row_of(decode_transaction(bytes.fromhex(raw[2:]))) for raw in raws]
        with database.transaction(self.connection):
            self.connection.executemany(pool.INSERT, rows)

    def seal(self, key: PrivateKey, *, at: float | None = None) -> BlockAPI:
        """Seal a block with `key`, a second after the head or at the given time."""
        time_ = self.store.head.timestamp + 1 if at is None else at
        change = Sealer(self.store, key, clock=lambda: time_).seal()
        assert change is not None, "this authority must wait"
        return change.block

    def seal_next(self, keys: Sequence[PrivateKey]) -> BlockAPI:
        """Seal a block with the authority whose turn it is, or the first that may."""
        return self.seal(max(keys, key=self.may_seal))

    def may_seal(self, key: PrivateKey) -> int:
        """Return the difficulty of a block `key` could seal now, 0 when it can't."""
        turn = Sealer(self.store, key).turn(self.store.head)
        return turn.difficulty if turn else 0

    def vote(self, subject: bytes, authorize: bool) -> None:
        """Have the next blocks vote."""
        propose(self.connection, subject, authorize)

    def take(self, block: BlockAPI) -> Change | None:
        """Import a block made elsewhere."""
        return self.store.import_raw(encode_block(block))

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
