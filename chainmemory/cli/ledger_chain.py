"""File ledgers and the chain: anchor a head through the server, and read heads from the contract itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chainmemory.chain.artifacts import STATE_ANCHOR, load_artifact
from chainmemory.cli.account import connect_publicly
from chainmemory.cli.ledger_server import admin_token
from chainmemory.cli.verify import rpc_of
from chainmemory.cli.witness import Refused, Witness, _bytes, _quantity, _selector, _topic
from chainmemory.client import Client, Json
from chainmemory.errors import IntegrityError, Unavailable
from chainmemory.protocol.hashing import hex32, parse_hex32
from chainmemory.protocol.identity import file_tenant_id, ledger_id
from chainmemory.settings import Settings

HEAD_ANCHORED = "HeadAnchored(bytes32,uint64,bytes32,uint64,address)"
POLL_S = 0.5
BLOCKS_AFTER_REFUSAL = 10_000
"""Blocks of a range that most public nodes take; it doubles while that goes well."""
LEAST_BLOCKS = 16
"""A node that refuses so few refuses for another reason."""
DONE = frozenset({"anchored", "covered", "conflict"})


@dataclass(frozen=True)
class HeadsOnChain:
    """The anchored heads of one ledger."""

    by_position: dict[int, str]
    """Entry hash (64 hex digits) by position."""
    tx_hash: str | None
    """The transaction that anchored the last one."""


class HeadWitness(Witness):
    """The chain, asked for ledger heads by plain JSON-RPC."""

    def __init__(self, rpc_url: str) -> None:
        super().__init__(rpc_url)
        # What was learnt of a node that refuses long ranges counts for the next ledger too.
        self._blocks_at_once = self._most_at_once = sys.maxsize
        self._first_block: dict[str, int] = {}

    def heads(self, contract: str, ledger: str) -> HeadsOnChain:
        """Return every head that `contract` anchored for a ledger id (hex32). Raises Unavailable."""
        found: dict[int, tuple[str, str | None]] = {}
        for log in self._logs_of(contract, [_topic(HEAD_ANCHORED), ledger]):
            found[int(log["topics"][2], 16)] = log["topics"][3].removeprefix("0x"), log["transactionHash"]
        data = _selector("latestHead(bytes32)") + parse_hex32(ledger)
        answer = _bytes(self._ask("eth_call", {"to": contract, "data": "0x" + data.hex()}, "latest"))
        if len(answer) != 64:
            raise IntegrityError(f"{contract} on the chain at {self.place} isn't the anchor contract.")
        # What is stored counts, whatever the logs leave out.
        last, last_hash = int.from_bytes(answer[:32], "big"), hex32(answer[32:]).removeprefix("0x")
        if last and found.get(last, ("",))[0] != last_hash:
            found[last] = last_hash, None
        by_position = {seq: entry_hash for seq, (entry_hash, _) in found.items()}
        return HeadsOnChain(by_position, found[max(found)][1] if found else None)

    def _logs_of(self, contract: str, topics: list[str]) -> Iterator[Any]:
        """Yield a contract's logs. Raises Unavailable.

        All blocks are asked for at once: a node that keeps an index answers as quickly as for few. One that
        refuses is asked from the contract's first block on, in ranges, the longest it takes.
        """
        last = _quantity(self._ask("eth_blockNumber"))
        first = self._first_block.get(contract, 0)
        while first <= last:
            until = min(first + self._blocks_at_once - 1, last)
            wanted = {"address": contract, "topics": topics, "fromBlock": hex(first), "toBlock": hex(until)}
            try:
                yield from self._ask("eth_getLogs", wanted)
            except Refused:
                if until - first < LEAST_BLOCKS:
                    raise
                self._most_at_once = (until - first + 1) // 2
                self._blocks_at_once = min(self._most_at_once, BLOCKS_AFTER_REFUSAL)
                if contract not in self._first_block:
                    first = self._first_block[contract] = self._deployed_in(contract, last)
                continue
            first = until + 1
            self._blocks_at_once = min(2 * self._blocks_at_once, self._most_at_once)

    def _deployed_in(self, contract: str, last: int) -> int:
        """Return the first block with the contract's code, 0 where the node no longer knows old states."""
        low, high = 0, last
        try:
            while low < high:
                middle = (low + high) // 2
                if _bytes(self._ask("eth_getCode", contract, hex(middle))):
                    high = middle
                else:
                    low = middle + 1
        except Refused:
            return 0
        return low


@dataclass(frozen=True)
class HeadReader:
    """Reads heads from one contract, whose code was found to be the published one."""

    witness: HeadWitness
    contract: str

    def heads_of(self, agent: str) -> HeadsOnChain:
        """Return an agent's anchored heads. Raises Unavailable, Invalid for a name that can't be anchored."""
        return self.witness.heads(self.contract, ledger_id(file_tenant_id(agent)))


@contextmanager
def head_reader(settings: Settings, url: str | None, rpc: str | None) -> Iterator[HeadReader]:
    """Open the chain that the server names, or `rpc`, and check the contract.

    Raises Unavailable where it can't be asked, IntegrityError where another contract lies there.
    """
    with connect_publicly(settings, url) as client:
        chain = client.chain()
        place = rpc_of({"chain": chain}, settings, rpc, client)
    contract = settings.anchor_address or chain["contracts"].get(STATE_ANCHOR)
    if not contract:
        raise Unavailable("The contracts aren't deployed yet; the worker does it at its start.")
    with HeadWitness(place) as witness:
        if witness.code_hash(contract) != load_artifact(STATE_ANCHOR).code_hash:
            raise IntegrityError(f"The code at {contract} isn't the published anchor contract's.")
        yield HeadReader(witness, contract)


def anchor_through(client: Client, settings: Settings, agent: str, wait_s: float) -> Json:
    """Queue an agent's head, and wait up to `wait_s` seconds until it is on chain; return the last answer."""
    deadline = time.monotonic() + wait_s
    while True:
        told = client.anchor_files(agent, root=str(settings.agents_dir), admin_token=admin_token(settings))
        if told["anchor"]["status"] in DONE or time.monotonic() >= deadline:
            return told
        time.sleep(POLL_S)
