"""What every process of a server does first: settings, private files, logs, and an eye on its supervisor."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time

from chainmemory import logging
from chainmemory.cli.supervisor import LIFELINE_VARIABLE
from chainmemory.errors import ConfigurationError
from chainmemory.logging import log
from chainmemory.settings import Settings

# Number of the listening socket that the supervisor opened for the child.
SOCKET_VARIABLE = "CHAINMEMORY_SUPERVISOR_SOCKET"
EXIT_ORPHAN = 70


def begin(process: str, settings: Settings) -> None:
    """Set up logs and, under a supervisor, stop when it is gone."""
    os.umask(0o077)
    lifeline = os.environ.get(LIFELINE_VARIABLE)
    # Alone, logs go to stderr, for whatever runs the process to collect; under serve they are files.
    file = settings.logs_dir / f"{process}.log" if lifeline else None
    logging.configure(process, level=settings.log_level, file=file)
    if lifeline:
        threading.Thread(
            target=_watch, args=(int(lifeline), settings.grace_s), name="lifeline", daemon=True
        ).start()
    log.info(f"The {process} process starts", action="process.start", pid=os.getpid())


def _watch(lifeline: int, grace_s: float) -> None:
    """Wait for the pipe's other end to close, which happens only when the supervisor has ended."""
    while os.read(lifeline, 1):
        pass
    log.warning("The supervisor is gone; stopping", action="process.orphan")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    log.error("Didn't stop in time after the supervisor was gone; ending at once", action="process.orphan")
    os._exit(EXIT_ORPHAN)


def stop_on_signal() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def listen(host: str, port: int, *, what: str, option: str) -> socket.socket:
    """Return a listening TCP socket; port 0 takes a free one.

    Raises ConfigurationError, naming `what` wants the port and the `option` that changes it.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"{what} can't listen on {host}: {error.strerror or error}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"Port {port} on {host}, which {what} needs, is taken by another program. "
                f"Stop that program, or choose another port with {option}."
            ) from error
        raise ConfigurationError(
            f"{what} can't listen on {host} port {port}: {error.strerror or error}."
        ) from error
    return listener


def inherited_socket(process: str) -> socket.socket | None:
    """Return the listening socket the supervisor made for `process`, or None where it runs alone."""
    fd = os.environ.get(f"{SOCKET_VARIABLE}_{process.upper()}")
    return socket.socket(fileno=int(fd)) if fd else None
