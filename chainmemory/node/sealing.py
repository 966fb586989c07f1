"""The sealing process: the authority's loop with the threads that follow the peers.

It shares nothing with the RPC process but the chain's file and a socket: a byte means that something may have
changed (a transaction, a vote), the socket's end means that the RPC process is gone, and then so is this one.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading

from eth_keys.datatypes import PrivateKey

from chainmemory.node.authority import Authority
from chainmemory.node.blocks import BlockStore
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.genesis import Genesis
from chainmemory.node.peers import Peer
from chainmemory.node.sealer import Sealer

STOP = b"q"
WAKE = b"w"


def run_authority(
    config: NodeConfig, genesis: Genesis, key: PrivateKey | None, control: socket.socket
) -> None:
    """Be the sealing process, until `control` says stop or ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the RPC process decides, and says so through `control`
    random.seed()
    connection = open_connection(config.database_path, cache_mib=16)
    store = BlockStore(connection, genesis)
    sealer = Sealer(store, key) if key is not None else None
    authority = Authority(store, sealer, empty_blocks=config.empty_blocks)
    threading.Thread(target=_listen, args=(control, authority), name="control", daemon=True).start()
    for url in config.peers:
        Peer(url, authority.events.put, genesis, config).start()
    try:
        authority.run()
    finally:
        connection.close()


def _listen(control: socket.socket, authority: Authority) -> None:
    while True:
        try:
            received = control.recv(4096)
        except OSError:
            received = b""
        if not received:
            os._exit(1)  # the RPC process was killed: leave nothing half done, exactly as a crash of our own
        if STOP in received:
            authority.stopping = True
        authority.wake()
