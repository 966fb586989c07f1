"""How the explorer's values look: shortened, grouped, stamped. Passed to its templates as `ui`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from eth_hash.auto import keccak

from chainmemory.engine.explorer.abi_values import Value
from chainmemory.engine.explorer.decode import Decoded, meaning
from chainmemory.engine.explorer.text import coins, gwei, readable
from chainmemory.engine.explorer.visit import When

ROWS: Final = 5
HUES: Final = 8
RAW_BYTES: Final = 1_024
"""Bytes of raw data shown on a page."""
_LINKED: Final = {
    "projectId": "project",
    "eventHash": "memory",
    "eventHashes": "memory",
}
_BRIEF: Final = {
    "version": "version",
    "number": "number",
    "seq": "entry",
    "firstRecorded": "from number",
    "projectId": "project",
    "ledgerId": "ledger",
    "eventHash": "memory",
    "root": "root",
}
_TYPES: Final = {0: "legacy", 1: "access list", 2: "dynamic fee (EIP-1559)", 3: "blob", 4: "set code"}


@dataclass(frozen=True, slots=True)
class Stamp:
    """A small picture of an address, mirrored like a face: the same address always looks the same."""

    hue: int
    cells: tuple[tuple[int, int], ...]


class Look:
    """Formatting for templates."""

    coins = staticmethod(coins)
    gwei = staticmethod(gwei)
    meaning = staticmethod(meaning)
    readable = staticmethod(readable)

    @staticmethod
    def short(value: str) -> str:
        """Shorten a hash or an address to its two ends."""
        return value if len(value) <= 16 else f"{value[:8]}…{value[-6:]}"

    @staticmethod
    def number(value: int) -> str:
        """Group thousands."""
        return f"{value:,}"

    @staticmethod
    def percent(part: int, whole: int) -> str:
        """Return a share in per cent, one decimal below ten."""
        share = 100 * part / whole if whole else 0.0
        return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"

    @staticmethod
    def iso(when: When) -> str:
        """Return a moment as the `datetime` attribute wants it."""
        return (when.moment or "").replace(" UTC", "Z").replace(" ", "T")

    @staticmethod
    def part(name: str) -> str:
        """Quote a name as one part of an address."""
        return quote(name, safe="")

    @staticmethod
    def kind(number: int) -> str:
        """Name a transaction type."""
        return _TYPES.get(number, f"type {number}")

    @staticmethod
    def stamp(address: str) -> Stamp:
        """Return the picture of an address."""
        digest = keccak(bytes.fromhex(address[2:]))
        columns = ROWS // 2 + 1
        left = [divmod(bit, columns) for bit in range(ROWS * columns) if digest[1 + bit // 8] >> bit % 8 & 1]
        cells = {(row, column) for row, column in left} | {(row, ROWS - 1 - column) for row, column in left}
        return Stamp(digest[0] % HUES, tuple(sorted(cells)))

    @staticmethod
    def brief(event: Decoded) -> list[tuple[str, str]]:
        """Return the few arguments that tell an event from its like: name and text."""
        plain = {value.name: value.text for value in event.values if value.text is not None}
        return [(_BRIEF[name], Look.short(text)) for name in _BRIEF if (text := plain.get(name))]

    @staticmethod
    def raw(data: bytes) -> str:
        """Return bytes in hex, in words of 32 bytes, as many as a page holds."""
        shown = data[:RAW_BYTES].hex()
        return "\n".join(shown[at : at + 64] for at in range(0, len(shown), 64))

    @staticmethod
    def raw_cut(data: bytes) -> int:
        """Return how many bytes `raw` leaves out."""
        return max(0, len(data) - RAW_BYTES)

    @staticmethod
    def link(value: Value, name: str) -> str | None:
        """Return the page of what a decoded value names; `name` is its own or its list's."""
        if value.text is None:
            return None
        if value.type == "address":
            return f"/explorer/address/{value.text}"
        page = _LINKED.get(name)
        return f"/explorer/{page}/{value.text}" if page and value.type == "bytes32" else None


UI: Final = Look()
