"""What the API sees of the chain: read from the node, bounded in time, remembered for a block."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from chainmemory.anchoring.setup import check_chain, known_deployment
from chainmemory.chain.anchor_contract import StateAnchors
from chainmemory.chain.deploy import check_code
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.reader import ChainReader
from chainmemory.chain.registry import MemoryRegistry
from chainmemory.chain.types import Block
from chainmemory.errors import ChainMemoryError, NotFound, Unavailable
from chainmemory.settings import Settings
from chainmemory.store.database import Database

T = TypeVar("T")

TIMEOUT_S: Final = 4.0
HEAD_FOR_S: Final = 0.5
CONTRACTS_FOR_S: Final = 10.0
SIGNERS_FOR_S: Final = 10.0
DOWN_FOR_S: Final = 1.0
"""After a failure the node isn't asked again for this long, so that a dead node doesn't hold up every
request."""
BLOCK_TIME_OVER: Final = 20


@dataclass(frozen=True)
class Contracts:
    """Where this deployment anchors, and what reads it; `first_block`: no event is earlier."""

    reader: ChainReader

    @property
    def chain_id(self) -> int:
        return self.reader.deployment.chain_id

    @property
    def anchors(self) -> StateAnchors:
        return self.reader.anchors

    @property
    def registry(self) -> MemoryRegistry:
        return self.reader.registry

    @property
    def first_block(self) -> int:
        return self.reader.deployment.first_block

    def addresses(self) -> dict[str, str]:
        """Return the address of each contract by its name."""
        return self.reader.deployment.addresses()


class ChainView:
    """Reads for the doors. Safe to share between threads.

    Every method raises Unavailable where the node doesn't answer, or answers for something that isn't ours.
    """

    def __init__(self, settings: Settings, db: Database, gateway: Gateway | None = None) -> None:
        """Read through `gateway`, by default one to the settings' node."""
        self._settings = settings
        self._db = db
        self._gateway = gateway or Gateway(settings.chain_url, timeout_s=TIMEOUT_S)
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, object]] = {}
        self._found: Contracts | None = None
        self._down: tuple[float, str] | None = None

    def head(self) -> Block:
        """Return the newest block, at most half a second old."""
        return self._keep("head", HEAD_FOR_S, self._gateway.head)

    def chain_id(self) -> int:
        """Return the chain's id."""
        return self._keep("chain_id", CONTRACTS_FOR_S, self._gateway.chain_id)

    def signers(self) -> list[str]:
        """Return the authorities that seal blocks; empty on chains without any."""
        return self._keep("signers", SIGNERS_FOR_S, self._gateway.signers)

    def block_time_s(self) -> float | None:
        """Return the mean seconds between the newest blocks; None on a chain too short to tell."""

        def measure() -> float | None:
            head = self._gateway.head()
            first = self._gateway.block(max(0, head.number - BLOCK_TIME_OVER))
            # The genesis block's time is no block's time.
            if first is None or first.number == 0 or first.number == head.number:
                return None
            return (head.timestamp - first.timestamp) / (head.number - first.number)

        return self._keep("block_time", SIGNERS_FOR_S, measure)

    def contracts(self) -> Contracts:
        """Return this deployment's contracts. Raises NotFound (`not_deployed`) where there are none yet."""
        return self._keep("contracts", CONTRACTS_FOR_S, self._find_contracts)

    def state_hashes(self, project_id: str, first: int, count: int) -> list[str]:
        """Return what the contract holds for `count` versions from `first` on, ZERO where nothing.

        One `eth_call`, and none where the newest block was asked already.
        """
        reader = self.contracts().reader
        return self._ask(lambda: reader.state_hashes_of(project_id, first, count))

    def root_is_anchored(self, root: str, block_number: int) -> bool:
        """Say whether the contract logged a Merkle root in this block."""
        reader = self.contracts().reader
        return self._ask(lambda: reader.root_is_anchored(root, block_number))

    def batch_root(self, account_id: str, first_recorded: int) -> str:
        """Return the root that the registry stores for a batch, ZERO where there is none."""
        reader = self.contracts().reader
        return self._ask(lambda: reader.batch_root(account_id, first_recorded))

    def recorded_hash(self, account_ref: str, number: int, *, from_block: int | None = None) -> str | None:
        """Return the event hash that the registry logged for a memory; None where it isn't recorded."""
        contracts = self.contracts()
        start = contracts.first_block if from_block is None else from_block
        found = self._ask(lambda: contracts.registry.find(account_ref, number, from_block=start))
        return found.event_hash if found is not None else None

    def _find_contracts(self) -> Contracts:
        chain_id = check_chain(self._gateway, self._settings.expected_chain_id)
        with self._db.read() as tx:
            deployment = known_deployment(
                tx,
                chain_id,
                anchor_address=self._settings.anchor_address,
                registry_address=self._settings.registry_address,
            )
        if deployment is None:
            raise NotFound(
                "The contracts aren't deployed on this chain yet; the worker does it at its start.",
                code="not_deployed",
            )
        if self._found is None or self._found.reader.deployment != deployment:
            for name, address in deployment.addresses().items():
                check_code(self._gateway, name, address)
            self._found = Contracts(ChainReader(self._gateway, deployment))
        return self._found

    def _keep(self, what: str, for_s: float, fetch: Callable[[], T]) -> T:
        now = time.monotonic()
        with self._lock:
            known = self._kept.get(what)
        if known is not None and now < known[0]:
            return known[1]  # type: ignore[return-value]
        value = self._ask(fetch)
        with self._lock:
            self._kept[what] = (time.monotonic() + for_s, value)
        return value

    def _ask(self, fetch: Callable[[], T]) -> T:
        down = self._down
        if down is not None and time.monotonic() < down[0]:
            raise Unavailable(down[1], code="chain_unavailable")
        try:
            value = fetch()
        except NotFound:
            raise
        except ChainMemoryError as error:
            # A wrong chain or contract is a ConfigurationError for the worker; for a reader the chain just
            # isn't there.
            self._down = (time.monotonic() + DOWN_FOR_S, error.message)
            raise Unavailable(error.message, code="chain_unavailable") from error
        self._down = None
        return value
