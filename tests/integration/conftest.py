"""Fixtures of the integration ring: the store on either engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.store.database import Database
from tests.support.databases import ENGINES, empty_database_url, fresh_database_url


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a fresh, empty database, once for each engine."""
    with fresh_database_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture(params=ENGINES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Give an open database with its tables and nothing in them, once for each engine."""
    with (
        empty_database_url(request.param, tmp_path) as url,
        Database.open(url) as database,
    ):
        yield database
