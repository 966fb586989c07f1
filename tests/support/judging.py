"""What the independent judges are given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chainmemory.node.export import Exported


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An exported chain, and what whoever imports it must find."""

    file: Path
    exported: Exported
    signers: list[str]
    state_root: str
    contract: str
    slot_42: str
    """The contract's storage at slot 42."""


def split_rlp(data: bytes) -> list[bytes]:
    """Cut a file of long RLP lists into the lists."""
    parts = []
    while data:
        size = data[0] - 0xF7
        length = 1 + size + int.from_bytes(data[1 : 1 + size], "big")
        parts.append(data[:length])
        data = data[length:]
    return parts
