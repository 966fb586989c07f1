"""What a node tells us, as plain values: hashes as hex32 strings, addresses checksummed, amounts in wei."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """A block's header, as far as anchoring needs it."""

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    """Unix seconds."""
    gas_limit: int
    base_fee: int | None
    """None before London and on chains without EIP-1559."""


@dataclass(frozen=True, slots=True)
class Log:
    """One event as the chain stores it."""

    address: str
    topics: tuple[str, ...]
    data: bytes
    block_number: int
    block_hash: str
    tx_hash: str
    index: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a transaction that is in a block."""

    tx_hash: str
    succeeded: bool
    block_number: int
    block_hash: str
    gas_used: int
    contract_address: str | None
    logs: tuple[Log, ...]


@dataclass(frozen=True, slots=True)
class FeeMarket:
    """What the chain asks for gas at this moment, in wei per unit."""

    base_fee: int | None
    """Of the newest block; None where the chain has no EIP-1559."""
    tip: int
    gas_price: int
