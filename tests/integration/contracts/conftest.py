"""One chain for each module; each test's writes are undone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.evm import Evm


@pytest.fixture(scope="module")
def chain() -> Evm:
    return Evm()


@pytest.fixture
def evm(chain: Evm) -> Iterator[Evm]:
    with chain.undone():
        yield chain
