"""What a reader may type: block numbers, hashes, addresses, names; anything else names nothing."""

from __future__ import annotations

import re
from typing import Final

from eth_utils.address import to_checksum_address

from chainmemory.engine.explorer.reader import MAX_NUMBER
from chainmemory.errors import Invalid
from chainmemory.protocol.identity import check_slug

MAX_QUERY: Final = 200
"""Characters of a search that are looked at."""

_DIGITS: Final = re.compile(r"[0-9]{1,19}|[0-9]{1,3}(?:,[0-9]{3}){1,6}", re.ASCII)
_HASH: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})", re.ASCII)
_ADDRESS: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{40})", re.ASCII)


def number(text: str) -> int | None:
    """Read a block number in decimal, with or without separators between thousands; None for another text."""
    if _DIGITS.fullmatch(text) is None:
        return None
    read = int(text.replace(",", ""))
    return read if read <= MAX_NUMBER else None


def hash32(text: str) -> str | None:
    """Read a 32-byte hash with or without 0x, in any case, as hex32."""
    found = _HASH.fullmatch(text)
    return "0x" + found[1].lower() if found else None


def address(text: str) -> str | None:
    """Read an address with or without 0x, in any case, checksummed. (A wrong checksum is forgiven.)"""
    found = _ADDRESS.fullmatch(text)
    return str(to_checksum_address("0x" + found[1].lower())) if found else None


def project(text: str) -> str | None:
    """Read a project's public name or id, forgiving capitals."""
    found = hash32(text)
    if found is not None:
        return found
    try:
        return check_slug(text.lower())
    except Invalid:
        return None
