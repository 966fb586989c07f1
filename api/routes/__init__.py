"""The routes, one file per noun."""

from __future__ import annotations

from api.door import Doors
from api.routes import accounts, explorer, memories, operations, projects, rpc, state, verification
from api.web import pages

ALL: tuple[Doors, ...] = (
    accounts.doors,
    memories.doors,
    projects.doors,
    state.doors,
    verification.doors,
    operations.doors,
    rpc.doors,
    pages.doors,
    explorer.doors,
)
