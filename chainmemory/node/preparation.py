"""What a start needs before anything runs: the folder for itself, the authority's key, block 0."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from eth_keys.datatypes import PrivateKey

from chainmemory.errors import ConfigurationError
from chainmemory.node import blocks
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.genesis import Genesis, load_genesis, new_genesis, read_genesis
from chainmemory.node.keystore import create_authority, load_authority

LOCK_SECONDS = 5.0
"""A killed node's sealing process needs a moment to notice and let go of the folder."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder where there is none and hold its lock.

    Raises ConfigurationError when another node keeps it, or the folder can't be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "node.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"The folder {folder} can't be used: {error.strerror}.") from None
    try:
        give_up = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise ConfigurationError(f"Another node is running on {folder}.") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def prepare(config: NodeConfig) -> tuple[Genesis, PrivateKey | None]:
    """Return the chain's genesis and this node's key, creating what a first start needs.

    Each step can be repeated: a crash between them leaves a folder that the next start completes.
    """
    own_chain = config.genesis is None
    key = None
    if config.seal:
        fresh = own_chain and config.keystore is None and not config.keystore_path.exists()
        make = create_authority if fresh and not config.database_path.exists() else load_authority
        key = make(config.keystore_path, config.password_path)
    # Before it is opened: SQLite gives the files it makes beside it the rights that it has by then.
    config.database_path.touch(0o600)
    for beside in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            config.database_path.with_name(config.database_path.name + beside).chmod(0o600)
    connection = open_connection(config.database_path)
    try:
        genesis = blocks.stored_genesis(connection)
        if genesis is None:
            genesis = _first_genesis(config, key)
            blocks.initialise(connection, genesis)
        _check_same_chain(config, genesis)
    except sqlite3.DatabaseError as error:
        raise ConfigurationError(
            f"The chain in {config.database_path} can't be read ({error}): its file is damaged, or its disk "
            "fails. Keep it, and restore it from a backup."
        ) from error
    finally:
        connection.close()
    if not config.genesis_path.exists():
        config.genesis_path.write_text(genesis.dump())
    return genesis, key


def _first_genesis(config: NodeConfig, key: PrivateKey | None) -> Genesis:
    if config.genesis is not None:
        return read_genesis(config.genesis)
    if config.genesis_path.exists():
        return load_genesis(config.genesis_path.read_bytes())
    if key is None:
        raise ConfigurationError("A node that doesn't seal needs the genesis.json of the chain to follow.")
    return new_genesis(
        signers=[key.public_key.to_canonical_address()],
        alloc=config.alloc,
        chain_id=config.chain_id,
        period=config.period,
        epoch=config.epoch,
        gas_limit=config.gas_limit,
        timestamp=int(time.time()) - config.period,
    )


def _check_same_chain(config: NodeConfig, genesis: Genesis) -> None:
    if config.genesis is not None:
        if read_genesis(config.genesis) != genesis:
            raise ConfigurationError(
                f"{config.data_dir} holds a chain with another genesis.", field="genesis"
            )
    elif genesis.chain_id != config.chain_id:
        raise ConfigurationError(
            f"{config.data_dir} holds chain {genesis.chain_id}, not {config.chain_id}.", field="chain_id"
        )
