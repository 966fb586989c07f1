"""What to do about an error: wait how long, with which reason, or stop. Decisions are values. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from chainmemory.errors import ChainMemoryError, ConfigurationError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Waits double from `first_s` up to `cap_s`, in seconds."""

    first_s: float = 0.5
    cap_s: float = 60.0

    def wait(self, failures: int) -> float:
        """Return how long to wait after that many failures in a row (1 for the first)."""
        doublings = min(max(failures, 1) - 1, 32)
        return min(self.first_s * float(2**doublings), self.cap_s)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after `wait_s`; `reason` tells a person why."""

    wait_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Only a person can put it right; `reason` says what to do."""

    reason: str


def decide(error: ChainMemoryError, failures: int, policy: RetryPolicy) -> Retry | Stop:
    """Say what an error means for the worker after that many failures in a row.

    A wrong chain, wrong code and other wrong settings stop it; whatever lies with the node, the fees or the
    funds may pass, and is waited for.
    """
    if isinstance(error, ConfigurationError):
        return Stop(error.message)
    return Retry(policy.wait(failures), error.message)
