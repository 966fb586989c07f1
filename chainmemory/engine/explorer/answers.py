"""A node's JSON answers as plain values; what can't be understood is refused, whatever it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eth_utils.address import to_checksum_address

from chainmemory.chain.types import Log
from chainmemory.errors import Unavailable

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_DATA: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)


class Garbled(Unavailable):
    """The node answered something that can't be what was asked for."""

    code = "chain_garbled"


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction as the node tells it; block and index are None while it waits."""

    hash: str
    sender: str
    to: str | None
    value: int
    nonce: int
    gas: int
    gas_price: int | None
    max_fee: int | None
    tip: int | None
    type: int
    data: bytes
    block_number: int | None
    block_hash: str | None
    index: int | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a transaction; `succeeded` is None before Byzantium, where no receipt says."""

    tx_hash: str
    succeeded: bool | None
    gas_used: int
    gas_price: int | None
    created: str | None
    block_number: int
    logs: tuple[Log, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A block; `transactions` are there where they were asked for, `header` is the node's own object."""

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    miner: str
    difficulty: int
    gas_limit: int
    gas_used: int
    base_fee: int | None
    size: int | None
    extra: bytes
    state_root: str
    transactions_root: str
    receipts_root: str
    transaction_hashes: tuple[str, ...]
    transactions: tuple[Transaction, ...]
    header: Mapping[str, Any]


def read_block(answer: Any) -> Block:
    """Understand a JSON-RPC block. Raises Garbled."""
    header = _object(answer)
    listed = header.get("transactions")
    entries = listed if isinstance(listed, list) else []
    transactions = tuple(read_transaction(entry) for entry in entries if isinstance(entry, Mapping))
    return Block(
        number=read_quantity(header.get("number")),
        hash=_hash(header.get("hash")),
        parent_hash=_hash(header.get("parentHash")),
        timestamp=read_quantity(header.get("timestamp")),
        miner=read_address(header.get("miner")),
        difficulty=_maybe(header.get("difficulty")) or 0,
        gas_limit=read_quantity(header.get("gasLimit")),
        gas_used=read_quantity(header.get("gasUsed")),
        base_fee=_maybe(header.get("baseFeePerGas")),
        size=_maybe(header.get("size")),
        extra=read_data(header.get("extraData")),
        state_root=_hash(header.get("stateRoot")),
        transactions_root=_hash(header.get("transactionsRoot")),
        receipts_root=_hash(header.get("receiptsRoot")),
        transaction_hashes=tuple(_hash(entry) for entry in entries if not isinstance(entry, Mapping))
        or tuple(transaction.hash for transaction in transactions),
        transactions=transactions,
        header={name: value for name, value in header.items() if name != "transactions"},
    )


def read_transaction(answer: Any) -> Transaction:
    """Understand a JSON-RPC transaction of any type, a rollup's own ones too. Raises Garbled."""
    entry = _object(answer)
    to = entry.get("to")
    block_hash = entry.get("blockHash")
    return Transaction(
        hash=_hash(entry.get("hash")),
        sender=read_address(entry.get("from")),
        to=None if to is None else read_address(to),
        value=read_quantity(entry.get("value")),
        nonce=read_quantity(entry.get("nonce")),
        gas=read_quantity(entry.get("gas")),
        gas_price=_maybe(entry.get("gasPrice")),
        max_fee=_maybe(entry.get("maxFeePerGas")),
        tip=_maybe(entry.get("maxPriorityFeePerGas")),
        type=_maybe(entry.get("type")) or 0,
        data=read_data(entry.get("input", entry.get("data", "0x"))),
        block_number=_maybe(entry.get("blockNumber")),
        block_hash=None if block_hash is None else _hash(block_hash),
        index=_maybe(entry.get("transactionIndex")),
    )


def read_receipt(answer: Any) -> Receipt:
    """Understand a JSON-RPC receipt. Raises Garbled."""
    entry = _object(answer)
    status, created, logs = _maybe(entry.get("status")), entry.get("contractAddress"), entry.get("logs")
    return Receipt(
        tx_hash=_hash(entry.get("transactionHash")),
        succeeded=None if status is None else status == 1,
        gas_used=read_quantity(entry.get("gasUsed")),
        gas_price=_maybe(entry.get("effectiveGasPrice")),
        created=None if created is None else read_address(created),
        block_number=read_quantity(entry.get("blockNumber")),
        logs=tuple(read_log(log) for log in logs) if isinstance(logs, list) else (),
    )


def read_log(answer: Any) -> Log:
    """Understand a JSON-RPC log. Raises Garbled."""
    entry = _object(answer)
    topics = entry.get("topics")
    return Log(
        address=read_address(entry.get("address")),
        topics=tuple(_hash(topic) for topic in topics) if isinstance(topics, list) else (),
        data=read_data(entry.get("data")),
        block_number=read_quantity(entry.get("blockNumber")),
        block_hash=_hash(entry.get("blockHash")),
        tx_hash=_hash(entry.get("transactionHash")),
        index=read_quantity(entry.get("logIndex")),
    )


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        raise Garbled("The node's answer is no object.")
    return answer


def read_quantity(value: Any) -> int:
    """Understand a number of at most 256 bits. Raises Garbled."""
    if not isinstance(value, str) or _QUANTITY.fullmatch(value) is None:
        raise Garbled("The node's answer has no number where one belongs.")
    return int(value, 16)


def _maybe(value: Any) -> int | None:
    return None if value is None else read_quantity(value)


def read_data(value: Any) -> bytes:
    """Understand bytes in hex. Raises Garbled."""
    if not isinstance(value, str) or _DATA.fullmatch(value) is None:
        raise Garbled("The node's answer has no bytes where they belong.")
    return bytes.fromhex(value[2:])


def _hash(value: Any) -> str:
    return "0x" + _sized(value, 32).hex()


def read_address(value: Any) -> str:
    """Understand an address; return it checksummed. Raises Garbled."""
    return str(to_checksum_address(_sized(value, 20)))


def _sized(value: Any, size: int) -> bytes:
    raw = read_data(value)
    if len(raw) != size:
        raise Garbled(f"The node's answer has {len(raw)} bytes where {size} belong.")
    return raw
