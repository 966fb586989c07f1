"""The three processes of a server: what the supervisor runs, and the commands run alone.

`python -m chainmemory.cli.processes NAME`, with all settings in the environment, is how the supervisor starts
one; it loads nothing of the other commands.
"""

from __future__ import annotations

import gc
import importlib
import logging as standard_logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from chainmemory.cli.child import begin, inherited_socket, listen, stop_on_signal
from chainmemory.cli.exits import ending
from chainmemory.cli.home import prepare_home
from chainmemory.errors import ChainMemoryError, ConfigurationError, Unavailable
from chainmemory.logging import log
from chainmemory.settings import Settings

# Heavy libraries are imported by the process that needs them.


def run_chain(settings: Settings) -> None:
    """Run the embedded chain until a signal. Raises ConfigurationError."""
    if not settings.embedded:
        raise ConfigurationError(
            "The settings name another chain (rpc_url), so the embedded one isn't needed."
        )
    prepare_home(settings.home)
    begin("chain", settings)
    from chainmemory.chain.signer import ensure_keystore
    from chainmemory.node import NodeConfig, run_node

    signer = ensure_keystore(settings.signer_keystore_path, settings.signer_password_path)
    config = NodeConfig(
        data_dir=settings.chain_dir,
        port=settings.chain_rpc_port,
        chain_id=settings.chain_id,
        period=settings.chain_period_s,
        alloc=[signer],
        log_level=settings.log_level,
    )
    run_node(config, sock=inherited_socket("chain"))
    log.info("The chain has stopped", action="chain.stopped")


def run_api(settings: Settings) -> None:
    """Run the HTTP API until a signal. Raises ConfigurationError."""
    prepare_home(settings.home)
    begin("api", settings)
    import uvicorn

    # Named, not imported: the doors don't depend on each other, and only this process loads the framework.
    create_app = importlib.import_module("api.app").create_app
    sock = inherited_socket("api") or listen(settings.host, settings.port, what="the API", option="--port")
    settings = settings.model_copy(update={"port": sock.getsockname()[1]})
    watched = _Watched(create_app(settings))
    config = uvicorn.Config(
        watched,
        loop="uvloop",
        http=importlib.import_module("api.protocol").WholeAnswers,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=max(1, int(settings.grace_s) - 1),
    )
    # uvicorn raises the signal again once it has stopped; with a handler of ours that is a clean end.
    signal.signal(signal.SIGTERM, lambda *_: None)
    log.info("The API listens", action="api.listen", host=settings.host, port=settings.port)
    try:
        uvicorn.Server(config).run(sockets=[sock])
    except SystemExit as error:  # how uvicorn says that the start failed
        raise watched.failed or ChainMemoryError("The API can't start (see its log).") from error
    log.info("The API has stopped", action="api.stopped")


def run_worker(settings: Settings) -> None:
    """Run the anchor worker until a signal. Raises ConfigurationError."""
    prepare_home(settings.home)
    begin("worker", settings)
    stop = stop_on_signal()
    from chainmemory.anchoring import worker
    from chainmemory.engine.lost_store import refuse_lost_store

    refuse_lost_store(settings)
    worker.run_worker(settings, stop)
    log.info("The worker has stopped", action="worker.stopped")


def run_worker_once(settings: Settings, say: Callable[[str], None]) -> None:
    """Work off what is due, telling `say` how it goes. Raises Unavailable where something is left to do."""
    prepare_home(settings.home)
    begin("worker", settings)
    stop = stop_on_signal()
    from chainmemory.anchoring import worker
    from chainmemory.anchoring.health import WORKING
    from chainmemory.engine.lost_store import refuse_lost_store
    from chainmemory.store.database import Database

    refuse_lost_store(settings)
    with Database.open(settings.store_url) as db:
        progress = worker.worker_of(settings, db).run_until_idle(stop, say)
    if progress.state != WORKING:
        raise Unavailable(f"Not all that was due is on chain. {progress.words}", code="not_all_anchored")
    say("Nothing is left to send.")


class _Watched:
    """The API, with the reason kept why it could not start; uvicorn only logs it, with its text."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self.failed: ChainMemoryError | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_without_text(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "lifespan.startup.complete":
                settle_collector()
            await send({**message, "message": ""} if "message" in message else message)

        try:
            await self._app(scope, receive, send_without_text)
        except ChainMemoryError as error:
            self.failed = error
            raise
        except Exception as error:
            log.critical("The API can't start", action="api.failed", exc_info=True)
            self.failed = ChainMemoryError(f"The API can't start: {type(error).__name__} (see its log).")
            raise


def settle_collector() -> None:
    """Tell the garbage collector that all that is there now stays, and to look for cycles less often.

    What a request makes dies by its reference counts; with the defaults the collector looks through it every
    seven hundred objects, several times in a batch of memories.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


PROCESSES = {"chain": run_chain, "api": run_api, "worker": run_worker}

if __name__ == "__main__":
    with ending():
        PROCESSES[sys.argv[1]](Settings.load())
        # All is written and closed; taking the loaded libraries apart would only delay the server's stop.
        standard_logging.shutdown()
        os._exit(0)
