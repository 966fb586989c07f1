"""Logs: one JSON line each, with an action, and nothing in them that must not be there."""

from __future__ import annotations

import json
import logging as standard
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from chainmemory import logging
from chainmemory.errors import Unavailable
from chainmemory.logging import log, redact_url

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Any]:
    """Log to a file; calling the fixture's value returns what is in it."""
    file = tmp_path / "x.log"
    root = standard.getLogger()
    level, hook, thread_hook = root.level, sys.excepthook, threading.excepthook
    logging.configure("x", file=file)
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    logging.unconfigure()
    sys.excepthook, threading.excepthook = hook, thread_hook
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_line_says_what_when_and_where(lines: Any) -> None:
    log.info("Saved", action="memory.save", number=7)
    [line] = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "process": "x",
        "level": "info",
        "event": "Saved",
        "action": "memory.save",
        "number": 7,
    }


def test_lines_of_other_libraries_have_an_action_too(lines: Any) -> None:
    standard.getLogger("some.library").warning("odd %s", "thing")
    [line] = lines()
    assert (line["action"], line["event"]) == ("some.library", "odd thing")


def test_other_libraries_stay_quiet_below_warnings(lines: Any) -> None:
    standard.getLogger("httpx").info("HTTP Request: POST https://user:pass@host/")
    assert lines() == []


def test_credentials_and_keys_are_struck_out(lines: Any) -> None:
    log.warning("to https://user:pass@host/x", action="a.b", key="aic_Secret-1", url="http://:tok@h/")
    text = json.dumps(lines())
    assert all(secret not in text for secret in ("user", "pass", "Secret", "tok"))


def test_an_exception_is_told_by_type_and_place_without_its_text(lines: Any) -> None:
    try:
        raise ValueError("what a user said")
    except ValueError:
        log.error("Failed", action="a.b", exc_info=True)
    [line] = lines()
    assert line["exception"]["type"] == "builtins.ValueError"
    assert "test_logging.py" in line["exception"]["frames"][-1]
    assert "what a user said" not in json.dumps(line)


def test_messages_of_the_system_and_ours_are_told(lines: Any) -> None:
    try:
        try:
            raise ValueError("what a user said")
        except ValueError as error:
            raise Unavailable("The chain doesn't answer.") from error
    except Unavailable:
        standard.getLogger("other").error("Failed", exc_info=True)
    [line] = lines()
    assert line["exception"]["message"] == "The chain doesn't answer."
    assert line["exception"]["cause"]["type"] == "builtins.ValueError"
    assert "what a user said" not in json.dumps(line)


def test_an_uncaught_error_of_a_thread_is_logged(lines: Any) -> None:
    def fail() -> None:
        raise KeyError("what a user said")

    thread = threading.Thread(target=fail, name="t1")
    thread.start()
    thread.join()
    [line] = lines()
    assert (line["action"], line["level"]) == ("thread.crash", "critical")
    assert "what a user said" not in json.dumps(line)


def test_warnings_reach_people_in_short(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from chainmemory import logging
logging.configure("x", file=Path(sys.argv[1]))
logging.log.info("quiet", action="a.b")
logging.log.warning("loud", action="a.b", child="api")
raise ValueError("what a user said")
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x.log")], capture_output=True, text=True, cwd=ROOT
    )
    assert ran.stderr.splitlines() == [
        "x warning: loud (child=api)",
        "x critical: The process ends on an error nobody caught",
        "  builtins.ValueError at <string>:8 <module>",
    ]
    assert [json.loads(line)["action"] for line in (tmp_path / "x.log").read_text().splitlines()] == [
        "a.b",
        "a.b",
        "process.crash",
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pass@host:8545/v3/APIKEY?k=1", "https://host:8545"),
        ("http://host/", "http://host"),
        ("http://[::1]:8545", "http://[::1]:8545"),
        ("http://host:notaport/", "http://host"),
    ],
)
def test_redacted_urls(url: str, shown: str) -> None:
    assert redact_url(url) == shown
