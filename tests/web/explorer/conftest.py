"""The explorer's world, for a real Chromium to look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.explorer import World, explorer_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with explorer_world(tmp_path_factory.mktemp("explorer")) as world:
        yield world
