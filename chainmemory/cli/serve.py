"""`chainmemory serve`: chain, API and worker as one server on one home."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from chainmemory import logging
from chainmemory.cli import options
from chainmemory.cli.child import SOCKET_VARIABLE, listen
from chainmemory.cli.home import HomeLock, RunNote, address, prepare_home
from chainmemory.cli.output import say
from chainmemory.cli.streams import OutputLost
from chainmemory.cli.supervisor import ChildSpec, Supervisor
from chainmemory.engine.lost_store import refuse_lost_store
from chainmemory.errors import ConfigurationError
from chainmemory.logging import log
from chainmemory.settings import Settings, unknown_variables

READY_POLL_S = 0.1
SLOW_START_S = 30.0
# The chain and the worker handle hashes and ciphertext only.
SECRETS_OF_THE_API = frozenset({"CHAINMEMORY_MASTER_KEY", "CHAINMEMORY_ADMIN_TOKEN"})


def serve(
    home: options.Home = None,
    host: options.Host = None,
    port: options.Port = None,
    chain_port: options.ChainPort = None,
    rpc_url: options.RpcUrl = None,
    database_url: options.DatabaseUrl = None,
    log_level: options.LogLevel = None,
) -> None:
    """Run the server: the chain, the API and the anchor worker. Ctrl-C stops it."""
    settings = Settings.load(
        home=home,
        host=host,
        port=port,
        chain_port=chain_port,
        rpc_url=rpc_url,
        database_url=database_url,
        log_level=log_level,
    )
    logging.configure("serve", level=settings.log_level)
    # A new home isn't begun before its ports are free. One that is there is locked first: a port may be taken
    # by the server that runs on it, which is the better thing to tell.
    listeners = None if settings.home.exists() else _listen(settings)
    prepare_home(settings.home)
    logging.configure("serve", level=settings.log_level, file=settings.logs_dir / "serve.log")
    for name in unknown_variables(os.environ):
        log.warning(f"The variable {name} is no setting, so it does nothing", action="settings.unknown")

    if not settings.loopback:
        log.warning(
            f"Listening on {settings.host}, where others may reach it: put TLS in front; "
            "new accounts need CHAINMEMORY_ADMIN_TOKEN",
            action="serve.exposed",
        )
    lock = HomeLock.take(settings)
    try:
        refuse_lost_store(settings)
        listeners = listeners or _listen(settings)
        ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
        settings = settings.model_copy(
            update={"port": ports["api"], "chain_port": ports.get("chain", settings.chain_port)}
        )
        _run(settings, lock, listeners)
    finally:
        lock.release()


def _listen(settings: Settings) -> dict[str, socket.socket]:
    """Open the ports here: a taken one is told at once, and a child that restarts never loses its own."""
    listeners = {"api": listen(settings.host, settings.port, what="the API", option="--port")}
    if settings.embedded:
        try:
            listeners["chain"] = listen(
                "127.0.0.1", settings.chain_rpc_port, what="the embedded chain", option="--chain-port"
            )
        except ConfigurationError:
            listeners["api"].close()
            raise
    return listeners


def _run(settings: Settings, lock: HomeLock, listeners: dict[str, socket.socket]) -> None:
    url = address(settings.host, settings.port)
    chain_url = settings.chain_url if settings.embedded else None

    def child(name: str, *, stop_rank: int = 0, essential: bool = True) -> ChildSpec:
        fds = [lock.fd] + ([listeners[name].fileno()] if name in listeners else [])
        withheld = frozenset() if name == "api" else SECRETS_OF_THE_API
        command = [sys.executable, "-m", "chainmemory.cli.processes", name]
        return ChildSpec(name, command, stop_rank, fds, withheld, essential)

    # The chain stops last: the worker may still be writing down what it sent.
    children = [child("chain", stop_rank=1)] if settings.embedded else []
    children += [child("api"), child("worker", essential=False)]
    environ = {**os.environ, **settings.environment()}
    for name, listener in listeners.items():
        environ[f"{SOCKET_VARIABLE}_{name.upper()}"] = str(listener.fileno())

    def changed(pids: dict[str, int]) -> None:
        _put_down(RunNote(os.getpid(), url, chain_url, pids), settings)

    _say(f"ChainMemory is starting on the home {settings.home} …")
    try:
        Supervisor(
            children,
            environ=environ,
            grace_s=settings.grace_s,
            changed=changed,
            ready=lambda ending: _wait_until_ready(url, settings, ending),
        ).run()
    finally:
        RunNote.remove(settings)
    _say("ChainMemory has stopped.")


def _put_down(note: RunNote, settings: Settings) -> None:
    """Write `run.json`. Where that fails (a full disk) the server runs on, until the next change."""
    try:
        note.write(settings)
    except OSError as error:
        log.error(f"{settings.run_file} can't be written: {error.strerror}", action="serve.note_failed")


def _wait_until_ready(url: str, settings: Settings, ending: threading.Event) -> bool:
    """Poll /readyz; then say where to look. Return False where the server ends before it is ready."""
    began = time.monotonic()
    told_slow = False
    while not ending.wait(READY_POLL_S):
        problem = _readyz(url)
        if problem is None:
            log.info("Ready", action="serve.ready", seconds=round(time.monotonic() - began, 3))
            _say(_welcome(url, settings))
            return True
        if not told_slow and time.monotonic() - began > SLOW_START_S:
            _say(
                f"Still starting after {SLOW_START_S:.0f} s ({problem}). A busy machine takes longer; "
                f"what each process does is in {settings.logs_dir}."
            )
            told_slow = True
    return False


def _readyz(url: str) -> str | None:
    """Return None where the server is ready, else what it (or the connection) says."""
    try:
        # Never through a proxy of the environment: this is our own address.
        with build_opener(ProxyHandler({})).open(f"{url}/readyz", timeout=5) as answer:
            return None if answer.status == 200 else f"/readyz answers {answer.status}"
    except HTTPError as error:
        with error:
            return f"/readyz answers {error.code}: {error.read(2000).decode(errors='replace')}"
    except TimeoutError:
        return "the API hasn't answered yet"
    except (OSError, HTTPException) as error:
        return f"/readyz doesn't answer ({type(error).__name__})"


def _welcome(url: str, settings: Settings) -> str:
    program = "chainmemory" if shutil.which("chainmemory") else Path(sys.executable).with_name("chainmemory")
    here = (
        ""
        if settings.home == Settings.model_fields["home"].default.expanduser()
        else f" --home {settings.home}"
    )
    return f"""
ChainMemory is ready.

  API         {url}   (OpenAPI: {url}/openapi.json)
  Explorer    {url}/explorer
  Verify      {url}/verify/NAME
  Health      {url}/readyz
  Home        {settings.home}   (logs in logs/)

Try, in another terminal:

  curl -X POST {url}/v1/keys
      a new account and its key, for the x-api-key header
  curl {url}/v1/memory -H 'x-api-key: aic_...' -H 'content-type: application/json' \\
      -d '{{"content": "We ship on Friday.", "project": "launch"}}'
      a first memory
  {program} demo{here}
      the whole story on the git history of the folder you are in, verified at the end

Ctrl-C stops it.
"""


def _say(text: str) -> None:
    """Print at once; a reader that went away (`serve | head`) is no reason to stop serving."""
    try:
        say(text)
    except OutputLost:
        log.debug("Nobody reads stdout", action="serve.say")
