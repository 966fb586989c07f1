"""Fixtures of the API's tests: the whole API on a fresh store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api import Account, Api, running_api
from tests.support.databases import fresh_database_url


@pytest.fixture
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    """Run the API on SQLite, or on what a test parametrises it with."""
    engine = getattr(request, "param", "sqlite")
    with (
        fresh_database_url(engine, tmp_path, migrated=True) as url,
        running_api(tmp_path, url) as running,
    ):
        yield running


@pytest.fixture
def ada(api: Api) -> Account:
    """An account."""
    return api.account()


@pytest.fixture
def bob(api: Api) -> Account:
    """Another account."""
    return api.account()


@pytest.fixture(scope="module")
def eve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account on an API that a whole file of refusals shares: they write nothing."""
    home = tmp_path_factory.mktemp("home")
    with fresh_database_url("sqlite", home, migrated=True) as url, running_api(home, url) as running:
        yield running.account()
