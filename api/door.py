"""A door: one route with everything that has to be known about it, for the server and for the OpenAPI
document."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from chainmemory.engine.shapes import Kind, Record

if TYPE_CHECKING:
    from api.site import Site
    from chainmemory.engine.callers import Caller, Scope
    from chainmemory.engine.once import Once
    from chainmemory.engine.runtime import Engine
    from chainmemory.errors import ChainMemoryError

Needs = Literal["nothing", "public", "local", "read", "write", "owner"]
"""Whom a door lets in: anybody, anybody at a limited rate (a key is welcome where `knows_key`), a program of
this very machine, or a key's scope."""

Schema = dict[str, Any]

_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII)


@dataclass(slots=True)
class Call:
    """One request, checked: what a handler gets."""

    site: Site
    engine: Engine
    caller_or_none: Caller | None
    path: dict[str, Any]
    query: dict[str, Any]
    body: Any
    raw: bytes
    once: Once | None
    headers: list[tuple[bytes, bytes]]
    peer: str | None
    scheme: str

    @property
    def base(self) -> str:
        """This server's address as the client calls it, without a last slash; "" where Host is no host."""
        host = next((value for name, value in self.headers if name == b"host"), b"").decode("latin-1")
        return f"{self.scheme}://{host}" if _HOST.fullmatch(host) else ""

    @property
    def caller(self) -> Caller:
        """The account behind the key; on doors that need one."""
        assert self.caller_or_none is not None, "this door needs no key, so there may be no caller"
        return self.caller_or_none


@dataclass(slots=True)
class Answer:
    """What goes out: a JSON-able body, bytes of another media type, or an iterator that makes them piece by
    piece (each in the thread pool). Status None is the door's own."""

    body: Any
    status: int | None = None
    media: str = "application/json"
    headers: Sequence[tuple[bytes, bytes]] = ()
    cache: bytes = b"no-store"


@dataclass(frozen=True)
class Door:
    """One route.

    `handler` gets a Call and returns a JSON-able value, an Answer, or (on writing routes) a Written. A plain
    function runs in the thread pool, a coroutine function in the event loop. `body`: the shape of a JSON
    body, None for no body. `json`: whether the body is parsed at all. `once`: takes Idempotency-Key.
    """

    method: str
    path: str
    handler: Callable[[Call], Any]
    needs: Needs
    summary: str
    answer: Schema
    tag: str
    status: int = 200
    description: str = ""
    body: Kind | None = None
    body_required: bool = True
    body_example: Any = None
    params: Mapping[str, Kind] = field(default_factory=dict)
    query: Record | None = None
    query_notes: Mapping[str, str] = field(default_factory=dict)
    example: Any = None
    errors: tuple[int, ...] = ()
    once: bool = False
    knows_key: bool = False
    media: str = "application/json"
    documented: bool = True
    may_say_nothing: bool = False
    """Whether 204 may answer it, instead of `status`."""
    refuse: Callable[[ChainMemoryError], Answer] | None = None
    """How the door tells an error, where it isn't with the envelope: a page for people."""
    in_loop: bool = field(init=False)
    scope: Scope | None = field(init=False)
    """The scope a key must have; None where no key is needed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_loop", inspect.iscoroutinefunction(self.handler))
        object.__setattr__(
            self, "scope", None if self.needs in ("nothing", "public", "local") else self.needs
        )


class Doors:
    """The doors of one noun, collected by decorator."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.doors: list[Door] = []

    def get(self, path: str, **rules: Any) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        """Declare a GET door; `rules` are Door's fields."""
        return self._door("GET", path, rules)

    def post(self, path: str, **rules: Any) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        """Declare a POST door."""
        return self._door("POST", path, rules)

    def put(self, path: str, **rules: Any) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        """Declare a PUT door."""
        return self._door("PUT", path, rules)

    def delete(self, path: str, **rules: Any) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        """Declare a DELETE door."""
        return self._door("DELETE", path, rules)

    def _door(
        self, method: str, path: str, rules: dict[str, Any]
    ) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        def declare(handler: Callable[[Call], Any]) -> Callable[[Call], Any]:
            self.doors.append(Door(method=method, path=path, handler=handler, tag=self.tag, **rules))
            return handler

        return declare
