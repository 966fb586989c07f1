"""The routes, one file per noun."""

from __future__ import annotations

from api.door import Doors
from api.routes import (
    accounts,
    explorer,
    ledger,
    ledger_files,
    memories,
    memory,
    memory_save,
    operations,
    projects,
    rpc,
    state,
    state_text,
    verification,
)
from api.web import pages

ALL: tuple[Doors, ...] = (
    accounts.doors,
    memory_save.doors,
    memories.doors,
    memory.doors,
    projects.doors,
    state.doors,
    state_text.doors,
    verification.doors,
    ledger.doors,
    ledger_files.doors,
    operations.doors,
    rpc.doors,
    pages.doors,
    explorer.doors,
)
