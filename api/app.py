"""The HTTP API of ChainMemory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp, Receive, Scope, Send

from api.door import Call, Door, Doors
from api.openapi import DoorRoute, complete
from api.routes import ALL
from api.shell import Shell, not_found
from api.site import Site
from chainmemory import __version__
from chainmemory.settings import Settings

DESCRIPTION = """\
A memory for AI agents that can be proved: encrypted memories, versioned project states that cite them, and a
proof-of-authority chain that witnesses both.

**Errors** have one shape on every 4xx and 5xx: `{"error", "code", "field", "details"}`. They are checked in
this order: 401; 413; `invalid_json`; shape 422; 403/404; 409; other 422. 429 any time.

**Times** are UTC with six decimals, `2026-09-13T22:02:35.000000Z`; `timestamp` alone is Unix seconds.
In bodies and queries `project_id` means the project's slug; a `0x…` value in an answer is the hashed id.
"""


class ChainMemoryAPI(FastAPI):
    """FastAPI with the lean shell in place of its middleware stack (see api.shell)."""

    def __init__(self, settings: Settings) -> None:
        self.site = Site(settings)
        super().__init__(
            title="ChainMemory",
            version=__version__,
            description=DESCRIPTION,
            docs_url=None,  # its page loads scripts from a CDN
            redoc_url=None,
            openapi_url=None,  # a door of our own serves the document
            redirect_slashes=False,
            lifespan=_lifespan,
        )
        self.doors: list[Door] = [door for doors in (*ALL, _own_doors(self)) for door in doors.doors]
        self.router.routes.extend(DoorRoute(door) for door in self.doors)
        self.router.default = not_found

        self._shell = Shell(self.site, self.doors, self.router)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request through the shell alone; FastAPI's own telemetry asks the environment each time."""
        if scope["type"] == "http":
            scope["app"] = self
            await self._shell(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Return the shell; it answers every error itself, so there is nothing to wrap."""
        return self._shell

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title, version=self.version, description=self.description, routes=self.routes
            )
            complete(document, self.doors)
            self.openapi_schema = document
        return self.openapi_schema


def create_app(settings: Settings) -> FastAPI:
    """Return the API as an ASGI application; the engine opens at its start-up and closes at its shut-down."""
    return ChainMemoryAPI(settings)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, ChainMemoryAPI)
    await asyncio.to_thread(app.site.open)
    try:
        yield
    finally:
        await app.site.close_http()
        await asyncio.to_thread(app.site.close)


def _own_doors(app: ChainMemoryAPI) -> Doors:
    doors = Doors("Operations")

    @doors.get(
        "/openapi.json",
        needs="nothing",
        summary="This document",
        answer={"type": "object"},
        example={"openapi": "3.1.0"},
    )
    def openapi_document(_call: Call) -> dict[str, Any]:
        return app.openapi()

    return doors
