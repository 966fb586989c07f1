"""What to pay for a transaction: legacy or EIP-1559, under a cap, and to replace a stuck one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chainmemory.chain.types import FeeMarket
from chainmemory.errors import Unavailable

GWEI = 10**9
# geth, anvil and Nethermind ask 10 % more of a replacement; one eighth is above that with rounding to spare.
BUMP_DIVISOR = 8


class FeesTooHigh(Unavailable):
    """The chain asks more than the cap; the fee may fall again, so this is retried."""

    code = "fees_too_high"


@dataclass(frozen=True, slots=True)
class Fees:
    """The price of one transaction, in wei per unit of gas; `tip` is None for a legacy transaction."""

    max_fee: int
    tip: int | None

    @property
    def legacy(self) -> bool:
        return self.tip is None

    def fields(self) -> dict[str, int]:
        """Return the transaction's fee fields (EIP-155 `gasPrice`, or those of EIP-1559)."""
        if self.tip is None:
            return {"gasPrice": self.max_fee}
        return {"maxFeePerGas": self.max_fee, "maxPriorityFeePerGas": self.tip}

    def to_json(self) -> dict[str, Any]:
        return {"max_fee": str(self.max_fee), "tip": None if self.tip is None else str(self.tip)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Fees:
        return cls(int(value["max_fee"]), None if value["tip"] is None else int(value["tip"]))


@dataclass(frozen=True, slots=True)
class FeePolicy:
    """Prices transactions, up to `cap` wei per unit of gas."""

    cap: int

    def quote(self, market: FeeMarket) -> Fees:
        """Price a new transaction.

        With EIP-1559 the maximum leaves room for the base fee to double (six full blocks in a row).
        Raises FeesTooHigh where the cap doesn't even cover the next block.
        """
        if market.base_fee is None:
            self._check(market.gas_price)
            return Fees(market.gas_price, None)
        self._check(market.base_fee + market.tip)
        return Fees(min(2 * market.base_fee + market.tip, self.cap), market.tip)

    def bump(self, old: Fees, market: FeeMarket) -> Fees:
        """Price the replacement of a transaction that got stuck: an eighth more, and at least today's quote.

        Raises FeesTooHigh where the cap is reached; then the old one goes on waiting.
        """
        max_fee, tip = _eighth_more(old.max_fee), None if old.tip is None else _eighth_more(old.tip)
        self._check(max_fee)
        fresh = self.quote(market)
        if tip is None:
            return Fees(max(max_fee, fresh.max_fee), None)
        return Fees(max(max_fee, fresh.max_fee), max(tip, fresh.tip or 0))

    def _check(self, asked: int) -> None:
        if asked > self.cap:
            raise FeesTooHigh(
                f"The chain asks {_gwei(asked)} gwei per unit of gas and the cap is {_gwei(self.cap)} "
                "(max_fee_gwei); waiting for it to fall."
            )


def _eighth_more(amount: int) -> int:
    return amount + amount // BUMP_DIVISOR + 1


def _gwei(wei: int) -> str:
    return f"{wei / GWEI:.9f}".rstrip("0").rstrip(".")
