"""What the worker was told: its part of the settings, as plain values with units."""

from __future__ import annotations

from dataclasses import dataclass, field

from chainmemory.anchoring.retry import RetryPolicy
from chainmemory.chain.fees import GWEI
from chainmemory.settings import Settings
from chainmemory.store.parts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a worker works."""

    memory_wait_s: float = 30.0
    """Longest wait before a memory is sent, in seconds."""
    state_wait_s: float = 600.0
    head_wait_s: float = 600.0
    confirmations: int = 6
    """Blocks, the one it is in included, before an anchor counts."""
    payload: bool = False
    """Whether a memory's ciphertext goes along (protocol §8)."""
    merkle: bool = False
    """Whether states go on chain as one root for many, instead of each by itself."""
    max_fee: int = 200 * GWEI
    """Cap in wei per unit of gas."""
    lease_s: float = 15.0
    poll_s: float = 0.25
    deploys: bool = False
    """Whether missing contracts are deployed (on the embedded chain) or waited for."""
    expected_chain_id: int | None = None
    anchor_address: str | None = None
    registry_address: str | None = None
    max_in_flight: int = 16
    """Transactions on their way at once; geth guarantees an account 16 places in its pool."""
    resend_s: float = 5.0
    """After how long an unmined transaction is handed to the node again, byte for byte."""
    stuck_s: float = 60.0
    """After how long, while blocks pass, an unmined transaction is replaced by a dearer one."""
    missing_s: float = 10.0
    """How long a used nonce may lack a receipt before the contract is asked instead."""
    part: Part = field(default_factory=Part)
    """Which share of the work is this worker's."""
    recheck_s: float = 10.0
    """How often chain id and contract code are looked at again."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    @classmethod
    def from_settings(cls, settings: Settings) -> Options:
        """Take the worker's part of the settings."""
        return cls(
            memory_wait_s=settings.memory_wait_s,
            state_wait_s=settings.state_wait_s,
            head_wait_s=settings.head_wait_s,
            confirmations=settings.confirmations_needed,
            payload=settings.payload_on_chain,
            merkle=settings.anchor_mode == "merkle",
            max_fee=int(settings.max_fee_gwei * GWEI),
            part=Part.of(settings.worker_part),
            lease_s=settings.lease_s,
            poll_s=settings.poll_s,
            deploys=settings.embedded,
            expected_chain_id=settings.chain_id if settings.embedded else settings.expected_chain_id,
            anchor_address=settings.anchor_address,
            registry_address=settings.registry_address,
            retry=RetryPolicy(cap_s=5.0 if settings.embedded else 60.0),
        )
