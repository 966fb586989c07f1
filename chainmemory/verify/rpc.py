"""A chain, asked by plain JSON-RPC; calls and events are encoded and read by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx
from eth_hash.auto import keccak

from chainmemory.errors import IntegrityError, Unavailable
from chainmemory.protocol.hashing import hex32

TIMEOUT_S = 30.0
_BLOCKS_AT_ONCE = 2_000


class Log(NamedTuple):
    """One event as a contract wrote it; topics are hex32, `data` in words of 32 bytes."""

    topics: list[str]
    data: bytes
    tx_hash: str
    block_number: int
    block_hash: str

    def topic_number(self, at: int) -> int:
        return int(self.topics[at], 16)

    def word(self, at: int) -> bytes:
        """Return a word of the data. Raises IntegrityError where it has fewer."""
        word = self.data[32 * at : 32 * at + 32]
        if len(word) != 32:
            raise IntegrityError(f"An event in {self.tx_hash} is shorter than the contract writes it.")
        return word

    def number(self, at: int) -> int:
        return int.from_bytes(self.word(at), "big")


class Chain:
    """A node at an RPC address. Every method raises Unavailable where it doesn't answer."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        # Addresses may hold credentials; only host and port are shown.
        self.place = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        self._url = url
        self._http = httpx.Client(timeout=TIMEOUT_S, trust_env=False)
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def chain_id(self) -> int:
        return number(self._ask("eth_chainId"))

    def first_block(self, fields: Iterable[str]) -> dict[str, int]:
        """Return these fields of block 0, each as a number."""
        block = self._ask("eth_getBlockByNumber", "0x0", False)
        if not isinstance(block, dict):
            raise Unavailable(f"The chain at {self.place} doesn't tell its first block.")
        return {name: number(block.get(name)) for name in fields}

    def height(self) -> int:
        return number(self._ask("eth_blockNumber"))

    def code_hash(self, address: str) -> str:
        """Return Keccak-256 of the code at `address`, hex32."""
        return hex32(keccak(raw(self._ask("eth_getCode", address, "latest"))))

    def call(self, address: str, signature: str, *words: bytes) -> bytes:
        """Return what a function answers whose arguments are all single words."""
        data = keccak(signature.encode())[:4] + b"".join(words)
        return raw(self._ask("eth_call", {"to": address, "data": "0x" + data.hex()}, "latest"))

    def logs(self, address: str, signatures: Sequence[str], first: int, last: int) -> Iterator[Log]:
        """Yield the events of these signatures that `address` wrote in blocks `first` to `last`, in order."""
        wanted = [topic(signature) for signature in signatures]
        step = _BLOCKS_AT_ONCE
        while first <= last:
            until = min(first + step - 1, last)
            question = {
                "address": address,
                "topics": [wanted],
                "fromBlock": hex(first),
                "toBlock": hex(until),
            }
            try:
                found = self._ask("eth_getLogs", question)
            except Refused:
                # Too many for one answer: ask for fewer blocks, as long as there is more than one.
                if until == first:
                    raise
                step = max(1, (until - first + 1) // 2)
                continue
            for log in found:
                yield Log(
                    log["topics"],
                    raw(log["data"]),
                    log["transactionHash"],
                    number(log["blockNumber"]),
                    log["blockHash"],
                )
            first = until + 1

    def _ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": list(params)}
        try:
            answer = self._http.post(self._url, json=question).json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable(f"The chain at {self.place} can't be asked ({type(error).__name__}).") from None
        if not isinstance(answer, dict) or "result" not in answer:
            told = answer.get("error") if isinstance(answer, dict) else None
            words = str(told.get("message"))[:200] if isinstance(told, dict) else "no result"
            raise Refused(f"The chain at {self.place} refuses {method}: {words}")
        return answer["result"]


class Refused(Unavailable):
    """The node answers with an error."""

    code = "chain_refused"


def topic(signature: str) -> str:
    """Return the first topic of an event, hex32."""
    return hex32(keccak(signature.encode()))


def word(value: int) -> bytes:
    """Write a number as a word."""
    return value.to_bytes(32, "big")


def raw(text: Any) -> bytes:
    try:
        return bytes.fromhex(str(text).removeprefix("0x"))
    except ValueError:
        raise Unavailable("The chain's answer isn't hexadecimal.") from None


def number(text: Any) -> int:
    try:
        return int(str(text), 16)
    except ValueError:
        raise Unavailable("The chain's answer isn't a number.") from None
