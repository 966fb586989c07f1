"""The project that the tests of single ops start from."""

from __future__ import annotations

import pytest

from tests.support.grammar import SEED
from tests.support.states import Project


@pytest.fixture(scope="module")
def seeded() -> Project:
    project = Project()
    assert project.call(*SEED).rejected == []
    return project
