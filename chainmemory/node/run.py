"""Start a node: lock its folder, prepare key and genesis, fork the sealing process, serve the RPC.

Two processes, because reading must not wait for sealing: the executing of a block keeps one Python process
busy, while this one answers from the last commit. Both hold the folder's lock; when either dies, so does the
other, and the next start finds whole blocks (see `database.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import multiprocessing
import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from eth_keys.datatypes import PrivateKey

from chainmemory.errors import ChainMemoryError, ConfigurationError
from chainmemory.node import blocks
from chainmemory.node.admission import Admission
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.genesis import Genesis, load_genesis, new_genesis, read_genesis
from chainmemory.node.keystore import create_authority, load_authority
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.filters import Filters
from chainmemory.node.sealing import STOP, WAKE, run_authority
from chainmemory.node.server import Application, Server

log = logging.getLogger("chainmemory.node")

LOCK_SECONDS = 5.0
"""A killed node's sealing process needs a moment to notice and let go of the folder."""
STOP_SECONDS = 10.0


def run(config: NodeConfig, sock: socket.socket | None = None) -> None:
    """See `chainmemory.node.run_node`."""
    _configure_logging(config)
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(config.data_dir):
        genesis, key = prepare(config)
        listener = sock or _listen(config)
        # Accepted connections inherit it; an answer's head and body would else wait 40 ms for each other.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours, theirs = socket.socketpair()
        sealing = multiprocessing.get_context("fork").Process(
            target=_be_authority, args=(config, genesis, key, theirs, ours, listener), name="sealing"
        )
        sealing.start()
        del key
        theirs.close()
        try:
            _serve(config, genesis, listener, ours, sealing.sentinel)
        finally:
            with contextlib.suppress(OSError):
                ours.sendall(STOP)
            sealing.join(STOP_SECONDS)
            ours.close()
            sealing.join(1.0)
            if sealing.is_alive():
                sealing.kill()
                sealing.join()
        if sealing.exitcode != 0:
            raise ChainMemoryError(
                f"The sealing process ended with code {sealing.exitcode}; its log says why.",
                code="node_failed",
            )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; ConfigurationError when another node keeps it."""
    descriptor = os.open(folder / "node.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
    connection = open_connection(config.database_path)
    try:
        config.database_path.chmod(0o600)
        genesis = blocks.stored_genesis(connection)
        if genesis is None:
            genesis = _first_genesis(config, key)
            blocks.initialise(connection, genesis)
        _check_same_chain(config, genesis)
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


def _listen(config: NodeConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=256)
    except OSError as error:
        raise ConfigurationError(
            f"The chain can't listen on {config.host}:{config.port}: {error.strerror}.", field="port"
        ) from None


def _be_authority(
    config: NodeConfig,
    genesis: Genesis,
    key: PrivateKey | None,
    control: socket.socket,
    others_end: socket.socket,
    listener: socket.socket,
) -> None:
    others_end.close()
    listener.close()
    try:
        run_authority(config, genesis, key, control)
    except BaseException:
        log.exception("the sealing process failed")
        sys.stderr.flush()
        os._exit(1)


def _serve(
    config: NodeConfig, genesis: Genesis, listener: socket.socket, control: socket.socket, sentinel: int
) -> None:
    connections: list[sqlite3.Connection] = []

    def announce() -> None:
        with contextlib.suppress(OSError):  # the sealing process is gone; its end is noticed by itself
            control.send(WAKE, socket.MSG_DONTWAIT)

    writing = open_connection(config.database_path, cache_mib=4)
    admission = Admission(writing, genesis, announce)

    def make_context() -> Context:
        connection = open_connection(config.database_path, read_only=True, cache_mib=2)
        connections.append(connection)
        return Context(connection, genesis, config, admission.submit, admission.write, filters)

    filters = Filters()
    application = Application(make_context, config.host)
    host, port = listener.getsockname()[:2]

    def started() -> None:
        log.info("chain %d: JSON-RPC at http://%s:%d/", genesis.chain_id, host, port)
        if config.ready_file is not None:
            temporary = config.ready_file.with_suffix(".tmp")
            temporary.write_text(f"{host}:{port}")
            temporary.replace(config.ready_file)

    server = Server(application, started)
    try:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(_until_over(server, listener, sentinel))
    finally:
        admission.close()
        application.close()
        for connection in [*connections, writing]:
            connection.close()


async def _until_over(server: Server, listener: socket.socket, sentinel: int) -> None:
    """Serve until a signal, or until the sealing process is gone."""

    def sealing_ended() -> None:
        loop.remove_reader(sentinel)
        if not server.should_exit:
            log.error("the sealing process is gone; stopping")
        server.should_exit = True

    def asked_to_stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    loop.add_reader(sentinel, sealing_ended)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop)
    await server.serve(sockets=[listener])


def _configure_logging(config: NodeConfig) -> None:
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    log.setLevel(config.log_level.upper())
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
