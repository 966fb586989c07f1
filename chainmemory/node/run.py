"""Start a node: lock its folder, prepare key and genesis, fork the sealing process, serve the RPC.

Two processes, because reading must not wait for sealing: the executing of a block keeps one Python process
busy, while this one answers from the last commit. Both hold the folder's lock; when either dies, so does the
other, and the next start finds whole blocks (see `database.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sqlite3
import sys

from eth_keys.datatypes import PrivateKey

from chainmemory.errors import ChainMemoryError, ConfigurationError
from chainmemory.node.admission import Admission
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.genesis import Genesis
from chainmemory.node.preparation import locked, prepare
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.filters import Filters
from chainmemory.node.sealing import STOP, WAKE, run_authority
from chainmemory.node.server import Application, Server

log = logging.getLogger("chainmemory.node")

STOP_SECONDS = 5.0
"""How long a block being sealed may delay the end; then it is dropped, as by a crash."""


def run(config: NodeConfig, sock: socket.socket | None = None) -> None:
    """See `chainmemory.node.run_node`."""
    _configure_logging(config)
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
        asked = False
        try:
            asked = _serve(config, genesis, listener, ours, sealing.sentinel)
        finally:
            with contextlib.suppress(OSError):
                ours.sendall(STOP)
            sealing.join(STOP_SECONDS)
            ours.close()
            sealing.join(1.0)
            if sealing.is_alive():
                sealing.kill()
                sealing.join()
        if not asked:
            raise ChainMemoryError(
                f"The sealing process ended with code {sealing.exitcode}; its log says why.",
                code="node_failed",
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
) -> bool:
    """Answer JSON-RPC; return whether it was a signal that ended it, not the sealing process's end."""
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
            return runner.run(_until_over(server, listener, sentinel))
    finally:
        admission.close()
        application.close()
        for connection in [*connections, writing]:
            connection.close()


async def _until_over(server: Server, listener: socket.socket, sentinel: int) -> bool:
    """Serve until a signal (True), or until the sealing process is gone (False)."""
    loop = asyncio.get_running_loop()
    reasons: list[bool] = []

    def end(asked: bool) -> None:
        loop.remove_reader(sentinel)
        reasons.append(asked)
        server.should_exit = True

    loop.add_reader(sentinel, end, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, True)
    await server.serve(sockets=[listener])
    return bool(reasons) and reasons[0]


def _configure_logging(config: NodeConfig) -> None:
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    log.setLevel(config.log_level.upper())
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
