"""Following a peer: catching up, changing branch, and not being fooled."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from chainmemory.node import peers, pool
from chainmemory.node.authority import Job
from chainmemory.node.clique import seal
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.formats import decode_block, decode_transaction, encode_block
from chainmemory.node.peers import Peer, PeerError
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.dispatch import answer
from chainmemory.node.rpc.filters import Filters
from tests.support.clique_chains import ChainFile, authority_keys, make_genesis
from tests.support.node_process import sign

KEYS = authority_keys(3)


class RemoteNode:
    """Another node's RPC, served from a chain file in this process; `twist` may change any answer."""

    def __init__(self, chain: ChainFile) -> None:
        self.chain = chain
        self.asked: list[str] = []
        self.offered: list[bytes] = []
        self.twist: Callable[[bytes], bytes] = lambda body: body
        self.status = 200
        self._context: Context | None = None
        remote = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = self.rfile.read(int(self.headers["Content-Length"]))
                body = remote.answer(request)
                self.send_response(remote.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: bytes) -> bytes:
        self.asked += [call["method"] for call in orjson.loads(request)]
        connection = open_connection(self.chain.path, read_only=True)
        config = NodeConfig(data_dir=self.chain.path.parent, port=1)
        context = Context(
            connection, self.chain.store.genesis, config, self.submit, lambda _: None, Filters()
        )
        try:
            return self.twist(answer(context, request, float("inf")))
        finally:
            connection.close()

    def submit(self, raw: bytes) -> Future[bytes]:
        self.offered.append(raw)
        future: Future[bytes] = Future()
        future.set_result(decode_transaction(raw).hash)
        return future

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Follower:
    """This node's side: a chain file, and a peer thread's work done step by step."""

    def __init__(self, chain: ChainFile, remote: RemoteNode) -> None:
        self.chain = chain
        self.reading = open_connection(chain.path, read_only=True)
        config = NodeConfig(data_dir=chain.path.parent, port=1)
        # The peer reads the database by its path in the configuration only in its own thread, not here.
        self.peer = Peer(remote.url, self.do, chain.store.genesis, config)

    def do(self, job: Job) -> None:
        job(self.chain.store)

    def pull(self) -> None:
        self.peer._check_genesis(self.reading)
        self.peer._pull(self.reading)

    def pass_on(self) -> None:
        self.peer._pass_on(self.reading)

    @property
    def head(self) -> str:
        return str(self.chain.store.head.hash.hex())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Follower, RemoteNode]]:
    genesis = make_genesis(KEYS)
    ours, theirs = (ChainFile(tmp_path / f"{name}.sqlite", genesis) for name in ("ours", "theirs"))
    remote = RemoteNode(theirs)
    follower = Follower(ours, remote)
    yield follower, remote
    remote.close()
    follower.reading.close()
    ours.close()
    theirs.close()


def test_a_node_far_behind_catches_up_in_few_requests(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    for _ in range(2 * peers.BLOCKS_PER_REQUEST + 5):
        remote.chain.seal_next(KEYS)
    follower.pull()
    assert follower.head == remote.chain.store.head.hash.hex()
    assert remote.asked.count("debug_getRawBlock") == 2 * peers.BLOCKS_PER_REQUEST + 5
    remote.asked.clear()
    follower.pull()
    assert remote.asked == ["eth_getBlockByNumber"] * 2  # genesis and head: nothing new


def test_a_heavier_branch_is_found_from_its_fork_on(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    for _ in range(20):
        follower.chain.take(remote.chain.seal_next(KEYS))
    follower.chain.offer(sign(0))
    for key in (KEYS[1], KEYS[2]):  # both out of turn
        follower.chain.seal(key)
    for _ in range(5):
        remote.chain.seal_next(KEYS)
    follower.pull()
    assert follower.head == remote.chain.store.head.hash.hex()
    assert remote.asked.count("debug_getRawBlock") == 5
    assert [entry.nonce for entry in pool.everything(follower.chain.connection)] == [0]


def test_a_lighter_peer_is_not_followed(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    follower.chain.seal_next(KEYS)
    head = follower.head
    follower.pull()
    assert follower.head == head
    assert "debug_getRawBlock" not in remote.asked


def test_of_equal_chains_the_winner_is_pulled_once(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    out_of_turn = [key for key in KEYS if follower.chain.may_seal(key) == 1]
    ours, theirs = follower.chain.seal(out_of_turn[0]), remote.chain.seal(out_of_turn[1])
    assert ours.header.difficulty == theirs.header.difficulty == 1
    winner = min(ours, theirs, key=lambda block: block.hash)
    for _ in range(3):
        follower.pull()
    assert follower.head == winner.hash.hex()
    assert remote.asked.count("debug_getRawBlock") == (1 if winner is theirs else 0)


def test_a_forged_block_is_refused_once(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    follower.chain.take(remote.chain.seal_next(KEYS))
    good = remote.chain.seal_next(KEYS)
    forged = good.copy(header=seal(good.header.copy(state_root=bytes(32)), KEYS[2]))
    remote.twist = lambda body: body.replace(
        encode_block(good).hex().encode(), encode_block(forged).hex().encode()
    )
    head = follower.head
    follower.pull()
    assert follower.head == head
    remote.asked.clear()
    follower.pull()  # that head led to a bad block; it isn't asked for again
    assert "debug_getRawBlock" not in remote.asked
    remote.twist = lambda body: body
    remote.chain.seal_next(KEYS)
    follower.pull()  # the peer has moved on, honestly
    assert follower.head == remote.chain.store.head.hash.hex()


def test_a_block_whose_time_has_not_come_is_asked_for_again(
    pair: tuple[Follower, RemoteNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower, remote = pair
    remote.chain.seal(KEYS[1], at=time.time() + 3600)
    follower.pull()
    assert follower.chain.store.head.block_number == 0
    later = time.time() + 7200
    monkeypatch.setattr("chainmemory.node.blocks.time.time", lambda: later)
    follower.pull()
    assert follower.chain.store.head.block_number == 1


def test_another_chain_is_not_followed(pair: tuple[Follower, RemoteNode], tmp_path: Path) -> None:
    follower, remote = pair
    stranger = ChainFile(tmp_path / "stranger.sqlite", make_genesis(KEYS, age=99_000))
    remote.chain = stranger
    with pytest.raises(PeerError, match="another genesis"):
        follower.pull()
    stranger.close()


NONSENSE: dict[str, Callable[[bytes], bytes]] = {
    "HTML": lambda _: b"<html>busy</html>",
    "nothing": lambda _: b"",
    "an object": lambda _: b"{}",
    "a batch too short": lambda _: b"[]",
    "null blocks": lambda _: b'[{"jsonrpc":"2.0","id":0,"result":null}]',
    "a number for a block": lambda _: b'[{"jsonrpc":"2.0","id":0,"result":7}]',
    "an error": lambda _: b'[{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}]',
    "answers to other questions": lambda body: body.replace(b'"id":0', b'"id":9'),
    "numbers that aren't": lambda body: body.replace(b'"totalDifficulty":"0x', b'"totalDifficulty":"zz'),
    "blocks that aren't hex": lambda body: body.replace(b'"result":"0xf9', b'"result":"0xzz'),
    "blocks cut off": lambda body: body.replace(b'"result":"0xf9', b'"result":"0xf8'),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_changes_nothing(pair: tuple[Follower, RemoteNode], name: str) -> None:
    follower, remote = pair
    remote.chain.seal_next(KEYS)
    remote.twist = NONSENSE[name]
    if name == "blocks cut off":
        follower.pull()  # a block that can't be read counts as refused
    else:
        with pytest.raises(PeerError):
            follower.pull()
    assert follower.chain.store.head.block_number == 0
    remote.twist, follower.peer._refused = lambda body: body, None
    follower.pull()
    assert follower.head == remote.chain.store.head.hash.hex()


def test_a_silent_or_failing_peer_is_an_error_that_passes(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    remote.status = 503
    with pytest.raises(PeerError, match="status 503"):
        follower.pull()
    remote.status = 200
    remote.close()
    with pytest.raises(PeerError):
        follower.pull()


def test_each_waiting_transaction_is_passed_on_once(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    raws = [sign(nonce) for nonce in range(3)]
    follower.chain.offer(*raws)
    follower.pass_on()
    follower.pass_on()
    assert remote.offered == [bytes.fromhex(raw[2:]) for raw in raws]
    follower.chain.offer(sign(3))
    follower.pass_on()
    assert len(remote.offered) == 4


def test_a_broken_file_here_is_not_the_peers_fault(pair: tuple[Follower, RemoteNode]) -> None:
    follower, remote = pair
    remote.chain.seal_next(KEYS)

    def broken(_raw: bytes) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    follower.chain.store.import_raw = broken  # type: ignore[assignment, method-assign]
    with pytest.raises(sqlite3.OperationalError):
        follower.pull()
    assert follower.peer._refused is None


def test_blocks_read_back_as_sent(pair: tuple[Follower, RemoteNode]) -> None:
    _, remote = pair
    remote.chain.offer(sign(0), sign(1, gasPrice=10**10))
    block = remote.chain.seal_next(KEYS)
    assert decode_block(encode_block(block)) == block
