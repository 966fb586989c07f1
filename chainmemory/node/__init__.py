"""The embedded proof-of-authority chain: Clique (EIP-225) on py-evm over SQLite, served as JSON-RPC.

Importing this package is cheap; py-evm is loaded only when a node runs.
"""

from __future__ import annotations

import socket

from chainmemory.node.config import DEFAULT_CHAIN_ID, NodeConfig

__all__ = ["DEFAULT_CHAIN_ID", "NodeConfig", "run_node"]


def run_node(config: NodeConfig, *, sock: socket.socket | None = None) -> None:
    """Run a node until SIGTERM or SIGINT.

    Serves JSON-RPC at `http://host:port/` and seals blocks where it holds an authority's key. Everything it
    accepted survives SIGKILL: the next start goes on from there. `sock` is a listening socket to serve on,
    opened by a supervisor; then `host` and `port` open none.

    Raises ConfigurationError when the folder is in use, belongs to another chain, or the key can't be read;
    ChainMemoryError when the sealing process died (a supervisor then starts the node again).
    """
    from chainmemory.node.run import run

    run(config, sock)
