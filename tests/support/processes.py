"""Real other processes for tests, started quickly: a fork server that has the imports done."""

from __future__ import annotations

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["alembic.command", "tests.support.saving"])
