"""Calls run straight on py-evm's state, for tests that need thousands of them.

The same contracts, deployed through eth-tester; then no transactions, signatures or blocks: each call is one
EVM message, many times faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eth.vm.message import Message
from eth_abi.abi import decode, encode
from eth_utils.abi import function_abi_to_4byte_selector, get_abi_input_types, get_abi_output_types
from eth_utils.address import to_canonical_address
from web3.contract import Contract

from tests.support.evm import GAS, Evm, decode_event


@dataclass(frozen=True)
class Done:
    """What a call did: `ok` is False where it reverted, and then nothing else is."""

    ok: bool
    answer: Any = None
    events: tuple[tuple[Any, ...], ...] = ()


class DirectContract:
    """One contract on a state of its own, with an admin, a submitter and a stranger as in `Evm`."""

    def __init__(self, name: str) -> None:
        evm = Evm()
        self.admin, self.submitter, self.stranger = evm.admin, evm.submitter, evm.stranger
        self._contract: Contract = {"ProjectStateAnchor": evm.anchors, "MemoryRegistry": evm.registry}[name]
        self._address = to_canonical_address(self._contract.address)
        self._state = evm.tester.backend.chain.get_vm().state
        self._code = self._state.get_code(self._address)
        self._functions = {
            item["name"]: (
                function_abi_to_4byte_selector(item),
                get_abi_input_types(item),
                get_abi_output_types(item),
            )
            for item in self._contract.abi
            if item["type"] == "function"
        }

    def run(self, function: str, *args: Any, sender: str | None = None) -> Done:
        """Call a function, from the submitter unless said otherwise, and keep its effects."""
        selector, inputs, outputs = self._functions[function]
        origin = to_canonical_address(sender or self.submitter)
        message = Message(
            gas=GAS,
            to=self._address,
            sender=origin,
            value=0,
            data=selector + encode(inputs, args),
            code=self._code,
        )
        context = self._state.get_transaction_context_class()(gas_price=1, origin=origin)
        done = self._state.computation_class.apply_message(self._state, message, context)
        if done.is_error:
            return Done(ok=False)
        answer = decode(outputs, done.output)
        events = tuple(
            decode_event(self._contract, [topic.to_bytes(32, "big") for topic in topics], data)
            for _, topics, data in done.get_log_entries()
        )
        return Done(True, answer[0] if len(answer) == 1 else answer, events)

    def read(self, function: str, *args: Any) -> Any:
        """Call a view; it must not revert."""
        done = self.run(function, *args)
        assert done.ok, function
        return done.answer

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo on leaving whatever happens inside."""
        snapshot = self._state.snapshot()
        try:
            yield
        finally:
            self._state.revert(snapshot)
