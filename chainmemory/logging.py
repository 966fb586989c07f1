"""Logs: JSON lines, each with an `action`; never what a user said, a key, or a URL's credentials.

Code says `from chainmemory.logging import log` and `log.info("sentence", action="noun.verb", key=value)`.
Lines of other libraries get their logger's name as the action.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from chainmemory.errors import ConfigurationError, IntegrityError, Unavailable

HANDLER = "chainmemory"
FILE_BYTES = 10 * 1024 * 1024
FILES_KEPT = 5
log: structlog.typing.FilteringBoundLogger = structlog.get_logger("chainmemory")

# Other libraries log addresses and statements below this level.
FOREIGN_LEVEL = logging.WARNING
# Messages of these types are made by the system or by us, and quote nothing a user said.
QUOTABLE = (OSError, ImportError, Unavailable, ConfigurationError, IntegrityError)
SECRETS = re.compile(r"(?<=://)[^/@\s\"]+(?=@)|\baic_[A-Za-z0-9_-]+")


def configure(process: str, *, level: str = "info", file: Path | None = None, short: bool = False) -> None:
    """Send this process's logs to `file` (rotated, mode 0600), or to stderr where there is none.

    With a file, warnings and worse go to stderr as well, in a `short` form for people; `short` is that alone.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _place_of_exception,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )

    def formatter(render: Processor) -> logging.Formatter:
        def name_process(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
            return {"process": process, **event}

        return structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_foreign_action, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, name_process, render],
        )

    unconfigure()
    root = logging.getLogger()
    console = logging.StreamHandler(sys.stderr)
    console.setFormatter(formatter(_json_line))
    if file is not None:
        to_file = RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
        to_file.setFormatter(formatter(_json_line))
        to_file.name = HANDLER
        root.addHandler(to_file)
    if file is not None or short:
        console.setFormatter(formatter(_short_line))
        console.setLevel(logging.WARNING)
    console.name = HANDLER
    root.addHandler(console)

    root.setLevel(FOREIGN_LEVEL)
    for ours in ("chainmemory", "api"):
        logging.getLogger(ours).setLevel(level.upper())
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def unconfigure() -> None:
    """Take away what `configure` set up; handlers of others stay."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler.name == HANDLER]:
        root.removeHandler(handler)
        handler.close()


def redact_url(url: str) -> str:
    """Return scheme, host and port of `url`, without credentials, path and query (they may hold API keys)."""
    parts = urlsplit(url)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def _foreign_action(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    record = event.get("_record")
    event.setdefault("action", record.name if isinstance(record, logging.LogRecord) else "log")
    return event


def _place_of_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Put type and place of an exception in the event; its message only where it can't quote a user."""
    given = event.pop("exc_info", None)
    if given:
        error = given if isinstance(given, BaseException) else None
        if error is None:
            error = given[1] if isinstance(given, tuple) else sys.exc_info()[1]
        if error is not None:
            event["exception"] = describe(error)
    return event


def describe(error: BaseException) -> dict[str, Any]:
    """Return type, place (innermost last) and cause of `error`; the message only for types in QUOTABLE."""
    described: dict[str, Any] = {"type": f"{type(error).__module__}.{type(error).__qualname__}"}
    if isinstance(error, QUOTABLE):
        described["message"] = str(error)
    described["frames"] = [
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        described["cause"] = describe(cause)
    return described


def _json_line(_: WrappedLogger, __: str, event: EventDict) -> str:
    return SECRETS.sub("***", orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode())


def _short_line(_: WrappedLogger, __: str, event: EventDict) -> str:
    """`worker warning: sentence (key=value …)`, and where an exception came from."""
    rest = dict(event)
    process, level, sentence = (rest.pop(key, "") for key in ("process", "level", "event"))
    exception = rest.pop("exception", None)
    for key in ("timestamp", "action"):
        rest.pop(key, None)
    extras = ", ".join(f"{key}={value}" for key, value in rest.items())
    line = f"{process} {level}: {sentence}" + (f" ({extras})" if extras else "")
    if exception:
        where = exception["frames"][-1] if exception["frames"] else "?"
        said = f": {exception['message']}" if "message" in exception else ""
        line += f"\n  {exception['type']}{said} at {where}"
    return SECRETS.sub("***", line)


def _log_uncaught(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        log.critical("The process ends on an error nobody caught", action="process.crash", exc_info=error)


def _log_uncaught_in_thread(uncaught: threading.ExceptHookArgs) -> None:
    name = uncaught.thread.name if uncaught.thread else "?"
    log.critical(
        f"Thread {name} ends on an error nobody caught", action="thread.crash", exc_info=uncaught.exc_value
    )
