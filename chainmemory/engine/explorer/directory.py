"""Which addresses are contracts we can read, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chainmemory.chain.artifacts import load_artifact
from chainmemory.chain.failures import ChainUnavailable
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.decode import CONTRACTS, Decoded, contracts_with_event, decode_event
from chainmemory.engine.explorer.reader import Reader

MAX_CODES = 8
"""Addresses whose code is read for one page."""


@dataclass(frozen=True, slots=True)
class Known:
    """A contract of ours: of this deployment, or of another one with exactly the same code."""

    contract: str
    ours: bool

    @property
    def title(self) -> str:
        return self.contract if self.ours else f"{self.contract} of another deployment"


class Directory:
    """Names addresses for one page; an event or call counts as ours only where the code is."""

    def __init__(self, reader: Reader, deployed: Mapping[str, str]) -> None:
        self._reader = reader
        self._deployed = {address.lower(): name for name, address in deployed.items()}
        self._others: dict[str, Known | None] = {}

    def named(self, address: str | None) -> Known | None:
        """Return what is known of an address without asking the node."""
        if address is None:
            return None
        name = self._deployed.get(address.lower())
        return Known(name, ours=True) if name is not None else self._others.get(address.lower())

    def identify(self, address: str | None) -> Known | None:
        """Return what is known of an address, comparing its code with the compiled contracts'."""
        if address is None or self.named(address) is not None:
            return self.named(address)
        if address.lower() not in self._others and len(self._others) < MAX_CODES:
            self._others[address.lower()] = self._by_code(address)
        return self._others.get(address.lower())

    def events(self, logs: Iterable[Log]) -> list[tuple[Log, Known | None, Decoded | None]]:
        """Decode what our contracts logged; a stranger's log of the same form stays raw."""
        told = []
        for log in logs:
            known = self.identify(log.address) if contracts_with_event(log) else self.named(log.address)
            told.append((log, known, decode_event(known.contract, log) if known else None))
        return told

    def _by_code(self, address: str) -> Known | None:
        try:
            code = self._reader.code(address)
        except ChainUnavailable:
            return None
        for name in CONTRACTS:
            if code == load_artifact(name).deployed_bytecode:
                return Known(name, ours=False)
        return None
