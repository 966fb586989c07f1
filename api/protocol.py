"""uvicorn's HTTP protocol, bounded, and with head and body of an answer in one piece.

Bounded: uvicorn itself keeps headers of any size, waits for ever for a request to arrive, and takes
connections until the process has no file left to open the store with. In one piece: uvicorn hands head and
body to the socket one by one, which is two system calls, and a client that is woken for a head alone.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.errors import envelope
from chainmemory.errors import ChainMemoryError

JOINED_BYTES = 64 * 1024  # joining pieces of more costs more than the system call it saves
MAX_HEADER_BYTES = 64 * 1024
MAX_CONNECTIONS = 4096
KEPT_FILES = 128
"""Files the process needs besides its connections: the store's, the logs, the chain's."""
ARRIVAL_S = 60.0
"""For a request to arrive whole, and for a new connection's first one to begin."""


class WholeAnswers(HttpToolsProtocol):
    """To be given to uvicorn as `http`."""

    arrival_s = ARRIVAL_S
    most: int | None = None
    """Connections at once; None: as many as the process has files for."""
    _head_bytes = 0
    _in_head = False
    _whole = False
    _arrival: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put a cork between the protocol and its transport; turn away what is too much."""
        self._cork = Cork(cast(asyncio.Transport, transport))
        super().connection_made(cast(asyncio.Transport, self._cork))
        if len(self.connections) > (self.most or most_connections()):
            self._end(
                "503 Service Unavailable", "Too many connections at once; try again later.", "overloaded"
            )
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, unless it is fed one head without an end."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle:
            self._whole = False
        super().data_received(data)
        if idle and not self._whole and self._arrival is None:
            self._await_request()  # most requests come in one piece, and need no timer
        if self._in_head:  # still, after all of this
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEADER_BYTES:
                self._end(
                    "431 Request Header Fields Too Large",
                    f"The request's headers are larger than {MAX_HEADER_BYTES} bytes; send less.",
                    "too_large",
                )

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what was asked for whole by a client that ended its side of the connection, then hang up."""
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            self.cycle.keep_alive = False
        else:
            self.transport.close()
        return True  # the transport isn't to be closed under the cork

    def on_message_begin(self) -> None:
        """Count the head's bytes from here on."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Stop counting."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop waiting."""
        self._whole = True
        self._arrived()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Let the answer go out at once, before anything else is done."""
        self._cork.flush()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Tell what is no HTTP in the shape of every error."""
        self._end("400 Bad Request", msg, "invalid_http")

    def _should_upgrade_to_ws(self) -> bool:
        return False  # nothing here speaks it; the request is answered as the plain one it also is

    def _unsupported_upgrade_warning(self) -> None:
        pass

    def _await_request(self) -> None:
        self._arrival = self.loop.call_later(self.arrival_s, self._too_slow)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _too_slow(self) -> None:
        if self.flow.read_paused:  # it is we who don't read: an earlier request isn't answered yet
            self._await_request()
        elif self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self._end(
                "408 Request Timeout", "The request took too long to arrive; send it again.", "too_slow"
            )
        else:
            self.transport.close()

    def _end(self, status: str, message: str, code: str) -> None:
        """Answer in place of the application, and hang up."""
        body = envelope(ChainMemoryError(message, code=code))
        head = (
            f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()


def most_connections() -> int:
    """Return how many connections at once leave the process the files it needs itself."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files < 0 else min(MAX_CONNECTIONS, max(32, files - KEPT_FILES))


class Cork:
    """A transport that writes at the end of the loop's turn what was written during it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep a piece; all of them go out together."""
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Keep several pieces."""
        for piece in pieces:
            self.write(piece)

    def write_eof(self) -> None:
        """Write what is kept, then end this side."""
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Write what is kept, then close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Drop what is kept, and the connection."""
        self._pieces.clear()
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def flush(self) -> None:
        """Write what is kept."""
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            if self._transport.is_closing():
                return  # the client hung up meanwhile
            if sum(map(len, pieces)) <= JOINED_BYTES:
                self._transport.write(b"".join(pieces))
            else:
                self._transport.writelines(pieces)
