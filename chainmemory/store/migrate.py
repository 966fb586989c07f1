"""Bring a database to this version's tables with Alembic, safely when several processes open it at once."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from chainmemory.errors import ConfigurationError, Conflict
from chainmemory.store.backend import Backend, in_session

REVISIONS = ("0001",)  # oldest first, as in migrations/versions
HEAD = REVISIONS[-1]

_ATTEMPTS = 5
# Alembic keeps the running environment in module globals.
_one_at_a_time = threading.Lock()


def migrate(backend: Backend) -> None:
    """Apply the migrations that are missing, all in one transaction.

    A process that finds another at it waits, then finds nothing left to do. Raises ConfigurationError if a
    newer version of this program made the tables, Unavailable if the database can't be used.
    """
    for attempt in range(_ATTEMPTS):
        try:
            _migrate_once(backend)
        except Conflict:
            # Two processes created the first tables at the same moment; the loser looks again.
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _migrate_once(backend: Backend) -> None:
    with in_session(backend, backend.begin_write) as session:
        backend.lock_schema(session.connection)
        if _revision(session.connection) != HEAD:
            with _one_at_a_time:
                _upgrade(session.connection)
        backend.commit(session)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if revision is not None and revision not in REVISIONS:
        raise ConfigurationError(
            f"The tables are of a newer version of ChainMemory (revision {revision}); upgrade this one."
        )
    return revision


def _upgrade(connection: Connection) -> None:
    # Alembic takes a third of a second to import, and is needed only where something is to be migrated.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
