"""A contract's ABI as Python calls: encode a call, decode its answer, decode an event (by eth-abi)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from chainmemory.chain.artifacts import load_artifact
from chainmemory.chain.failures import CodeMismatch
from chainmemory.chain.types import Log


@dataclass(frozen=True, slots=True)
class Event:
    """One decoded event: the log it came from, its name, and its arguments by name (bytes32 as hex32)."""

    name: str
    args: dict[str, Any]
    log: Log


@dataclass(frozen=True, slots=True)
class _Function:
    selector: bytes
    inputs: list[str]
    outputs: list[str]


@dataclass(frozen=True, slots=True)
class _EventType:
    name: str
    indexed: list[tuple[str, str]]
    plain: list[tuple[str, str]]


@cache
def abi_of(name: str) -> Abi:
    """Return a compiled contract's ABI by its name."""
    return Abi(load_artifact(name).abi)


class Abi:
    """The functions, events and errors of one contract."""

    def __init__(self, abi: Sequence[dict[str, Any]]) -> None:
        from eth_utils.abi import event_abi_to_log_topic, function_abi_to_4byte_selector

        self._functions: dict[str, _Function] = {}
        self._events: dict[str, _EventType] = {}
        self._errors: dict[bytes, str] = {}
        self._topics: dict[str, str] = {}
        self._constructor: list[str] = []
        for item in abi:
            match item["type"]:
                case "function":
                    self._functions[item["name"]] = _Function(
                        function_abi_to_4byte_selector(item),  # type: ignore[arg-type]
                        [_type(given) for given in item["inputs"]],
                        [_type(given) for given in item["outputs"]],
                    )
                case "event":
                    topic = "0x" + event_abi_to_log_topic(item).hex()  # type: ignore[arg-type]
                    self._topics[item["name"]] = topic
                    named = [(given["name"], _type(given), given["indexed"]) for given in item["inputs"]]
                    self._events[topic] = _EventType(
                        item["name"],
                        [(name, kind) for name, kind, indexed in named if indexed],
                        [(name, kind) for name, kind, indexed in named if not indexed],
                    )
                case "error":
                    selector = function_abi_to_4byte_selector({**item, "type": "function"})  # type: ignore[arg-type]
                    self._errors[selector] = item["name"]
                case "constructor":
                    self._constructor = [_type(given) for given in item["inputs"]]

    def encode(self, function: str, *args: Any) -> bytes:
        """Return the calldata of a call."""
        from eth_abi.abi import encode

        known = self._functions[function]
        return known.selector + encode(known.inputs, args)

    def encode_constructor(self, *args: Any) -> bytes:
        """Return the constructor's arguments, to follow the creation code."""
        from eth_abi.abi import encode

        return encode(self._constructor, args)

    def decode(self, function: str, answer: bytes) -> tuple[Any, ...]:
        """Decode a call's answer. Raises CodeMismatch where it isn't one (an empty address says nothing)."""
        from eth_abi.abi import decode
        from eth_abi.exceptions import DecodingError

        try:
            return decode(self._functions[function].outputs, answer)
        except DecodingError:
            raise CodeMismatch(
                f"The contract answered {function} with {len(answer)} bytes that aren't its answer: "
                "another contract, or none, lies at this address."
            ) from None

    def topic(self, event: str) -> str:
        """Return an event's first topic."""
        return self._topics[event]

    def event(self, log: Log) -> Event | None:
        """Decode a log; None where it's none of this contract's events."""
        from eth_abi.abi import decode

        kind = self._events.get(log.topics[0]) if log.topics else None
        if kind is None or len(log.topics) != len(kind.indexed) + 1:
            return None
        args: dict[str, Any] = {}
        for (name, solidity_type), topic in zip(kind.indexed, log.topics[1:], strict=True):
            args[name] = _plain(solidity_type, decode([solidity_type], bytes.fromhex(topic[2:]))[0])
        values = decode([solidity_type for _, solidity_type in kind.plain], log.data)
        for (name, solidity_type), value in zip(kind.plain, values, strict=True):
            args[name] = _plain(solidity_type, value)
        return Event(kind.name, args, log)

    def error(self, data: bytes) -> str | None:
        """Name the custom error in revert data; None where it's none of this contract's."""
        return self._errors.get(data[:4])


def submitter_role() -> bytes:
    """Return `SUBMITTER_ROLE` of both contracts (Submitters.sol): keccak-256 of its name."""
    from eth_utils.crypto import keccak

    return bytes(keccak(text="SUBMITTER_ROLE"))


def _type(item: dict[str, Any]) -> str:
    """Write a parameter's type as eth-abi wants it: a struct is a tuple of its members."""
    kind = str(item["type"])
    if not kind.startswith("tuple"):
        return kind
    members = ",".join(_type(member) for member in item["components"])
    return f"({members}){kind.removeprefix('tuple')}"


def _plain(solidity_type: str, value: Any) -> Any:
    return "0x" + value.hex() if solidity_type == "bytes32" else value
