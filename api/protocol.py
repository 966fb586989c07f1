"""uvicorn's HTTP protocol, with head and body of an answer in one piece.

uvicorn hands them to the socket one by one: two system calls, and a client that is woken for a head alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

JOINED_BYTES = 64 * 1024  # joining pieces of more costs more than the system call it saves


class WholeAnswers(HttpToolsProtocol):
    """To be given to uvicorn as `http`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put a cork between the protocol and its transport."""
        super().connection_made(cast(asyncio.Transport, Cork(cast(asyncio.Transport, transport))))


class Cork:
    """A transport that writes at the end of the loop's turn what was written during it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep a piece; all of them go out together."""
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Keep several pieces."""
        for piece in pieces:
            self.write(piece)

    def write_eof(self) -> None:
        """Write what is kept, then end this side."""
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Write what is kept, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Drop what is kept, and the connection."""
        self._pieces.clear()
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            if sum(map(len, pieces)) <= JOINED_BYTES:
                self._transport.write(b"".join(pieces))
            else:
                self._transport.writelines(pieces)
