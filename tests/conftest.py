"""The rings: tests that need a tool beyond Python and git run only where `--ring` asks for them.

A ring that is off is said to be off, with the number of tests left out. A ring that is on fails where its
tool is missing: a test that was asked for is never skipped.

And how several processes share the work: see the hooks of xdist.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = pytest.StashKey[Counter[str]]()
# Areas of tests by how long their files take: what is short at the end lets all processes end together.
LONGEST_FIRST = ("web", "fault", "integration", "property", "unit")
# Folders whose files share a server or a chain of the session: one process makes it, and runs all of them.
SHARING = ("integration/demo", "integration/explorer", "integration/judges")


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _geth() -> bool:
    built = ROOT / ".rings" / "bin" / "geth"
    return built.exists() or bool(os.environ.get("CHAINMEMORY_TEST_GETH")) or bool(shutil.which("geth"))


def _node() -> bool:
    return bool(shutil.which("node")) and bool(shutil.which("npm"))


# ring: (is its tool there?, how to get the tool)
RINGS: dict[str, tuple[Callable[[], bool], str]] = {
    "chromium": (_program("chromium", "chromium-browser", "google-chrome"), "apt-get install chromium"),
    "geth": (_geth, "scripts/build-geth (needs Go)"),
    "node": (_node, "install Node.js 20 or newer with npm"),
    "strace": (_program("strace"), "apt-get install strace"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ring",
        action="append",
        default=[],
        metavar="NAME",
        choices=[*RINGS, "all"],
        help=f"also run the tests that need this tool ({', '.join(RINGS)} or all); may be repeated",
    )


def rings_on(config: pytest.Config) -> set[str]:
    asked = set(config.getoption("--ring"))
    return set(RINGS) if "all" in asked else asked


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    off = set(RINGS) - rings_on(config)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        needs_off = sorted(off & {mark.name for mark in item.iter_markers()})
        config.stash[LEFT_OUT].update(needs_off)
        (left_out if needs_off else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
    # Under xdist only the workers collect, so the count travels to the one that prints.
    if hasattr(config, "workeroutput"):
        items.sort(key=_area)
        config.workeroutput["rings_left_out"] = dict(config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over a worker's count; all workers collect the same tests, so the largest is the true one."""
    for ring, count in getattr(node, "workeroutput", {}).get("rings_left_out", {}).items():
        counts = node.config.stash[LEFT_OUT]
        counts[ring] = max(counts[ring], count)


def _area(item: pytest.Item) -> int:
    area = item.nodeid.split("/")[1]
    return LONGEST_FIRST.index(area) if area in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Run one process more than there are processors: 4 parts of 10 are waiting for blocks of a second."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len(usable) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out files in the order they are collected in, and those of a sharing folder together.

    By itself loadfile hands out the files with the fewest tests last, which are the longest here.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folders = (f"tests/{folder}/" for folder in SHARING)
            return next(filter(nodeid.startswith, folders), None) or super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return Files(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers():
        if mark.name in RINGS:
            present, how = RINGS[mark.name]
            if not present():
                pytest.fail(f"ring {mark.name} is on, but its tool is missing: {how}", pytrace=False)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for ring, count in sorted(config.stash[LEFT_OUT].items()):
        terminalreporter.write_line(
            f"ring {ring} is off: {count} test{'s' if count != 1 else ''} not run; "
            f"switch on with --ring {ring} (or --ring all)",
            yellow=True,
        )
