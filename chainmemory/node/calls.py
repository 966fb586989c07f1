"""Run a message against a past state without writing anything: eth_call, eth_estimateGas, access lists."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from eth_utils.address import to_checksum_address

from chainmemory.node.chain import CliqueChain
from chainmemory.node.evm import (
    Address,
    BlockHeaderAPI,
    ComputationAPI,
    GasMeter,
    LondonComputation,
    OutOfGas,
    SignedTransactionAPI,
    SpoofTransaction,
    StateAPI,
    UnsignedDynamicFeeTransaction,
    allow_negative_refund_strategy,
    blake2b_fcompress,
    ecpairing,
)
from chainmemory.node.formats import base_fee_of
from chainmemory.node.vm import CliqueState

TIME_LIMIT = 5.0
"""Seconds one call may compute, as in geth."""

_CHECK_EVERY = 256
_PAIRING = b"\x08".rjust(20, b"\0")
_SECONDS_PER_PAIR = 0.35
"""What a pairing costs in pure Python, about; it can't be interrupted, so it is refused beforehand."""
_BLAKE2B = b"\x09".rjust(20, b"\0")
_SECONDS_PER_ROUND = 2e-5
"""The same for a round of BLAKE2b, which costs one gas."""

_CALL_STIPEND_ROOM = (64, 63)


class CallTimeout(Exception):
    """The call computed for longer than `TIME_LIMIT`."""


class CallRefused(Exception):
    """The call can't even start; the message says why, in geth's words."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """What to run; prices of None mean that gas is free."""

    sender: bytes = bytes(20)
    to: bytes = b""
    """Empty to create a contract."""
    gas: int
    value: int = 0
    data: bytes = b""
    max_fee: int | None = None
    tip: int | None = None
    access_list: tuple[tuple[bytes, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class AccountOverride:
    """What a call pretends about an account; None leaves a field as it is."""

    balance: int | None = None
    nonce: int | None = None
    code: bytes | None = None
    storage: dict[int, int] = field(default_factory=dict)
    whole_storage: bool = False
    """`storage` replaces everything the account has, instead of single slots."""


class _Meter(GasMeter):
    """A gas meter that looks at the clock now and then."""

    deadline = float("inf")
    _until_check = _CHECK_EVERY

    def consume_gas(self, amount: int, reason: str) -> None:
        super().consume_gas(amount, reason)
        self._until_check -= 1
        if self._until_check <= 0:
            self._until_check = _CHECK_EVERY
            if time.monotonic() > self.deadline:
                raise CallTimeout


class _CallComputation(LondonComputation):
    """London's computation, bounded in time."""

    def _configure_gas_meter(self) -> GasMeter:
        meter = _Meter(self.msg.gas, allow_negative_refund_strategy)
        meter.deadline = getattr(self.state, "deadline", float("inf"))
        if time.monotonic() > meter.deadline:
            raise CallTimeout
        return meter

    @property
    def precompiles(self) -> dict[Address, Callable[[ComputationAPI], Any]]:
        """Return the precompiled contracts, those that can run for minutes with a bound on their time."""
        return {
            **super().precompiles,
            Address(_PAIRING): _bounded_pairing,
            Address(_BLAKE2B): _bounded_blake2b,
        }


def _bounded_pairing(computation: ComputationAPI) -> ComputationAPI:
    _refuse_beyond(computation, len(computation.msg.data_as_bytes) // 192 * _SECONDS_PER_PAIR)
    return cast(ComputationAPI, ecpairing(computation))


def _bounded_blake2b(computation: ComputationAPI) -> ComputationAPI:
    rounds = int.from_bytes(computation.msg.data_as_bytes[:4], "big")
    if rounds <= computation.get_gas_remaining():  # one gas a round; else it fails at once
        _refuse_beyond(computation, rounds * _SECONDS_PER_ROUND)
    return blake2b_fcompress(computation)


def _refuse_beyond(computation: ComputationAPI, seconds: float) -> None:
    if seconds > getattr(computation.state, "deadline", float("inf")) - time.monotonic():
        raise CallTimeout


class CallState(CliqueState):
    """A state in which anybody may send from any account, with any nonce."""

    computation_class = _CallComputation
    deadline = float("inf")

    def validate_transaction(self, transaction: SignedTransactionAPI) -> None:
        """Check the money only (CallRefused)."""
        sender, supplied = to_checksum_address(transaction.sender), f"(supplied gas {transaction.gas})"
        base_fee = self.execution_context.base_fee_per_gas or 0
        if transaction.max_fee_per_gas and transaction.max_fee_per_gas < base_fee:
            raise CallRefused(
                f"err: max fee per gas less than block base fee: address {sender}, maxFeePerGas: "
                f"{transaction.max_fee_per_gas}, baseFee: {base_fee} {supplied}"
            )
        have = self.get_balance(transaction.sender)
        want = transaction.gas * transaction.max_fee_per_gas + transaction.value
        if have < want:
            raise CallRefused(
                f"err: insufficient funds for gas * price + value: address {sender} have {have} "
                f"want {want} {supplied}"
            )


@dataclass(frozen=True)
class Caller:
    """Runs messages in the context of one block."""

    chain: CliqueChain
    header: BlockHeaderAPI
    pending: bool = False
    overrides: dict[bytes, AccountOverride] = field(default_factory=dict)
    deadline: float = field(default_factory=lambda: time.monotonic() + TIME_LIMIT)

    def run(self, message: Message) -> ComputationAPI:
        """Run a message; the result may be an error of the contract's.

        Raises CallRefused when it can't start, CallTimeout when it takes too long.
        """
        state = self._state(message)
        transaction = self._transaction(state, message)
        if message.gas < transaction.intrinsic_gas:
            raise CallRefused(
                f"err: intrinsic gas too low: have {message.gas}, want {transaction.intrinsic_gas} "
                f"(supplied gas {message.gas})"
            )
        return state.apply_transaction(transaction)

    def estimate(self, message: Message) -> int:
        """Return the least gas limit with which the message succeeds, never more than `message.gas`.

        Raises the contract's VMError where no limit helps, CallRefused where the limit is too low.
        """
        computation = self.run(message)
        if computation.is_error:
            if isinstance(computation.error, OutOfGas):
                raise CallRefused(f"gas required exceeds allowance ({message.gas})")
            raise computation.error
        used = message.gas - computation.get_gas_remaining()
        low = max(used - computation.get_gas_refund(), self._intrinsic(message)) - 1
        high = message.gas
        # Most calls need what they used, or 1/63 more when they call on; so try that first.
        for guess in (max(used, low + 1), used * _CALL_STIPEND_ROOM[0] // _CALL_STIPEND_ROOM[1] + 2_400):
            if low < guess < high:
                low, high = (low, guess) if self._succeeds(message, guess) else (guess, high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._succeeds(message, middle) else (middle, high)
        return high

    def _succeeds(self, message: Message, gas: int) -> bool:
        try:
            return not self.run(replace(message, gas=gas)).is_error
        except CallRefused:
            return False

    def _intrinsic(self, message: Message) -> int:
        return self._transaction(self._state(message), message).intrinsic_gas

    def _state(self, message: Message) -> StateAPI:
        free = not message.max_fee
        state = self.chain.state_after(
            self.header,
            base_fee=0 if free else base_fee_of(self.header),
            pending=self.pending,
            state_class=CallState,
        )
        assert isinstance(state, CallState)
        state.deadline = self.deadline
        for address, override in self.overrides.items():
            _apply(state, Address(address), override)
        return state

    def _transaction(self, state: StateAPI, message: Message) -> SignedTransactionAPI:
        sender = Address(message.sender)
        unsigned = UnsignedDynamicFeeTransaction(
            self.chain.chain_id,
            state.get_nonce(sender),
            message.tip or 0,
            message.max_fee or 0,
            message.gas,
            message.to,
            message.value,
            message.data,
            message.access_list,
        )
        transaction: Any = SpoofTransaction(unsigned, from_=sender)
        return transaction  # type: ignore[no-any-return]


def _apply(state: StateAPI, address: Address, override: AccountOverride) -> None:
    if override.balance is not None:
        state.set_balance(address, override.balance)
    if override.nonce is not None:
        state.set_nonce(address, override.nonce)
    if override.code is not None:
        state.set_code(address, override.code)
    if override.whole_storage:
        state.delete_storage(address)
    for slot, value in override.storage.items():
        state.set_storage(address, slot, value)
