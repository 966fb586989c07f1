"""The explorer's world: one for the whole session, since its chain takes seconds to make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chainmemory.engine.explorer import Explorer
from tests.support.explorer import World, explorer_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with explorer_world(tmp_path_factory.mktemp("explorer")) as world:
        yield world


@pytest.fixture
def forgetful(world: World) -> Iterator[None]:
    """Remember nothing of earlier pages, nor, afterwards, of what a misbehaving node said."""

    def forget() -> None:
        engine = world.app.site.engine
        engine.explorer.close()
        engine.explorer = Explorer(engine.settings, engine.db, engine.chain)

    forget()
    yield
    world.door.behave = lambda request: None
    forget()
