"""Write the chain in the form other clients import: blocks as RLP one after another, and genesis.json."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from chainmemory.errors import ConfigurationError
from chainmemory.node.blocks import stored_genesis
from chainmemory.node.chain import CliqueChain, chain_class
from chainmemory.node.database import ReadDatabase, open_connection
from chainmemory.node.evm import BlockNumber
from chainmemory.node.formats import encode_block


@dataclass(frozen=True)
class Exported:
    """What was written."""

    blocks: int
    """With block 0."""
    transactions: int
    head_hash: str
    genesis: Path


def export_chain(data_dir: Path, target: Path, genesis: Path | None = None) -> Exported:
    """Write the canonical chain of a node's folder to `target`, as `geth export` would.

    The genesis goes to `genesis` (default: genesis.json beside `target`), which geth reads with `geth init`.
    The node may be running: one snapshot of its file is read. A file takes its place when it is whole, so
    breaking off leaves what was there. Raises ConfigurationError when the folder holds no chain, a file can't
    be written, or a genesis.json of another chain lies in the way.
    """
    path = data_dir / "chain.sqlite"
    if not path.exists():
        raise ConfigurationError(f"{data_dir} holds no chain.")
    genesis_path = genesis or target.parent / "genesis.json"
    connection = open_connection(path, read_only=True)
    try:
        stored = stored_genesis(connection)
        if stored is None:
            raise ConfigurationError(f"{data_dir} holds no chain yet.")
        text = stored.dump().encode()
        _check_free(genesis_path, text, target)
        database = ReadDatabase(connection)
        chain = chain_class(stored)(database)
        with database.snapshot(), _taking_place(target) as file:
            blocks, transactions, head = _write_blocks(chain, file)
        with _taking_place(genesis_path) as file:
            file.write(text)
        return Exported(blocks, transactions, "0x" + head.hex(), genesis_path)
    finally:
        connection.close()


def _check_free(genesis: Path, text: bytes, target: Path) -> None:
    if genesis.resolve() == target.resolve():
        raise ConfigurationError("Blocks and genesis must go to two files.")
    try:
        in_the_way = genesis.is_file() and genesis.read_bytes() != text
    except OSError as error:
        raise _unwritable(genesis, error) from error
    if in_the_way:
        raise ConfigurationError(f"{genesis} is the genesis of another chain; move it away first.")


@contextmanager
def _taking_place(target: Path) -> Iterator[BinaryIO]:
    """Open a file that becomes `target` once it is whole; a device or a pipe is written as it is.

    Raises ConfigurationError.
    """
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        path = target.resolve()
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with part.open("wb") as file:
            try:
                yield file
                file.flush()
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{path} can't be written: {error.strerror or type(error).__name__}.")


def _write_blocks(chain: CliqueChain, file: BinaryIO) -> tuple[int, int, bytes]:
    head = chain.get_canonical_head()
    transactions = 0
    for number in range(head.block_number + 1):
        header = chain.get_canonical_block_header_by_number(BlockNumber(number))
        block = chain.get_block_by_header(header)
        transactions += len(block.transactions)
        file.write(encode_block(block))
    return head.block_number + 1, transactions, bytes(head.hash)
