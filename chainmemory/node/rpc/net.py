"""net_*, web3_*, rpc_* and txpool_*."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from chainmemory.node import pool
from chainmemory.node.evm import keccak
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.registry import METHODS, method
from chainmemory.node.rpc.shapes import hexed


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"


CLIENT = (
    f"ChainMemory/v{_version('chainmemory-engine')}/{platform.system().lower()}-{platform.machine()}/"
    f"py-evm-{_version('py-evm')}"
)


@method("web3_clientVersion")
def client_version(_context: Context) -> str:
    return CLIENT


@method("web3_sha3", params.data)
def sha3(_context: Context, value: bytes) -> str:
    return hexed(keccak(value))


@method("net_version")
def net_version(context: Context) -> str:
    return str(context.genesis.chain_id)


@method("net_listening")
def listening(_context: Context) -> bool:
    return True


@method("net_peerCount")
def peer_count(context: Context) -> str:
    return hex(len(context.config.peers))


@method("rpc_modules")
def modules(_context: Context) -> dict[str, str]:
    return {name.split("_")[0]: "1.0" for name in sorted(METHODS)}


@method("txpool_status")
def pool_status(context: Context) -> dict[str, Any]:
    senders: dict[bytes, list[int]] = {}
    for entry in pool.everything(context.connection):
        senders.setdefault(entry.sender, []).append(entry.nonce)
    state = context.chain.state_after(context.head)
    pending = 0
    for sender, nonces in senders.items():
        expected = state.get_nonce(sender)  # type: ignore[arg-type]
        for nonce in sorted(nonces):
            if nonce != expected:
                break
            expected, pending = expected + 1, pending + 1
    return {"pending": hex(pending), "queued": hex(sum(map(len, senders.values())) - pending)}
