"""Keep up with the other authorities: pull their blocks, pass waiting transactions on to them.

One thread per peer, over the peer's ordinary JSON-RPC (geth's method names, so a geth node with `debug` can
be a peer too). Nothing a peer says is believed: its blocks go through `BlockStore.import_raw`, its claims
about difficulty only decide whether to ask for them.
"""

from __future__ import annotations

import http.client
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from chainmemory.node import pool
from chainmemory.node.authority import Job
from chainmemory.node.blocks import BlockStore, FutureBlock, log_change, open_reader
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.evm import BlockHeaderAPI, BlockNumber, ValidationError
from chainmemory.node.genesis import Genesis
from chainmemory.node.signers import ConsensusError

log = logging.getLogger("chainmemory.node")

POLL_SECONDS = 0.25
MAX_PAUSE_SECONDS = 5.0
TIMEOUT_SECONDS = 10.0
BLOCKS_PER_REQUEST = 64
TRANSACTIONS_PER_REQUEST = 100
MAX_ANSWER_BYTES = 64 * 1024 * 1024
IMPORT_SECONDS = 600.0


class PeerError(Exception):
    """The peer can't be reached, or what it answers makes no sense."""


class PeerClient:
    """A small JSON-RPC client over one kept-alive connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None  # NodeConfig has checked it
        self.url = url
        self._path = parts.path or "/"
        self._connection = http.client.HTTPConnection(
            parts.hostname, parts.port or 80, timeout=TIMEOUT_SECONDS
        )

    def call(self, method: str, *params: Any) -> Any:
        """Return a method's result (PeerError)."""
        return self.batch([(method, list(params))])[0]

    def batch(self, calls: list[tuple[str, list[Any]]], *, tolerant: bool = False) -> list[Any]:
        """Return the results in order; an error is PeerError, or with `tolerant` its message in a list."""
        body = [{"jsonrpc": "2.0", "id": i, "method": m, "params": p} for i, (m, p) in enumerate(calls)]
        replies = self._post(orjson.dumps(body))
        if not isinstance(replies, list) or len(replies) != len(calls):
            raise PeerError("the answer is not a batch of the right length")
        by_id = {reply.get("id"): reply for reply in replies if isinstance(reply, dict)}
        results = []
        for i, (method, _) in enumerate(calls):
            reply = by_id.get(i, {})
            if "result" in reply:
                results.append(reply["result"])
            elif tolerant:
                results.append([str(reply.get("error"))])
            else:
                raise PeerError(f"{method}: {reply.get('error')}")
        return results

    def _post(self, body: bytes) -> Any:
        try:
            self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            content = response.read(MAX_ANSWER_BYTES + 1)
            if response.status != 200 or len(content) > MAX_ANSWER_BYTES:
                raise PeerError(f"HTTP status {response.status}, {len(content)} bytes")
            return orjson.loads(content)
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
            self._connection.close()
            raise PeerError(str(error) or type(error).__name__) from error
        except PeerError:
            self._connection.close()
            raise


@dataclass(frozen=True)
class _Head:
    """What a peer says about its newest block."""

    number: int
    hash: str
    difficulty: int


class Peer:
    """One peer, followed by a thread of its own."""

    def __init__(self, url: str, do: Callable[[Job], None], genesis: Genesis, config: NodeConfig) -> None:
        self.client = PeerClient(url)
        self._do = do
        self._genesis = genesis
        self._config = config
        self._refused: str | None = None
        """The peer's head that led to a bad block, or to one as good as ours; it isn't asked for again."""
        self._passed_on = 0
        """The pool's sequence number up to which the peer has been told."""

    def start(self) -> None:
        """Follow the peer from now on."""
        threading.Thread(target=self._run, name=f"peer {self.client.url}", daemon=True).start()

    def _run(self) -> None:
        connection = open_connection(self._config.database_path, read_only=True, cache_mib=1)
        pause, silent, checked = POLL_SECONDS, False, False
        while True:
            try:
                if not checked:
                    self._check_genesis(connection)
                    checked = True
                self._pull(connection)
                self._pass_on(connection)
                if silent:
                    log.info("peer %s answers again", self.client.url)
                pause, silent = POLL_SECONDS, False
            except PeerError as error:
                if not silent:
                    log.warning("peer %s: %s", self.client.url, error)
                pause, silent = min(pause * 2, MAX_PAUSE_SECONDS), True
            except Exception:
                # Whatever a peer makes us stumble over must not end the following of it.
                log.exception("following peer %s failed", self.client.url)
                pause = MAX_PAUSE_SECONDS
            time.sleep(pause)

    def _check_genesis(self, connection: sqlite3.Connection) -> None:
        chain = open_reader(connection, self._genesis)
        ours = "0x" + chain.get_canonical_block_header_by_number(BlockNumber(0)).hash.hex()
        theirs = self.client.call("eth_getBlockByNumber", "0x0", False)
        if not isinstance(theirs, dict) or theirs.get("hash") != ours:
            raise PeerError("it follows a chain with another genesis")

    def _pull(self, connection: sqlite3.Connection) -> None:
        """Import what the peer has beyond us, if its chain weighs more, or as much and may win the tie."""
        head = _read_head(self.client.call("eth_getBlockByNumber", "latest", False))
        chain = open_reader(connection, self._genesis)
        ours = chain.get_canonical_head()
        weight = chain.get_score(ours.hash)
        tie = head.difficulty == weight and (head.number, head.hash) < (ours.block_number, _hexed(ours))
        if head.hash == self._refused or not (head.difficulty > weight or tie):
            return
        first = self._first_unknown(connection, head)
        try:
            for raw in self._blocks(first, head.number):
                self._import(raw)
            if tie:
                self._refused = head.hash  # taken or not: asking again changes nothing
        except FutureBlock:
            return  # its time will come
        except (ConsensusError, ValidationError) as error:
            self._refused = head.hash
            log.warning("refused a block of peer %s: %s", self.client.url, error)

    def _first_unknown(self, connection: sqlite3.Connection, head: _Head) -> int:
        """Return the lowest number at which the peer's chain isn't known here, by bisection."""
        chain = open_reader(connection, self._genesis)

        def known(number: int) -> bool:
            block = self.client.call("eth_getBlockByNumber", hex(number), False)
            if not isinstance(block, dict) or not isinstance(block.get("hash"), str):
                raise PeerError(f"it has no block {number}")
            try:
                return chain.headerdb.header_exists(bytes.fromhex(block["hash"][2:]))  # type: ignore[arg-type]
            except ValueError:
                raise PeerError(f"the hash of its block {number} is malformed") from None

        ours = chain.get_canonical_head().block_number
        low, high = 0, head.number  # low is known (the genesis), high may not be
        if ours < head.number and known(ours):
            return ours + 1  # the usual case: the peer is simply ahead
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if known(middle) else (low, middle)
        return high

    def _blocks(self, first: int, last: int) -> Iterator[bytes]:
        for start in range(first, last + 1, BLOCKS_PER_REQUEST):
            numbers = range(start, min(start + BLOCKS_PER_REQUEST, last + 1))
            answers = self.client.batch([("debug_getRawBlock", [hex(number)]) for number in numbers])
            for answer in answers:
                if not isinstance(answer, str):
                    raise PeerError("a block isn't hex")
                try:
                    yield bytes.fromhex(answer.removeprefix("0x"))
                except ValueError:
                    raise PeerError("a block isn't hex") from None

    def _import(self, raw: bytes) -> None:
        """Have the authority's loop import a block; its error is raised here."""
        done: Future[None] = Future()

        def job(store: BlockStore) -> None:
            try:
                change = store.import_raw(raw)
                if change is not None:
                    log_change("imported", change)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)
                if isinstance(error, sqlite3.Error):
                    raise

        self._do(job)
        done.result(IMPORT_SECONDS)

    def _pass_on(self, connection: sqlite3.Connection) -> None:
        """Offer the peer what joined our pool since the last time; refusals are its business."""
        while entries := pool.everything(connection, self._passed_on, TRANSACTIONS_PER_REQUEST):
            calls = [("eth_sendRawTransaction", ["0x" + entry.raw.hex()]) for entry in entries]
            self.client.batch(calls, tolerant=True)
            self._passed_on = entries[-1].seq


def _hexed(header: BlockHeaderAPI) -> str:
    return "0x" + header.hash.hex()


def _read_head(block: Any) -> _Head:
    try:
        return _Head(int(block["number"], 16), str(block["hash"]), int(block["totalDifficulty"], 16))
    except (KeyError, TypeError, ValueError):
        raise PeerError("its newest block makes no sense") from None
