"""Fixtures of the worker's tests: a real store on either engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.store.database import Database
from tests.support.databases import ENGINES, fresh_database_url


@pytest.fixture(params=ENGINES)
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a fresh database, once for each engine."""
    with fresh_database_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def db(db_url: str) -> Iterator[Database]:
    with Database.open(db_url) as database:
        yield database
