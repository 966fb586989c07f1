"""A real Chromium for the pages' tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

SHOTS = os.environ.get("CHAINMEMORY_TEST_SCREENSHOTS")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Give a headless Chromium of this machine.

    Playwright's event loop counts as running in this thread while it lives, so it ends with its file: tests
    of asyncio may come after it in the same process.
    """
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder for screenshots: CHAINMEMORY_TEST_SCREENSHOTS, or a temporary one."""
    if SHOTS is None:
        return tmp_path_factory.mktemp("shots")
    folder = Path(SHOTS)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
