"""Upper bounds of the gas our transactions use, so that no `eth_estimateGas` (30 ms and more) is needed.

Measured on the committed contracts under London to Prague rules, rounded up; a test holds them against real
receipts. What isn't used isn't paid, but a bound reserves room in a block, so they are tight.
"""

from __future__ import annotations

TX_BASE = 21_000
# EIP-7623's least price of a non-zero byte of calldata; without it a byte costs 16, and 8 more in a log.
CALLDATA_BYTE = 40

STATES_BASE = 28_000
"""anchorBatch beside its items: access check, array overhead, the anchor counter's first slot."""
STATE_FIRST = 50_500
"""A project's first version on the contract: two fresh slots, an event, 96 bytes of calldata."""
STATE_NEXT = 33_500
"""Any later version: one fresh slot."""

ROOT = 9_000
"""anchorRoot beside the base, whatever is under it: access check, one event, 68 bytes of calldata."""

HEADS_BASE = 6_000
HEAD = 50_500
"""A ledger's head; a later one costs less, but the sender needn't know which it is."""

MEMORIES_BASE = 8_000
MEMORY_RUN = 52_000
"""One run of consecutive numbers: the first word of bits, the root's slot and event, its calldata."""
MEMORY_WORD = 23_000
"""Each further word of 256 bits that a run touches."""
MEMORY = 3_100
"""One memory: an event and 32 bytes of calldata."""
PAYLOAD = 5_000
"""A payload beside its bytes: a longer event, seven words of calldata."""
PAYLOAD_BYTE = CALLDATA_BYTE + 2

# Calldata sizes, for the limit that nodes put on a transaction's bytes (geth: 128 KiB).
STATE_BYTES = 96
MEMORY_RUN_BYTES = 288
MEMORY_BYTES = 32
PAYLOAD_BYTES = 256


def memory_gas(payload_bytes: int | None) -> int:
    """Bound one memory's share; `payload_bytes` is its ciphertext's length, None without payload."""
    return MEMORY if payload_bytes is None else MEMORY + PAYLOAD + PAYLOAD_BYTE * payload_bytes


def memory_size(payload_bytes: int | None) -> int:
    """Bound one memory's calldata in bytes."""
    return MEMORY_BYTES if payload_bytes is None else MEMORY_BYTES + PAYLOAD_BYTES + payload_bytes


def run_gas(first_number: int, count: int) -> int:
    """Bound what a run of consecutive memories costs beside the memories themselves."""
    words = (first_number + count - 1 >> 8) - (first_number >> 8)
    return MEMORY_RUN + MEMORY_WORD * words
