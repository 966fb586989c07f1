"""JSON-RPC over HTTP: uvicorn with bounds on connections, sizes, time and work at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from chainmemory.node.rpc.context import Budget, Context
from chainmemory.node.rpc.dispatch import answer, error_body, is_quick
from chainmemory.node.rpc.errors import LIMIT_EXCEEDED, TIMED_OUT

MAX_BODY_BYTES = 5 * 1024 * 1024
MAX_HEADER_BYTES = 32 * 1024
MAX_CONNECTIONS = 256
MAX_WAITING = 512
"""Requests read but not answered yet."""
REQUEST_SECONDS = 30.0
"""For a request to arrive whole, and for its methods to run."""
KEEP_ALIVE_SECONDS = 120
QUICK_THREADS = 2
"""For what answers at once; they never run a contract or search the chain, so nobody can occupy them."""
SLOW_THREADS = 4
SECONDS_HEADER = b"x-rpc-seconds"
CALL_GAS_HEADER = b"x-rpc-call-gas"
"""With these headers a request asks for less than the node's own bounds."""
STACK_BYTES = 64 * 1024 * 1024
"""Address space for each worker: contracts may call each other 1,024 deep."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol that also bounds connections, headers, and the time a request takes to arrive."""

    _header_bytes = 0
    _in_headers = False
    _arrival: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(
                b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            transport.close()
            return
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._arrival is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_request()
        super().data_received(data)
        if self._in_headers:  # still, after all of this
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self.send_400_response("Request header fields too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True

    def on_headers_complete(self) -> None:
        self._in_headers, self._header_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arrived()
        super().on_message_complete()

    def _expect_request(self) -> None:
        self._arrival = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None


class Application:
    """The ASGI application: one request or batch per POST, run on a few worker threads.

    What may compute for seconds has threads of its own: calls without end can use up those, and yet the chain
    still tells its head, takes transactions, and counts as there.
    """

    def __init__(self, make_context: Callable[[], Context], host: str) -> None:
        self._local = threading.local()
        self._make_context = make_context
        self._hosts = {"localhost", "127.0.0.1", "::1", host}
        self._waiting = 0
        previous = threading.stack_size(STACK_BYTES)
        self._quick = self._threads(QUICK_THREADS, "rpc")
        self._slow = self._threads(SLOW_THREADS, "rpc-slow")
        threading.stack_size(previous)

    def _threads(self, count: int, name: str) -> ThreadPoolExecutor:
        threads = ThreadPoolExecutor(count, name, initializer=self._enter)
        list(threads.map(lambda _: time.sleep(0.01), range(count)))  # start them all now
        return threads

    def _enter(self) -> None:
        self._local.context = self._make_context()

    def close(self) -> None:
        """Wait for the threads."""
        self._quick.shutdown()
        self._slow.shutdown()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        status, body = self._refuse(scope, headers)
        if status == 0:
            content = await _read(receive)
            if isinstance(content, int):
                status, body = (
                    content,
                    b"content length too large" if content == 413 else b"request incomplete",
                )
            else:
                status, body = await self._answer(content, _budget(headers))
        kind = b"application/json" if status in (200, 503) and body else b"text/plain; charset=utf-8"
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", kind),
                    (b"content-length", str(len(body)).encode()),
                    *([(b"connection", b"close")] if status in (400, 408, 413) else []),
                ],
            }
        )
        await send({"type": "http.response.body", "body": body})

    def _refuse(self, scope: Any, headers: dict[bytes, bytes]) -> tuple[int, bytes]:
        """Return the status and text of a refusal, (0, b"") for a request to be read.

        The host and content type checks keep web pages (by DNS rebinding or plain forms) away from a port
        that only listens on loopback.
        """
        name = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0].strip("[]").lower()
        if name not in self._hosts:
            return 403, b"invalid host specified"
        if scope["method"] == "GET" and not scope["query_string"]:
            return 200, b""  # a health check
        if scope["method"] != "POST":
            return 405, b"method not allowed"
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind not in (b"application/json", b"application/json-rpc", b"application/jsonrequest"):
            return 415, b"invalid content type, only application/json is supported"
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            return 413, f"content length too large ({int(length)}>{MAX_BODY_BYTES})".encode()
        return 0, b""

    async def _answer(self, content: bytes, budget: Budget) -> tuple[int, bytes]:
        if self._waiting >= MAX_WAITING:
            return 503, error_body("too many requests at once", LIMIT_EXCEEDED)
        self._waiting += 1
        deadline = time.monotonic() + REQUEST_SECONDS
        work = asyncio.ensure_future(self._work(content, deadline, budget))
        work.add_done_callback(self._done)
        try:
            return 200, await asyncio.wait_for(asyncio.shield(work), REQUEST_SECONDS * 2)
        except TimeoutError:
            return 503, error_body("request timed out", TIMED_OUT)

    def _done(self, _work: Any) -> None:
        self._waiting -= 1

    async def _work(self, content: bytes, deadline: float, budget: Budget) -> bytes:
        loop = asyncio.get_running_loop()
        done = await loop.run_in_executor(self._quick, self._if_quick, content, deadline, budget)
        if done is not None:
            return done
        return await loop.run_in_executor(self._slow, self._run, content, deadline, budget)

    def _if_quick(self, content: bytes, deadline: float, budget: Budget) -> bytes | None:
        return self._run(content, deadline, budget) if is_quick(content) else None

    def _run(self, content: bytes, deadline: float, budget: Budget) -> bytes:
        return answer(self._local.context, content, deadline, budget)


def _budget(headers: dict[bytes, bytes]) -> Budget:
    """Return what a request may take: the node's bounds, or less where its headers say so."""
    most = Budget()

    def asked(name: bytes, most: float) -> float:
        text = headers.get(name, b"")
        return min(most, int(text)) if text.isdigit() and len(text) < 10 else most

    return Budget(
        seconds=asked(SECONDS_HEADER, most.seconds), call_gas=int(asked(CALL_GAS_HEADER, most.call_gas))
    )


async def _read(receive: Receive) -> bytes | int:
    """Return the body, or the status of a refusal."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return 400
        size += len(message["body"])
        if size > MAX_BODY_BYTES:
            return 413
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


class Server(uvicorn.Server):
    """uvicorn with our signals left alone, that says when it answers."""

    def __init__(self, application: Application, started: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=BoundedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=3,
                backlog=MAX_CONNECTIONS,
            )
        )
        self._started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `run.py`: uvicorn would raise them again after a clean end."""
        yield

    async def startup(self, sockets: Any = None) -> None:
        """Start listening, then report it."""
        await super().startup(sockets=sockets)
        self._started()
