"""A London chain in this process (eth-tester on py-evm) for testing the contracts.

London, because that is what the embedded chain runs: what passes here needs no later instruction.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from eth.vm.forks import LondonVM
from eth_abi.abi import decode
from eth_tester import EthereumTester, PyEVMBackend
from eth_tester.exceptions import TransactionFailed
from eth_utils.abi import event_abi_to_log_topic, function_abi_to_4byte_selector
from eth_utils.address import to_checksum_address
from web3 import EthereumTesterProvider, Web3
from web3.contract import Contract
from web3.contract.contract import ContractFunction
from web3.types import TxReceipt

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact

GAS = 28_000_000
ZERO = bytes(32)


class Evm:
    """Both contracts on a chain of their own, with an admin, a submitter and a stranger."""

    def __init__(self) -> None:
        self.tester = EthereumTester(PyEVMBackend(vm_configuration=((0, LondonVM),)))
        self.web3 = Web3(EthereumTesterProvider(self.tester))
        self.admin, self.submitter, self.stranger, self.other = self.web3.eth.accounts[:4]
        self.anchors, self.anchors_deployed = self.deploy(STATE_ANCHOR, self.admin, self.submitter)
        self.registry, self.registry_deployed = self.deploy(MEMORY_REGISTRY, self.admin, self.submitter)

    def deploy(self, name: str, admin: str, submitter: str) -> tuple[Contract, TxReceipt]:
        """Deploy a contract by its name; return it and the receipt."""
        artifact = load_artifact(name)
        factory = self.web3.eth.contract(abi=artifact.abi, bytecode=artifact.bytecode)
        sent = factory.constructor(admin, submitter).transact({"from": self.admin, "gas": GAS})
        receipt = self.web3.eth.get_transaction_receipt(sent)
        assert receipt["status"] == 1, name
        return self.web3.eth.contract(address=receipt["contractAddress"], abi=artifact.abi), receipt

    def send(self, call: ContractFunction, sender: str | None = None) -> TxReceipt:
        """Send a transaction (from the submitter unless said otherwise), which must succeed."""
        receipt = self.attempt(call, sender)
        assert receipt["status"] == 1, call
        return receipt

    def attempt(self, call: ContractFunction, sender: str | None = None) -> TxReceipt:
        """Send a transaction whether or not it can succeed."""
        sent = call.transact({"from": sender or self.submitter, "gas": GAS})
        return self.web3.eth.get_transaction_receipt(sent)

    def simulate(self, call: ContractFunction, sender: str | None = None) -> Any:
        """What a call would return, changing nothing."""
        return call.call({"from": sender or self.submitter, "gas": GAS})

    def refusal(self, call: ContractFunction, sender: str | None = None) -> tuple[Any, ...]:
        """The custom error a call reverts with: its name, then its arguments. Its transaction fails too."""
        try:
            self.simulate(call, sender)
        except TransactionFailed as error:
            assert self.attempt(call, sender)["status"] == 0
            text = str(error.args[0]).removeprefix("execution reverted: ")
            return _error(call, ast.literal_eval(text))
        raise AssertionError(f"{call} was not refused")

    def events(self, contract: Contract, receipt: TxReceipt) -> list[tuple[Any, ...]]:
        """A contract's events in a receipt, in order: each its name, then its arguments as declared."""
        assert {log["address"] for log in receipt["logs"]} <= {contract.address}
        logs = receipt["logs"]
        return [decode_event(contract, [bytes(t) for t in log["topics"]], bytes(log["data"])) for log in logs]

    def now(self, receipt: TxReceipt) -> int:
        """The timestamp of a receipt's block."""
        return int(self.web3.eth.get_block(receipt["blockNumber"])["timestamp"])

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo on leaving whatever happens inside."""
        snapshot = self.tester.take_snapshot()
        try:
            yield
        finally:
            self.tester.revert_to_snapshot(snapshot)


def hash_of(*parts: Any) -> bytes:
    """A hash that is none of a real thing: keccak-256 of the parts' text."""
    return bytes(Web3.keccak(text=repr(parts)))


def decode_event(contract: Contract, topics: Sequence[bytes], data: bytes) -> tuple[Any, ...]:
    """An event's name, then its arguments as declared; addresses in checksum form."""
    (kind,) = (
        item for item in contract.abi if item["type"] == "event" and event_abi_to_log_topic(item) == topics[0]
    )
    plain = iter(decode([given["type"] for given in kind["inputs"] if not given["indexed"]], data))
    indexed = iter(topics[1:])
    args = [
        decode([given["type"]], next(indexed))[0] if given["indexed"] else next(plain)
        for given in kind["inputs"]
    ]
    return (
        kind["name"],
        *(
            to_checksum_address(value) if given["type"] == "address" else value
            for given, value in zip(kind["inputs"], args, strict=True)
        ),
    )


@cache
def _event_kinds(contract: Contract) -> dict[bytes, Any]:
    return {event_abi_to_log_topic(item): item for item in contract.abi if item["type"] == "event"}


def _error(call: ContractFunction, data: bytes) -> tuple[Any, ...]:
    for item in call.contract_abi:
        if item["type"] == "error":
            selector = function_abi_to_4byte_selector({**item, "type": "function"})
            if selector == data[:4]:
                return (item["name"], *decode([given["type"] for given in item["inputs"]], data[4:]))
    raise AssertionError(f"no custom error of this contract: {data.hex()}")
