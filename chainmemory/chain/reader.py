"""Reading the witness, never the database: what the contracts hold, for whoever verifies (api.md, verify)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from chainmemory.chain.anchor_contract import ProjectOnChain, StateAnchors
from chainmemory.chain.deploy import Deployment
from chainmemory.chain.failures import ChainUnavailable
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.registry import MemoryOnChain, MemoryRegistry
from chainmemory.chain.types import Block
from chainmemory.protocol.identity import account_ref, ledger_id

T = TypeVar("T")
# How long a head is taken for the newest one, and a node that failed is left alone: far below a block's time,
# long enough that a burst of requests asks once.
HEAD_S = 0.25
REST_S = 1.0
# Answers kept for one block; more are for a flood of different questions.
KEPT = 4_096


@dataclass(frozen=True, slots=True)
class ChainInfo:
    """What `/v1/chain` says of the chain itself; `signers` is empty on chains without authorities."""

    chain_id: int
    head: Block
    signers: tuple[str, ...]
    client: str
    contracts: dict[str, str]


class ChainReader:
    """Reads one deployment's contracts at the newest block; every answer is kept until there is a newer one.

    Threads may share it. Every method raises ChainUnavailable where the node doesn't answer, at once for a
    second after it didn't, and CodeMismatch where no such contract lies at the address.
    """

    def __init__(self, gateway: Gateway, deployment: Deployment) -> None:
        self.gateway = gateway
        self.deployment = deployment
        self.anchors = StateAnchors(gateway, deployment.anchors.address)
        self.registry = MemoryRegistry(gateway, deployment.registry.address)
        self._lock = threading.Lock()
        self._head: Block | None = None
        self._head_at = float("-inf")
        self._failed: ChainUnavailable | None = None
        self._failed_at = float("-inf")
        self._answers: dict[tuple[Any, ...], Any] = {}

    def head(self) -> Block:
        """Return the newest block, at most a quarter of a second old."""
        return self._moment()[0]

    # -- states -----------------------------------------------------------------------------------

    def state_hashes_of(self, project_id: str, first: int, count: int) -> list[str]:
        """Return what the contract holds for `count` versions from `first` on (ZERO where nothing).

        One `eth_call` for each 256 versions, and none where this block was asked already.
        """
        return self._kept(
            ("states", project_id, first, count),
            lambda head: self.anchors.state_hashes_of(project_id, first, count, block=head.number),
        )

    def project_of(self, project_id: str) -> ProjectOnChain:
        """Return a project's first and latest version on the contract; zeros where it has none."""
        return self._kept(
            ("project", project_id), lambda head: self.anchors.project_of(project_id, block=head.number)
        )

    def root_is_anchored(self, root: str, block_number: int) -> bool:
        """Say whether a Merkle root (hex32) was anchored in this block."""
        return self._kept(
            ("anchored root", root, block_number),
            lambda _: self.anchors.root_log(root, from_block=block_number, to_block=block_number) is not None,
        )

    # -- ledgers ----------------------------------------------------------------------------------

    def head_of(self, account_id: str, seq: int) -> str:
        """Return the ledger entry hash anchored at a place, 64 hex digits; all zeros where none is."""
        ledger = ledger_id(account_id)
        return self._kept(
            ("head", ledger, seq), lambda head: self.anchors.head_of(ledger, seq, block=head.number)
        ).removeprefix("0x")

    def latest_head(self, account_id: str) -> tuple[int, str]:
        """Return an account's latest anchored ledger head: seq, and hash in 64 hex digits; or (0, zeros)."""
        ledger = ledger_id(account_id)
        seq, entry_hash = self._kept(
            ("latest head", ledger), lambda head: self.anchors.latest_head(ledger, block=head.number)
        )
        return seq, entry_hash.removeprefix("0x")

    # -- memories ---------------------------------------------------------------------------------

    def memory(self, event_hash: str) -> MemoryOnChain | None:
        """Find a memory on chain by its event hash; None where it isn't recorded."""
        return self._kept(
            ("memory", event_hash),
            lambda _: self.registry.find_hash(event_hash, from_block=self.deployment.first_block),
        )

    def batch_root(self, account_id: str, first_recorded: int) -> str:
        """Return the root of the batch with this first recorded number (an anchored memory's `anchor_id`)."""
        reference = account_ref(account_id)
        return self._kept(
            ("root", reference, first_recorded),
            lambda head: self.registry.root_of(reference, first_recorded, block=head.number),
        )

    # -- the chain --------------------------------------------------------------------------------

    def info(self) -> ChainInfo:
        """Return the chain's id, head, authorities and client, and the contracts."""

        def ask(head: Block) -> ChainInfo:
            return ChainInfo(
                self.gateway.chain_id(),
                head,
                tuple(self.gateway.signers()),
                self.gateway.client_version(),
                self.deployment.addresses(),
            )

        return self._kept(("info",), ask)

    def confirmations(self, block_number: int) -> int:
        """Return how many blocks vouch for one at this height, itself included; 0 above the head."""
        return max(0, self.head().number - block_number + 1)

    # -- underneath -------------------------------------------------------------------------------

    def _kept(self, question: tuple[Any, ...], ask: Callable[[Block], T]) -> T:
        """Answer from what this block was asked already, else ask.

        Two threads may ask the same at once; that costs a call and harms nothing.
        """
        head, answers = self._moment()
        if question in answers:
            return cast(T, answers[question])
        answer = ask(head)
        if len(answers) >= KEPT:
            answers.clear()
        answers[question] = answer
        return answer

    def _moment(self) -> tuple[Block, dict[tuple[Any, ...], Any]]:
        """Return the newest block, and what was answered at it."""
        with self._lock:
            now = time.monotonic()
            if self._failed is not None and now - self._failed_at < REST_S:
                raise ChainUnavailable(self._failed.message)
            if self._head is not None and now - self._head_at < HEAD_S:
                return self._head, self._answers
            try:
                head = self.gateway.head()
            except ChainUnavailable as error:
                self._failed, self._failed_at = error, time.monotonic()
                raise
            if self._head is None or head.hash != self._head.hash:
                self._answers = {}
            self._head, self._head_at, self._failed = head, time.monotonic(), None
            return head, self._answers
