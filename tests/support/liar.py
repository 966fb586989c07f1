"""A server between a client and the real one, which passes everything on and may change the answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

Change = Callable[[str, Any, Any], Any]
"""(path, the request's JSON or None, the answer's JSON) to the answer's JSON as the client is to see it."""

PASSED_ON = ("x-api-key", "content-type", "idempotency-key")


@contextmanager
def lying(target: str, change: Change) -> Iterator[str]:
    """Run such a server in front of `target`; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
            with httpx.Client(trust_env=False, timeout=60) as real:
                answer = real.request(self.command, target + self.path, content=body, headers=headers)
            changed = change(self.path, json.loads(body) if body else None, answer.json())
            told = json.dumps(changed).encode()
            self.send_response(answer.status_code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
