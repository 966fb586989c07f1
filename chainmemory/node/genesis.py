"""The first block's content, read and written as geth's genesis.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eth_utils.address import to_canonical_address, to_checksum_address

from chainmemory.errors import ConfigurationError

VANITY = b"chainmemory".ljust(32, b"\0")
SEAL_BYTES = 65
FUNDS = 10**27
"""Wei for each address in `alloc`: gas on this chain is a bound on work, not a price."""

BASE_FEE = 1_000_000_000
MINIMUM_GAS_LIMIT = 5_000

_FORKS = (
    "homesteadBlock",
    "eip150Block",
    "eip155Block",
    "eip158Block",
    "byzantiumBlock",
    "constantinopleBlock",
    "petersburgBlock",
    "istanbulBlock",
    "berlinBlock",
    "londonBlock",
)


@dataclass(frozen=True, kw_only=True)
class Genesis:
    """What all nodes of one chain must agree on; all forks up to London hold from block 0."""

    chain_id: int
    signers: tuple[bytes, ...]
    """Sorted addresses, 20 bytes each."""
    balances: tuple[tuple[bytes, int], ...]
    """(address, wei), sorted by address."""
    timestamp: int
    period: int
    epoch: int
    gas_limit: int
    base_fee: int = BASE_FEE
    vanity: bytes = VANITY

    @property
    def extra_data(self) -> bytes:
        return self.vanity + b"".join(self.signers) + bytes(SEAL_BYTES)

    def to_geth(self) -> dict[str, Any]:
        """Return the genesis as geth's `geth init` reads it."""
        return {
            "config": {
                "chainId": self.chain_id,
                **dict.fromkeys(_FORKS, 0),
                "clique": {"period": self.period, "epoch": self.epoch},
            },
            "nonce": "0x0",
            "timestamp": hex(self.timestamp),
            "extraData": "0x" + self.extra_data.hex(),
            "gasLimit": hex(self.gas_limit),
            "difficulty": "0x1",
            "mixHash": "0x" + "00" * 32,
            "coinbase": "0x" + "00" * 20,
            "alloc": {address.hex(): {"balance": hex(wei)} for address, wei in self.balances},
            "baseFeePerGas": hex(self.base_fee),
        }

    def dump(self) -> str:
        """Return the text of genesis.json."""
        return json.dumps(self.to_geth(), indent=2) + "\n"


def new_genesis(
    *,
    signers: Iterable[str | bytes],
    alloc: Iterable[str | bytes],
    chain_id: int,
    period: int,
    epoch: int,
    gas_limit: int,
    timestamp: int,
) -> Genesis:
    """Build a genesis that lets `signers` seal and gives every address in `alloc` plenty of wei.

    Addresses are 20 bytes or hex. Raises ConfigurationError for an address that isn't one, or no signer.
    """
    addresses = sorted({_address(signer) for signer in signers})
    if not addresses:
        raise ConfigurationError("A chain needs at least one signer.")
    return Genesis(
        chain_id=chain_id,
        signers=tuple(addresses),
        balances=tuple((address, FUNDS) for address in sorted({_address(item) for item in alloc})),
        timestamp=timestamp,
        period=period,
        epoch=epoch,
        gas_limit=gas_limit,
    )


def load_genesis(text: str | bytes) -> Genesis:
    """Read a geth genesis.json.

    Raises ConfigurationError when it isn't one, isn't Clique, or asks for rules this node doesn't have.
    """
    try:
        return _from_geth(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"This is not a Clique genesis.json: {error!r}.") from None


def read_genesis(path: Path) -> Genesis:
    """Read the genesis.json at `path` (ConfigurationError when it can't be read)."""
    try:
        return load_genesis(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"The genesis file {path} can't be read: {error.strerror}.") from None


def _from_geth(document: dict[str, Any]) -> Genesis:
    config = document["config"]
    missing = [fork for fork in _FORKS if config.get(fork) != 0]
    later = [name for name in config if name.endswith("Time") and config[name] is not None]
    if missing or later:
        raise ConfigurationError(
            f"This node follows London's rules from block 0; the genesis says otherwise in {missing + later}."
        )
    extra = bytes.fromhex(document["extraData"].removeprefix("0x"))
    signer_bytes = extra[32:-SEAL_BYTES]
    if len(extra) < 32 + SEAL_BYTES or len(signer_bytes) % 20 or not signer_bytes or any(extra[-SEAL_BYTES:]):
        raise ValueError("extraData must be 32 bytes, the signers, and 65 zero bytes")
    signers = tuple(signer_bytes[i : i + 20] for i in range(0, len(signer_bytes), 20))
    if list(signers) != sorted(set(signers)):
        raise ValueError("the signers in extraData must be sorted and different")
    balances = []
    for address, account in document.get("alloc", {}).items():
        if set(account) - {"balance"}:
            raise ConfigurationError("Only balances can be set at genesis; no code, storage or nonces.")
        balances.append((_address(address), _integer(account["balance"])))
    for name, only in (("difficulty", 1), ("nonce", 0), ("number", 0), ("gasUsed", 0)):
        if _integer(document.get(name) or only) != only:
            raise ValueError(f"{name} must be {only}")
    for name in ("mixHash", "coinbase", "parentHash"):
        if int(document.get(name) or "0x0", 16):
            raise ValueError(f"{name} must be zero")
    genesis = Genesis(
        chain_id=_integer(config["chainId"]),
        signers=signers,
        balances=tuple(sorted(balances)),
        timestamp=_integer(document["timestamp"]),
        period=_integer(config["clique"]["period"]),
        epoch=_integer(config["clique"]["epoch"]),
        gas_limit=_integer(document["gasLimit"]),
        base_fee=_integer(document.get("baseFeePerGas", BASE_FEE)),
        vanity=extra[:32],
    )
    if genesis.period < 1 or genesis.epoch < 2 or genesis.gas_limit < MINIMUM_GAS_LIMIT:
        raise ValueError("period must be at least 1, epoch at least 2, gasLimit at least 5000")
    return genesis


def _address(value: str | bytes) -> bytes:
    try:
        if isinstance(value, bytes):
            return bytes(to_canonical_address(value))
        text = value if value.startswith("0x") else "0x" + value
        if (
            text[2:] != text[2:].lower()
            and text[2:] != text[2:].upper()
            and to_checksum_address(text) != text
        ):
            raise ValueError("checksum")
        return bytes(to_canonical_address(text))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{value!r} is not an Ethereum address ({error}).") from None


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{value!r} is not a number")
    return value if isinstance(value, int) else int(value, 0)
