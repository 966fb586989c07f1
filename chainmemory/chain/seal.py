"""Who sealed a Clique block: recovered from its header with rlp and eth_keys alone, no node believed.

Pure. A header is a JSON-RPC block object, as `eth_getBlockByNumber` answers it. Sources: EIP-225; the order
of a header's fields from the Yellow Paper (§4.4), EIP-1559, EIP-4895, EIP-4844, EIP-4788 and EIP-7685.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import rlp  # type: ignore[import-untyped]
from eth_hash.auto import keccak
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.address import to_checksum_address
from eth_utils.exceptions import ValidationError

from chainmemory.errors import IntegrityError, Invalid

VANITY_BYTES: Final = 32
SEAL_BYTES: Final = 65
ADDRESS_BYTES: Final = 20
DROP: Final = bytes(8)
AUTHORIZE: Final = b"\xff" * 8
OUT_OF_TURN, IN_TURN = 1, 2

_NO_UNCLES: Final = keccak(rlp.encode([]))
_FIXED: Final = (
    "parentHash",
    "sha3Uncles",
    "miner",
    "stateRoot",
    "transactionsRoot",
    "receiptsRoot",
    "logsBloom",
)
_COUNTED: Final = ("difficulty", "number", "gasLimit", "gasUsed", "timestamp")
# Fields that later forks appended, in their order; True marks a number.
_LATER: Final = (
    ("baseFeePerGas", True),
    ("withdrawalsRoot", False),
    ("blobGasUsed", True),
    ("excessBlobGas", True),
    ("parentBeaconBlockRoot", False),
    ("requestsHash", False),
)
_EXTRA_AT: Final = len(_FIXED) + len(_COUNTED)
_HEX: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)


class NotClique(Invalid):
    """The header isn't one that Clique makes, so there is no seal to recover."""

    code = "not_clique"


@dataclass(frozen=True, slots=True)
class Vote:
    """A signer's wish, carried by the block it sealed: take an address in, or put it out."""

    candidate: str
    authorize: bool


@dataclass(frozen=True, slots=True)
class Seal:
    """What a Clique header says about consensus; addresses are checksummed."""

    signer: str | None
    """Recovered from the seal; None for the genesis block, which nobody seals."""
    in_turn: bool
    vanity: bytes
    listed: tuple[str, ...]
    """The signers a checkpoint block lists, in its order; empty in any other block."""
    vote: Vote | None


def header_hash(header: Mapping[str, Any]) -> str:
    """Recompute a block's hash from its header's fields (hex32).

    Raises Invalid where a field is missing or is no hex.
    """
    return "0x" + keccak(rlp.encode(_fields(header))).hex()


def read_seal(header: Mapping[str, Any]) -> Seal:
    """Recover who sealed a block, after checking that the header is the one its hash names.

    Whether that signer was allowed to is for the caller to compare with the signers after the parent block.
    Raises NotClique where the header isn't in Clique's form; IntegrityError where the fields don't give the
    block's hash or the seal is no signature; Invalid where a field is missing or is no hex.
    """
    extra, nonce = _check_clique(header)
    fields = _fields(header)
    if keccak(rlp.encode(fields)) != _bytes(header, "hash"):
        raise IntegrityError("The header's fields don't give the hash that the node says the block has.")
    number, listed = _number(header, "number"), extra[VANITY_BYTES:-SEAL_BYTES]
    candidate = _bytes(header, "miner")
    return Seal(
        signer=_recover(fields, extra) if number else None,
        in_turn=_number(header, "difficulty") == IN_TURN,
        vanity=extra[:VANITY_BYTES],
        listed=tuple(
            _address(listed[at : at + ADDRESS_BYTES]) for at in range(0, len(listed), ADDRESS_BYTES)
        ),
        vote=Vote(_address(candidate), nonce == AUTHORIZE) if number and any(candidate) else None,
    )


def turn_of(number: int, signers: Sequence[str]) -> str | None:
    """Return whose turn a block is, of the signers after its parent; None where there are none."""
    in_order = sorted(signers, key=str.lower)
    return in_order[number % len(in_order)] if in_order else None


def _recover(fields: list[bytes], extra: bytes) -> str:
    """Recover the signer of `fields`, whose extra data ends in the seal."""
    unsealed = [*fields[:_EXTRA_AT], extra[:-SEAL_BYTES], *fields[_EXTRA_AT + 1 :]]
    try:
        signature = Signature(extra[-SEAL_BYTES:])
        key = signature.recover_public_key_from_msg_hash(keccak(rlp.encode(unsealed)))
    except (BadSignature, ValidationError, ValueError):
        raise IntegrityError("The seal in the block's extra data is no signature.") from None
    return _address(key.to_canonical_address())


def _check_clique(header: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return extra data and nonce of a header in Clique's form. Raises NotClique."""
    extra, nonce = _bytes(header, "extraData"), _bytes(header, "nonce")
    listed = len(extra) - VANITY_BYTES - SEAL_BYTES
    turn = _number(header, "difficulty")
    in_form = (
        listed >= 0
        and listed % ADDRESS_BYTES == 0
        and nonce in (DROP, AUTHORIZE)
        and not any(_bytes(header, "mixHash"))
        and _bytes(header, "sha3Uncles") == _NO_UNCLES
        and (turn in (OUT_OF_TURN, IN_TURN) or _number(header, "number") == 0)
    )
    if not in_form:
        raise NotClique("This block's header isn't in the form that Clique (EIP-225) gives it.")
    return extra, nonce


def _fields(header: Mapping[str, Any]) -> list[bytes]:
    """Return a header as the list whose RLP is hashed."""
    fields = [_bytes(header, name) for name in _FIXED]
    fields += [_minimal(_number(header, name)) for name in _COUNTED]
    fields += [_bytes(header, name) for name in ("extraData", "mixHash", "nonce")]
    later = [(name, counted) for name, counted in _LATER if header.get(name) is not None]
    fields += [
        _minimal(_number(header, name)) if counted else _bytes(header, name) for name, counted in later
    ]
    return fields


def _bytes(header: Mapping[str, Any], name: str) -> bytes:
    value = header.get(name)
    if not isinstance(value, str) or _HEX.fullmatch(value) is None:
        raise Invalid(f"The header's {name} is missing or is no hex.", field=name)
    return bytes.fromhex(value[2:])


def _number(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name)
    if not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        raise Invalid(f"The header's {name} is missing or is no number in hex.", field=name)
    return int(value, 16)


def _minimal(number: int) -> bytes:
    """Write a number as RLP has it: big-endian without leading zeros."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _address(raw: bytes) -> str:
    return str(to_checksum_address(raw[-ADDRESS_BYTES:]))
