"""One server, with an account kept in its home, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chainmemory.client import Client
from tests.support.server import Server, cli


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("demo") / "home").start()
    assert cli(server.home, "keys", "create").returncode == 0
    yield server
    server.end()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """A client with an account of its own."""
    with server.account() as client:
        yield client
