"""The cork: what is written in one turn of the loop goes out together, in order, before the end."""

from __future__ import annotations

import asyncio
from typing import Any

from api.protocol import JOINED_BYTES, Cork


class _Line:
    """What a transport was told, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def writelines(self, pieces: list[bytes]) -> None:
        self.told.append(list(pieces))

    def write_eof(self) -> None:
        self.told.append("eof")

    def close(self) -> None:
        self.told.append("close")

    def abort(self) -> None:
        self.told.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.told


def _corked(*turns: Any) -> list[Any]:
    """Run functions of a cork, a turn of the loop each, and return what came out."""

    async def main() -> list[Any]:
        line = _Line()
        cork = Cork(line)  # type: ignore[arg-type]
        for turn in turns:
            turn(cork)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert cork.is_closing() == line.is_closing()
        return line.told

    return asyncio.run(main())


def test_head_and_body_go_out_together() -> None:
    def answer(cork: Cork) -> None:
        cork.write(b"head ")
        cork.write(b"body")

    assert _corked(answer, answer) == [b"head body", b"head body"]
    assert _corked(lambda cork: cork.writelines([b"a", b"b"])) == [b"ab"]


def test_large_pieces_are_not_copied_together() -> None:
    body = b"x" * JOINED_BYTES

    def answer(cork: Cork) -> None:
        cork.write(b"head")
        cork.write(body)

    assert _corked(answer) == [[b"head", body]]


def test_an_ending_connection_gets_what_was_written() -> None:
    def close(cork: Cork) -> None:
        cork.write(b"last")
        cork.close()

    def eof(cork: Cork) -> None:
        cork.write(b"last")
        cork.write_eof()

    def abort(cork: Cork) -> None:
        cork.write(b"last")
        cork.abort()

    assert _corked(close) == [b"last", "close"]
    assert _corked(eof) == [b"last", "eof"]
    assert _corked(abort) == ["abort"]


def test_what_was_written_before_the_client_hung_up_is_dropped() -> None:
    """A transport that is closed already raises where it is given several pieces."""

    def gone(cork: Cork) -> None:
        cork.write(b"head")
        cork.write(b"x" * JOINED_BYTES)
        cork._transport.close()

    assert _corked(gone) == ["close"]
