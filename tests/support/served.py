"""The API behind a real socket: uvicorn in a thread, as `chainmemory api` runs it, and raw requests to it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from api.app import ChainMemoryAPI, create_app
from api.protocol import WholeAnswers
from chainmemory.engine.runtime import Engine
from chainmemory.settings import Settings


@dataclass
class Served:
    """A listening API."""

    port: int
    app: ChainMemoryAPI

    @property
    def engine(self) -> Engine:
        return self.app.site.engine

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def raw(self, *pieces: bytes, pause_s: float = 0.02, close: bool = False) -> bytes:
        """Send bytes in pieces and return what comes back until the answer is whole or the peer hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            for piece in pieces:
                try:
                    connection.sendall(piece)
                except (BrokenPipeError, ConnectionResetError):
                    break  # it has answered already, and hung up
                time.sleep(pause_s if len(pieces) > 1 else 0)
            if close:
                return b""
            return _read_answer(connection)

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()
    ) -> tuple[int, Any]:
        """Send one request by hand and return status and JSON."""
        lines = [f"{method} {path} HTTP/1.1", f"host: localhost:{self.port}"]
        lines += [f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        return parsed(self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body))

    def new_key(self) -> str:
        """Create an account and return its key."""
        status, made = self.request("POST", "/v1/keys")
        assert status == 201
        return str(made["api_key"])


def parsed(answer: bytes) -> tuple[int, Any]:
    """Return the first answer's status and JSON (None for an empty body)."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.JSONDecoder().raw_decode(body.decode())[0] if body else None


@contextmanager
def serving(home: Path, *, http: type[WholeAnswers] = WholeAnswers, **given: Any) -> Iterator[Served]:
    """Serve an API with a home of its own on a free port of loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    rates = {"public_rate_per_minute": 1_000_000, "public_rate_burst": 100_000}
    settings = Settings.load(home=home, port=port, **{**rates, **given})
    app = create_app(settings)
    assert isinstance(app, ChainMemoryAPI)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=http,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server didn't start"
            time.sleep(0.01)
        yield Served(port, app)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _read_answer(connection: socket.socket) -> bytes:
    answer = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return answer
        if not piece:
            return answer
        answer += piece
        head, separator, body = answer.partition(b"\r\n\r\n")
        if separator:
            lengths = [
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            ]
            if lengths and len(body) >= lengths[0]:
                return answer
