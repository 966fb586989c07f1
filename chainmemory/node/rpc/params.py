"""Read JSON-RPC parameters strictly: hex with prefix, quantities without leading zeros, nothing guessed.

A parser takes a JSON value and returns what the method works with, or raises ParamError with geth's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_HEX = re.compile(r"[0-9a-fA-F]*")
TAGS = ("latest", "pending", "earliest", "safe", "finalized")
MAX_INT64 = 2**63 - 1


class ParamError(ValueError):
    """The value isn't what the method takes; the message has no position yet."""


Parser = Callable[[Any], Any]


@dataclass(frozen=True)
class BlockRef:
    """A block as the caller names it: exactly one of the three is set."""

    tag: str | None = None
    number: int | None = None
    hash: bytes | None = None
    require_canonical: bool = False


def _cannot(detail: str, go_type: str) -> ParamError:
    return ParamError(f"json: cannot unmarshal {detail} into Go value of type {go_type}")


def _digits(value: Any, go_type: str) -> str:
    if not isinstance(value, str):
        raise _cannot("non-string", go_type)
    if not value:
        raise _cannot("empty hex string", go_type)
    if not value.startswith(("0x", "0X")):
        raise _cannot("hex string without 0x prefix", go_type)
    digits = value[2:]
    if not _HEX.fullmatch(digits):
        raise _cannot("invalid hex string", go_type)
    return digits


def data(value: Any, go_type: str = "hexutil.Bytes") -> bytes:
    """Read bytes: an even number of hex digits, "0x" for none."""
    digits = _digits(value, go_type)
    if len(digits) % 2:
        raise _cannot("hex string of odd length", go_type)
    return bytes.fromhex(digits)


def _fixed(value: Any, size: int, go_type: str) -> bytes:
    digits = _digits(value, go_type)
    if len(digits) % 2:
        raise _cannot("hex string of odd length", go_type)
    if len(digits) != size * 2:
        raise ParamError(f"hex string has length {len(digits)}, want {size * 2} for {go_type}")
    return bytes.fromhex(digits)


def address(value: Any) -> bytes:
    """Read a 20 byte address, in any case."""
    return _fixed(value, 20, "common.Address")


def hash32(value: Any) -> bytes:
    """Read a 32 byte hash."""
    return _fixed(value, 32, "common.Hash")


def _number(digits: str, bits: int) -> int:
    if not digits:
        raise ParamError('hex string "0x"')
    if len(digits) > 1 and digits[0] == "0":
        raise ParamError("hex number with leading zero digits")
    if len(digits) > bits // 4:
        raise ParamError(f"hex number > {bits} bits")
    return int(digits, 16)


def _quantity(value: Any, bits: int, go_type: str) -> int:
    digits = _digits(value, go_type)
    try:
        return _number(digits, bits)
    except ParamError as error:
        raise _cannot(str(error), go_type) from None


def quantity64(value: Any) -> int:
    """Read a number below 2^64: hex without leading zeros."""
    return _quantity(value, 64, "hexutil.Uint64")


def index(value: Any) -> int:
    """Read a position in a block."""
    return _quantity(value, 64, "hexutil.Uint")


def quantity256(value: Any) -> int:
    """Read a number below 2^256: hex without leading zeros."""
    return _quantity(value, 256, "hexutil.Big")


def count(value: Any) -> int:
    """Read a number given as hex or, as some clients do, as a JSON number."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INT64:
        return value
    return quantity64(value)


def boolean(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise _cannot("non-boolean", "bool")
    return value


def storage_key(value: Any) -> bytes:
    """Read a storage slot: hex of at most 32 bytes, leading zeros allowed or missing."""
    digits = value[2:] if isinstance(value, str) and value[:2] in ("0x", "0X") else value
    if not isinstance(digits, str) or not _HEX.fullmatch(digits):
        raise ParamError("unable to decode storage key: hex string invalid")
    if len(digits) > 64:
        raise ParamError("unable to decode storage key: hex string too long, want at most 32 bytes")
    return bytes.fromhex(digits.zfill(64))


@dataclass(frozen=True)
class ProofKey:
    """A storage slot to prove, and how the answer names it: as geth does, in full only if given in full."""

    slot: bytes
    name: str


def proof_key(value: Any) -> ProofKey:
    """Read a storage slot for a proof."""
    slot = storage_key(value)
    whole = len(value.removeprefix("0x").removeprefix("0X")) == 64
    return ProofKey(slot, "0x" + slot.hex() if whole else hex(int.from_bytes(slot, "big")))


def block_number(value: Any) -> BlockRef:
    """Read a block number or tag."""
    if isinstance(value, str):
        value = value.strip('"')
        if value in TAGS:
            return BlockRef(tag=value)
        if not value:
            raise ParamError("empty hex string")
        if not value.startswith(("0x", "0X")):
            raise ParamError("hex string without 0x prefix")
        if not _HEX.fullmatch(value[2:]):
            raise ParamError("invalid hex string")
        number = _number(value[2:], 64)
        if number > MAX_INT64:
            raise ParamError("block number larger than int64")
        return BlockRef(number=number)
    raise ParamError("hex string without 0x prefix")


def block(value: Any) -> BlockRef:
    """Read a block number, tag or hash, or EIP-1898's object."""
    if isinstance(value, dict):
        by_hash, by_number = value.get("blockHash"), value.get("blockNumber")
        if by_hash is not None and by_number is not None:
            raise ParamError("cannot specify both BlockHash and BlockNumber, choose one or the other")
        if by_hash is not None:
            return BlockRef(hash=hash32(by_hash), require_canonical=value.get("requireCanonical") is True)
        if by_number is not None:
            return block_number(by_number)
        raise ParamError("invalid arguments; neither block nor hash specified")
    if isinstance(value, str) and len(value) == 66:
        return BlockRef(hash=hash32(value))
    return block_number(value)


def transaction_object(value: Any) -> dict[str, Any]:
    """Read a call's JSON object; its members are read by the call."""
    if not isinstance(value, dict):
        raise _cannot("non-object", "ethapi.TransactionArgs")
    return value


def json_object(value: Any) -> dict[str, Any]:
    """Read any JSON object."""
    if not isinstance(value, dict):
        raise _cannot("non-object", "map")
    return value


def list_of(parser: Parser, most: int) -> Parser:
    """Return a parser of lists of at most `most` elements."""

    def parse(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _cannot("non-array", "slice")
        if len(value) > most:
            raise ParamError(f"at most {most} elements are allowed")
        return [parser(item) for item in value]

    return parse


def number_list(value: Any) -> list[float]:
    """Read a list of JSON numbers."""
    if not isinstance(value, list) or len(value) > 100:
        raise _cannot("non-array", "[]float64")
    if any(isinstance(item, bool) or not isinstance(item, (int, float)) for item in value):
        raise _cannot("non-number", "float64")
    return [float(item) for item in value]
