"""The explorer's world: one for the whole session, since its chain takes seconds to make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chainmemory.engine.explorer import Explorer
from tests.support.explorer import World, explorer_world


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with explorer_world(tmp_path_factory.mktemp("explorer")) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """Give the world with nothing remembered of earlier pages, and a node that behaves."""
    engine = shared_world.app.site.engine
    engine.explorer.close()
    engine.explorer = Explorer(engine.settings, engine.db, engine.chain)
    yield shared_world
    shared_world.door.behave = lambda request: None
