"""The chain, asked directly: plain JSON-RPC with calls encoded by hand.

It shares no code with the gateway, the worker or the API, so it can't share their mistakes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpx
from eth_hash.auto import keccak

from chainmemory.errors import IntegrityError, Unavailable
from chainmemory.logging import redact_url
from chainmemory.protocol.hashing import hex32, parse_hex32

TIMEOUT_S = 30.0
STATE_ANCHORED = "StateAnchored(uint64,bytes32,uint64,bytes32,uint64,address)"
ROOT_ANCHORED = "RootAnchored(bytes32,address,uint32,uint64)"
VERIFY_IN_ROOT = "verifyInRoot(bytes32,(bytes32,uint64,bytes32),uint256,uint256,bytes32[])"
MEMORY_RECORDED = (
    "MemoryRecorded(bytes32,uint64,bytes32)",
    "MemoryRecordedWithPayload(bytes32,uint64,bytes32,uint8,uint8,uint32,bytes)",
)


class Refused(Unavailable):
    """The node answers a question with an error, or not in time."""


@dataclass(frozen=True)
class Anchored:
    """A StateAnchored event, as a transaction's receipt holds it."""

    project_id: str
    version: int
    state_hash: str
    block_number: int


class Witness:
    """One chain, reached at an RPC address."""

    def __init__(self, rpc_url: str) -> None:
        self.place = redact_url(rpc_url)
        self._url = rpc_url
        self._http = httpx.Client(timeout=TIMEOUT_S, trust_env=False)
        self._ids = itertools.count(1)
        self._receipts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def chain_id(self) -> int:
        """Return the chain's id."""
        return _quantity(self._ask("eth_chainId"))

    def code_hash(self, address: str) -> str:
        """Return Keccak-256 of the code at `address` (hex32)."""
        return hex32(keccak(_bytes(self._ask("eth_getCode", address, "latest"))))

    def state_hash(self, contract: str, project_id: str, version: int) -> str:
        """Return what ProjectStateAnchor holds for a version (hex32, ZERO where nothing is)."""
        data = _selector("stateHashOf(bytes32,uint64)") + parse_hex32(project_id) + _word(version)
        answer = _bytes(self._ask("eth_call", {"to": contract, "data": "0x" + data.hex()}, "latest"))
        if len(answer) != 32:
            raise IntegrityError(
                f"{contract} on the chain at {self.place} isn't the anchor contract: "
                f"stateHashOf answered {len(answer)} bytes instead of 32."
            )
        return hex32(answer)

    def anchored(self, contract: str, tx_hash: str) -> list[Anchored]:
        """Return the StateAnchored events `contract` wrote in a transaction.

        Raises IntegrityError where the transaction isn't on this chain, or failed.
        """
        events = []
        for topics, data, block_number in self._logs(contract, tx_hash):
            if topics[0] == _topic(STATE_ANCHORED):
                state_hash = hex32(_bytes(data)[:32])
                events.append(Anchored(topics[2], int(topics[3], 16), state_hash, block_number))
        return events

    def roots(self, contract: str, tx_hash: str) -> set[str]:
        """Return the Merkle roots (hex32) that `contract` logged in a transaction. Raises as `anchored`."""
        logs = self._logs(contract, tx_hash)
        return {topics[1] for topics, _, _ in logs if topics[0] == _topic(ROOT_ANCHORED)}

    def in_root(
        self,
        contract: str,
        root: str,
        state: tuple[str, int, str],
        *,
        index: int,
        size: int,
        path: Sequence[str],
    ) -> bool:
        """Ask the contract whether a state (project id, version, state hash) is under a root."""
        project_id, version, state_hash = state
        words = [parse_hex32(root), parse_hex32(project_id), _word(version), parse_hex32(state_hash)]
        # The seventh word says where the path begins: behind these seven.
        words += [_word(index), _word(size), _word(7 * 32), _word(len(path))]
        data = _selector(VERIFY_IN_ROOT) + b"".join([*words, *(parse_hex32(step) for step in path)])
        answer = _bytes(self._ask("eth_call", {"to": contract, "data": "0x" + data.hex()}, "latest"))
        return answer == _word(1)

    def recorded(self, registry: str, tx_hash: str, account_ref: str, number: int) -> list[str]:
        """Return the event hashes a transaction logged in MemoryRegistry for a memory: one, if all is well.

        Raises IntegrityError where the transaction isn't on this chain, or failed.
        """
        wanted = {_topic(signature) for signature in MEMORY_RECORDED}
        return [
            topics[3]
            for topics, _, _ in self._logs(registry, tx_hash)
            if topics[0] in wanted and topics[1] == account_ref and int(topics[2], 16) == number
        ]

    def _logs(self, contract: str, tx_hash: str) -> list[tuple[list[str], str, int]]:
        """Return (topics, data, block number) of each event that `contract` wrote in a transaction."""
        receipt = self._receipts.get(tx_hash) or self._ask("eth_getTransactionReceipt", tx_hash)
        if not isinstance(receipt, dict):
            raise IntegrityError(f"The chain at {self.place} has no transaction {tx_hash}.")
        if _quantity(receipt.get("status")) != 1:
            raise IntegrityError(f"The transaction {tx_hash} failed on the chain at {self.place}.")
        self._receipts[tx_hash] = receipt
        block_number = _quantity(receipt["blockNumber"])
        return [
            (log["topics"], log["data"], block_number)
            for log in receipt["logs"]
            if log["address"].lower() == contract.lower() and log["topics"]
        ]

    def _ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": list(params)}
        try:
            answer = self._http.post(self._url, json=question).json()
        except httpx.ReadTimeout:
            raise Refused(f"The chain at {self.place} takes too long over {method}.") from None
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable(f"The chain at {self.place} can't be asked ({type(error).__name__}).") from None
        if not isinstance(answer, dict) or "result" not in answer:
            told = answer.get("error", {}) if isinstance(answer, dict) else {}
            message = str(told.get("message", "no result"))[:200] if isinstance(told, dict) else "no result"
            raise Refused(f"The chain at {self.place} refuses {method}: {message}")
        return answer["result"]


def _selector(signature: str) -> bytes:
    return keccak(signature.encode())[:4]


def _topic(signature: str) -> str:
    return hex32(keccak(signature.encode()))


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _bytes(text: Any) -> bytes:
    try:
        return bytes.fromhex(str(text).removeprefix("0x"))
    except ValueError:
        raise Unavailable("The chain's answer isn't hexadecimal.") from None


def _quantity(text: Any) -> int:
    try:
        return int(str(text), 16)
    except ValueError:
        raise Unavailable("The chain's answer isn't a number.") from None
