"""Calls, events and errors of our two contracts in words; what isn't theirs is left raw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from eth_hash.auto import keccak
from eth_utils.abi import abi_to_signature, event_abi_to_log_topic, function_abi_to_4byte_selector

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.chain.registry import CATEGORY_CODES
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.abi_values import NotEncoded, Value, decode, decode_word
from chainmemory.engine.explorer.text import moment, readable

CONTRACTS: Final = (STATE_ANCHOR, MEMORY_REGISTRY)
OUTCOMES: Final = (
    "written",
    "already there",
    "another value is there and stays",
    "leaves a gap",
    "behind what is there",
    "the hash is zero",
    "the number is zero",
)
"""Outcome.sol's codes, in order."""
CATEGORIES: Final = {str(code): name for name, code in CATEGORY_CODES.items()}
ROLES: Final = {"0x" + bytes(32).hex(): "admin", "0x" + keccak(b"SUBMITTER_ROLE").hex(): "submitter"}
PANICS: Final = {
    "1": "an assertion failed",
    "17": "a number overflowed",
    "18": "a division by zero",
    "33": "a value outside its enum",
    "50": "an index out of bounds",
    "65": "too much memory",
}
_ERROR: Final = {"type": "error", "name": "Error", "inputs": [{"name": "message", "type": "string"}]}
_PANIC: Final = {"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]}
_SELECTOR: Final = 4


@dataclass(frozen=True, slots=True)
class Decoded:
    """A call, an event, an error or a constructor of a contract, with its arguments."""

    contract: str
    name: str
    signature: str
    values: tuple[Value, ...]

    def value(self, name: str) -> str | None:
        """Return the text of a plain argument, None where there is none of that name."""
        return next((value.text for value in self.values if value.name == name), None)


@dataclass(frozen=True)
class _Known:
    functions: Mapping[bytes, dict[str, Any]]
    events: Mapping[str, dict[str, Any]]
    errors: Mapping[bytes, dict[str, Any]]
    constructor: dict[str, Any]


def decode_call(contract: str, data: bytes) -> Decoded | None:
    """Decode calldata for one of our contracts; None where it has no such function or the data isn't one."""
    return _decoded(contract, _known(contract).functions.get(data[:_SELECTOR]), data[_SELECTOR:])


def decode_creation(data: bytes) -> Decoded | None:
    """Recognise a transaction that creates one of our contracts, with its constructor's arguments."""
    for name in CONTRACTS:
        code = load_artifact(name).bytecode
        if data.startswith(code):
            return _decoded(name, {"name": name, **_known(name).constructor}, data[len(code) :])
    return None


def decode_event(contract: str, log: Log) -> Decoded | None:
    """Decode a log of one of our contracts; None where it is no event of it."""
    item = _known(contract).events.get(log.topics[0]) if log.topics else None
    if item is None:
        return None
    indexed = [given for given in item["inputs"] if given["indexed"]]
    plain = [given for given in item["inputs"] if not given["indexed"]]
    if len(indexed) != len(log.topics) - 1:
        return None
    try:
        words = {
            given["name"]: decode_word(given, bytes.fromhex(topic[2:]))
            for given, topic in zip(indexed, log.topics[1:], strict=True)
        }
        words |= {value.name: value for value in decode(plain, log.data)}
    except NotEncoded:
        return None
    values = tuple(words[given["name"]] for given in item["inputs"])
    return Decoded(contract, item["name"], _signature(item), values)


def decode_error(contract: str | None, data: bytes) -> Decoded | None:
    """Decode revert data: Solidity's Error and Panic, or a custom error of the contract that was called."""
    items = {_selector(_ERROR): _ERROR, _selector(_PANIC): _PANIC}
    if contract is not None:
        items |= _known(contract).errors
    return _decoded(contract or "", items.get(data[:_SELECTOR]), data[_SELECTOR:])


def reason_in_words(error: Decoded) -> str:
    """Return why a call reverted, as one sentence."""
    if error.name == "Error":
        return error.value("message") or "no reason given"
    if error.name == "Panic":
        code = error.value("code") or ""
        return f"panic {code}: {PANICS.get(code, 'see the Solidity documentation')}"
    given = ", ".join(f"{value.name} {value.text}" for value in error.values if value.text is not None)
    return readable(f"{error.name}({given})")


def meaning(name: str, value: Value) -> str | None:
    """Say what a coded argument stands for, by its name in our ABI; None where it speaks for itself."""
    text = value.text or ""
    match name:
        case "reason":
            return OUTCOMES[int(text)] if text.isdigit() and int(text) < len(OUTCOMES) else None
        case "category":
            return CATEGORIES.get(text)
        case "role":
            return ROLES.get(text)
        case "anchoredAt":
            return moment(int(text)) if text.isdigit() else None
    return None


def event_topics(contract: str, *names: str) -> list[str]:
    """Return the first topics of a contract's events by name."""
    return [topic for topic, item in _known(contract).events.items() if item["name"] in names]


def contracts_with_selector(data: bytes) -> list[str]:
    """Return which of our contracts have a function with this calldata's selector."""
    return [name for name in CONTRACTS if data[:_SELECTOR] in _known(name).functions]


def contracts_with_event(log: Log) -> list[str]:
    """Return which of our contracts have an event with this log's first topic."""
    return [name for name in CONTRACTS if log.topics and log.topics[0] in _known(name).events]


def _decoded(contract: str, item: dict[str, Any] | None, data: bytes) -> Decoded | None:
    if item is None:
        return None
    try:
        values = decode(item["inputs"], data)
    except NotEncoded:
        return None
    return Decoded(contract, item["name"], _signature(item), values)


@cache
def _known(contract: str) -> _Known:
    abi = load_artifact(contract).abi
    return _Known(
        {_selector(item): item for item in abi if item["type"] == "function"},
        {"0x" + event_abi_to_log_topic(item).hex(): item for item in abi if item["type"] == "event"},  # type: ignore[arg-type]
        {_selector(item): item for item in abi if item["type"] == "error"},
        next(item for item in abi if item["type"] == "constructor"),
    )


def _selector(item: Mapping[str, Any]) -> bytes:
    return function_abi_to_4byte_selector({**item, "type": "function"})  # type: ignore[arg-type]


def _signature(item: Mapping[str, Any]) -> str:
    return abi_to_signature({**item, "type": "function"})  # type: ignore[arg-type]
