"""Domain-separated SHA3-256 and the text form of hashes (protocol §1)."""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Final

from chainmemory.errors import Invalid

ZERO: Final = "0x" + "0" * 64
"""The hex32 that stands for "nothing": no evidence, no version before."""

_HEX32: Final = re.compile(r"0x[0-9a-f]{64}")


def tagged_hash(tag: str, data: bytes) -> bytes:
    """Hash `data` in the domain named by the ASCII `tag`: SHA3-256(tag ‖ 0x00 ‖ data), 32 bytes."""
    digest = _domain(tag).copy()
    digest.update(data)
    return digest.digest()


@functools.cache
def _domain(tag: str) -> hashlib._Hash:
    return hashlib.sha3_256(tag.encode("ascii") + b"\x00")


def sha256(data: bytes) -> bytes:
    """Hash with plain SHA-256, 32 bytes."""
    return hashlib.sha256(data).digest()


def hex32(value: bytes) -> str:
    """Write 32 bytes as `0x` + 64 lower-case hex digits; ValueError on another length."""
    if len(value) != 32:
        raise ValueError(f"a hex32 has 32 bytes, not {len(value)}")
    return "0x" + value.hex()


def parse_hex32(text: str) -> bytes:
    """Read a hex32 back into its 32 bytes.

    Raises: Invalid for any other form (upper case, no `0x`, another length).
    """
    if not isinstance(text, str) or not _HEX32.fullmatch(text):
        raise Invalid("a hash must be 0x followed by 64 lower-case hex digits")
    return bytes.fromhex(text[2:])
