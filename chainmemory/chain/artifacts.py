"""The compiled contracts: what `contracts/artifacts` holds, as values.

An installed wheel carries them beside this module; a checkout has them where the compiler writes them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eth_hash.auto import keccak

from chainmemory.errors import ConfigurationError

STATE_ANCHOR = "ProjectStateAnchor"
MEMORY_REGISTRY = "MemoryRegistry"

PACKAGED = Path(__file__).parent / "compiled"
CHECKOUT = Path(__file__).parents[2] / "contracts" / "artifacts"


@dataclass(frozen=True)
class Artifact:
    """One contract as compiled."""

    name: str
    abi: list[dict[str, Any]]
    bytecode: bytes
    """What a deploying transaction sends, before the constructor's arguments."""
    deployed_bytecode: bytes
    """What `eth_getCode` answers once it is deployed; no contract here has immutables or libraries."""
    compiler: str

    @property
    def code_hash(self) -> str:
        """Keccak-256 of the deployed code, as `eth_getProof` gives it (hex32)."""
        return "0x" + keccak(self.deployed_bytecode).hex()


@cache
def load_artifact(name: str) -> Artifact:
    """Load a compiled contract by its name, `ProjectStateAnchor` or `MemoryRegistry`.

    Raises ConfigurationError where the installation lacks it.
    """
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    try:
        kept = json.loads((folder / f"{name}.json").read_bytes())
    except FileNotFoundError as error:
        raise ConfigurationError(f"This installation has no compiled contract named {name}.") from error
    return Artifact(
        name=kept["contractName"],
        abi=kept["abi"],
        bytecode=bytes.fromhex(kept["bytecode"].removeprefix("0x")),
        deployed_bytecode=bytes.fromhex(kept["deployedBytecode"].removeprefix("0x")),
        compiler=kept["compiler"],
    )
