"""Fixtures of the worker's tests: a real store; SQLite, or what a test parametrises `db_url` with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.store.database import Database
from tests.support.chains import TesterChain
from tests.support.databases import fresh_database_url


@pytest.fixture
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a fresh database that is migrated already."""
    with fresh_database_url(getattr(request, "param", "sqlite"), tmp_path, migrated=True) as url:
        yield url


@pytest.fixture(scope="session")
def deployed_chain() -> TesterChain:
    return TesterChain.with_contracts()


@pytest.fixture
def chain(deployed_chain: TesterChain) -> Iterator[TesterChain]:
    """Give an in-process chain with both contracts and nothing in them."""
    with deployed_chain.undone():
        yield deployed_chain


@pytest.fixture
def db(db_url: str) -> Iterator[Database]:
    with Database.open(db_url) as database:
        yield database
