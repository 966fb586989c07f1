"""A chain's node played by a real HTTP server, for what a real one can't be brought to answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class Refusal(Exception):
    """What a function in `results` raises to be answered with an error."""


class PlayedNode:
    """Answers each method with what `results` holds: a value, or a function of the parameters."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.raw: bytes | None = None
        self.asked: list[tuple[str, list[Any]]] = []
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["content-length"])))
                node.asked.append((question["method"], question["params"]))
                body = node.raw
                if body is None:
                    answer = {"jsonrpc": "2.0", "id": question["id"]}
                    try:
                        answer["result"] = node.result_of(question["method"], question["params"])
                    except Refusal as refusal:
                        answer["error"] = {"code": -32000, "message": str(refusal)}
                    body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def result_of(self, method: str, params: list[Any]) -> Any:
        if method not in self.results:
            raise Refusal("no such method")
        result = self.results[method]
        return result(*params) if callable(result) else result


Kind = TypeVar("Kind", bound=PlayedNode)


@contextmanager
def played_node(kind: type[Kind]) -> Iterator[Kind]:
    """Play a node on a free port of loopback."""
    node = kind()
    thread = threading.Thread(target=node.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield node
    finally:
        node.server.shutdown()
        node.server.server_close()
        thread.join()
