"""The node's HTTP door: bounded in size, time, number and origin, and hard to knock over."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from chainmemory.node import server
from chainmemory.node.rpc.dispatch import QUICK_BATCH, is_quick
from tests.support.node_process import USER, Client, NodeProcess, sign, wait_for

CHAIN_ID_CALL = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
JSON = {"Content-Type": "application/json"}
# Calls the BLAKE2b precompile with 20 million rounds: one instruction, minutes of Python.
BLAKE2B_ROUNDS = "0x6301312d0060e01b600052600160d4536000600060d5600060095afa00"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    node = NodeProcess(tmp_path_factory.mktemp("http") / "chain", alloc=[USER.address])
    try:
        yield node.start().port
    finally:
        node.ensure_gone()


def request(port: int, method: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, "/", body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, content


def alive(port: int) -> bool:
    return "result" in json.loads(request(port, "POST", CHAIN_ID_CALL, **JSON)[1])


def test_only_json_posts_from_this_machine_are_answered(port: int) -> None:
    assert request(port, "POST", CHAIN_ID_CALL, Content_Type="application/json; charset=utf-8")[0] == 200
    assert request(port, "POST", CHAIN_ID_CALL, Content_Type="text/plain")[0] == 415
    assert request(port, "POST", CHAIN_ID_CALL)[0] == 415
    assert request(port, "PUT", CHAIN_ID_CALL, Content_Type="application/json")[0] == 405
    assert request(port, "GET") == (200, b"")  # a health check
    for host, status in (("evil.example", 403), ("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:80", 200)):
        assert request(port, "POST", CHAIN_ID_CALL, Content_Type="application/json", Host=host)[0] == status


def test_a_body_too_large_is_refused_before_and_while_it_comes(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(head + b"Content-Length: %d\r\n\r\n" % (server.MAX_BODY_BYTES + 1))
        reply = b"".join(iter(lambda: raw.recv(4096), b""))  # until it closes
        assert reply.startswith(b"HTTP/1.1 413")
        assert b"content length too large (5242881>5242880)" in reply
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        with pytest.raises(OSError, match=r"reset|Broken pipe"):  # noqa: PT012 (any of the writes may notice)
            for _ in range(40):
                raw.sendall(chunk)
                time.sleep(0.01)
    assert alive(port)


@pytest.mark.parametrize(
    "raw",
    [
        b"\0\xff\xfe garbage\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 300_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(20_000)) + b"\r\n",
    ],
    ids=["garbage", "a length that is none", "a huge header", "very many headers"],
)
def test_broken_requests_end_their_connection_only(port: int, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(raw)
            reply = connection.recv(4096)
        except OSError:
            reply = b""
        assert reply == b"" or reply.startswith(b"HTTP/1.1 4")
    assert alive(port)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":' + b"[" * 500 + b"]" * 500 + b"}]}",
        b'{"jsonrpc":"2.0","id":1e400,"method":"eth_chainId"}',
        b'{"jsonrpc":"2.0","id":"\xff","method":"eth_chainId"}',
        b'{"jsonrpc":"2.0","id":1,"method":"__class__"}',
        b'{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x7fffffffffffffff"}]}',
        b'{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x7fffffffffffffff",false]}',
        b'{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"data":"0x' + b"60" * 2_000_000 + b'"}]}',
        b'{"jsonrpc":"2.0","id":1,"method":"eth_feeHistory","params":["0xffffffffffffffff","latest",[]]}',
    ],
)
def test_hostile_bodies_are_answered_in_json(port: int, body: bytes) -> None:
    status, content = request(port, "POST", body, **{"Content-Type": "application/json"})
    assert status == 200
    reply = json.loads(content)
    assert "result" in reply or reply["error"]["code"] != -32603
    assert alive(port)


def test_many_connections_are_refused_and_the_node_lives(port: int) -> None:
    opened = []
    try:
        for _ in range(server.MAX_CONNECTIONS + 40):
            opened.append(socket.create_connection(("127.0.0.1", port), timeout=20))
        wait_for(lambda: any(_closed(one) for one in opened), 20, "a refusal")
    finally:
        for one in opened:
            one.close()
    wait_for(lambda: _try_alive(port), 20, "the node's attention")


def _closed(connection: socket.socket) -> bool:
    connection.settimeout(0.001)
    try:
        return b"503" in connection.recv(64)
    except OSError:
        return False


def _try_alive(port: int) -> bool:
    try:
        return alive(port)
    except (OSError, ValueError):
        return False


def test_a_connection_is_kept_and_pipelined_requests_are_answered_in_order(port: int) -> None:
    head = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    bodies = [CHAIN_ID_CALL.replace(b'"id":1', b'"id":%d' % i) for i in range(5)]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"".join(head % len(body) + body for body in bodies))
        received = b""
        while received.count(b'"result"') < 5:
            received += connection.recv(65536)
    order = [received.index(b'"id":%d,' % i) for i in range(5)]
    assert order == sorted(order)


def test_a_slow_request_is_cut_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The bound is half a minute; here a node is started with a shorter one."""
    folder = tmp_path_factory.mktemp("slow")
    node = NodeProcess(folder / "chain", alloc=[USER.address], module="tests.support.impatient_node")
    try:
        port = node.start().port
        with socket.create_connection(("127.0.0.1", port), timeout=20) as silent:
            assert silent.recv(10) == b""  # says nothing, ever
        with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
            slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
            began = time.monotonic()
            try:
                while time.monotonic() < began + 15:
                    slow.sendall(b" ")  # a byte now and then doesn't keep it open
                    time.sleep(0.2)
                pytest.fail("the request was left open")
            except OSError:
                pass
        client = Client(port)
        client.call("eth_chainId")
        time.sleep(1.5)  # a connection that has been answered may rest
        client.call("eth_sendRawTransaction", sign(0))
        # Methods get the same time: what isn't begun by then is refused.
        spin = {"data": "0x5b600056"}
        replies = client.batch([("eth_call", [spin, "latest"]), ("eth_chainId", [])])
        assert "timeout" in replies[0]["error"]["message"]
        assert replies[1]["error"] == {"code": -32002, "message": "request timed out"}
    finally:
        node.ensure_gone()


def test_calls_without_end_keep_nobody_from_the_quick_methods(port: int) -> None:
    spin = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{"data": "0x5b600056"}]}
    batch = json.dumps([{**spin, "id": n} for n in range(50)]).encode()
    replies: list[list[dict[str, Any]]] = []

    def ask() -> None:
        status, content = request(port, "POST", batch, x_rpc_seconds="2", **JSON)
        assert status == 200
        replies.append(json.loads(content))

    threads = [threading.Thread(target=ask) for _ in range(2 * server.SLOW_THREADS)]
    for thread in threads:
        thread.start()
    try:
        for nonce in range(3):
            began = time.monotonic()
            assert alive(port)
            with closing(Client(port)) as client:
                assert client.call("eth_sendRawTransaction", sign(nonce)).startswith("0x")
            assert time.monotonic() - began < 2
        assert len(replies) < len(threads)  # they still ran meanwhile
    finally:
        for thread in threads:
            thread.join()
    for reply in replies:
        first, *rest = [one["error"] for one in reply]
        assert first == {"code": -32000, "message": "execution aborted (timeout = 2s)"}
        assert {error["code"] for error in rest} == {-32002}


def test_a_request_may_ask_for_less_than_the_bounds_and_not_for_more(port: int) -> None:
    def told(data: str, **headers: str) -> Any:
        params = [{"data": data, "gas": "0x1c9c380"}]
        body = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": params}
        return json.loads(request(port, "POST", json.dumps(body).encode(), **JSON, **headers)[1])

    gas = "0x5a60005260206000f3"  # returns the gas that is left
    assert int(told(gas, x_rpc_call_gas="100000")["result"], 16) < 100_000
    for more in ("999999999", "x", "-1", "9" * 30):
        assert 29_900_000 < int(told(gas, x_rpc_call_gas=more)["result"], 16) < 30_000_000
    for data in ("0x5b600056", BLAKE2B_ROUNDS):
        assert told(data, x_rpc_seconds="1")["error"]["message"] == "execution aborted (timeout = 1s)"


def test_what_is_slow_is_known_before_it_runs() -> None:
    def quick(*methods: Any) -> bool:
        return is_quick(json.dumps([{"method": method} for method in methods]).encode())

    assert quick("eth_blockNumber", "eth_getCode", "nonsense", 7, None)
    assert quick(*["eth_sendRawTransaction"] * 1000)
    for body in (b"{", b"7", b"[[]]", b'{"method": []}'):
        assert is_quick(body)
    assert not quick(*["eth_blockNumber"] * (QUICK_BATCH + 1))
    assert not quick("eth_blockNumber", "eth_getLogs")
    assert not is_quick(rb'{"method": "eth_c\u0061ll"}')
