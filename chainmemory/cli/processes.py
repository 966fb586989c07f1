"""`chainmemory chain`, `api` and `worker`: the three processes of a server, alone or under `serve`."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Annotated, Any

import typer

from chainmemory.cli import options
from chainmemory.cli.child import begin, inherited_socket, listen, stop_on_signal
from chainmemory.cli.home import prepare_home
from chainmemory.errors import ChainMemoryError, ConfigurationError
from chainmemory.logging import log
from chainmemory.settings import Settings

# Heavy libraries are imported in the commands that need them, so that the others start at once.


chain_app = typer.Typer(invoke_without_command=True)


@chain_app.callback()
def chain(
    context: typer.Context,
    home: options.Home = None,
    port: options.Port = None,
    chain_port: options.ChainPort = None,
    log_level: options.LogLevel = None,
) -> None:
    """Run the embedded proof-of-authority chain alone."""
    if context.invoked_subcommand is not None:
        return
    settings = Settings.load(home=home, port=port, chain_port=chain_port, log_level=log_level)
    if not settings.embedded:
        raise ConfigurationError("CHAINMEMORY_RPC_URL names another chain, so the embedded one isn't needed.")
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
    run_node(config)


@chain_app.command()
def export(
    file: Annotated[Path, typer.Argument(help="Where the blocks go, as RLP.", metavar="FILE")],
    genesis: Annotated[
        Path | None, typer.Option(help="Where the genesis goes.", show_default="genesis.json beside FILE")
    ] = None,
    home: options.Home = None,
) -> None:
    """Write the embedded chain as geth imports it: blocks as RLP, and its genesis.json."""
    settings = Settings.load(home=home)
    from chainmemory.node.export import export_chain

    done = export_chain(settings.chain_dir, file, genesis)
    typer.echo(
        f"{done.blocks} blocks with {done.transactions} transactions, head {done.head_hash}\n"
        f"blocks in {file}, genesis in {done.genesis}"
    )


def api(
    home: options.Home = None,
    host: options.Host = None,
    port: options.Port = None,
    rpc_url: options.RpcUrl = None,
    database_url: options.DatabaseUrl = None,
    log_level: options.LogLevel = None,
) -> None:
    """Run the HTTP API alone."""
    settings = Settings.load(
        home=home, host=host, port=port, rpc_url=rpc_url, database_url=database_url, log_level=log_level
    )
    prepare_home(settings.home)
    begin("api", settings)
    import uvicorn

    from api.app import create_app

    sock = inherited_socket("api") or listen(settings.host, settings.port, what="the API", option="--port")
    settings = settings.model_copy(update={"port": sock.getsockname()[1]})
    watched = _Watched(create_app(settings))
    config = uvicorn.Config(
        watched,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, int(settings.grace_s) - 1),
    )
    # uvicorn raises the signal again once it has stopped; with a handler of ours that is a clean end.
    signal.signal(signal.SIGTERM, lambda *_: None)
    log.info("The API listens", action="api.listen", host=settings.host, port=settings.port)
    uvicorn.Server(config).run(sockets=[sock])
    if watched.failed is not None:
        raise watched.failed
    log.info("The API has stopped", action="api.stopped")


def worker(
    home: options.Home = None,
    port: options.Port = None,
    chain_port: options.ChainPort = None,
    rpc_url: options.RpcUrl = None,
    database_url: options.DatabaseUrl = None,
    log_level: options.LogLevel = None,
) -> None:
    """Run the anchor worker alone."""
    settings = Settings.load(
        home=home,
        port=port,
        chain_port=chain_port,
        rpc_url=rpc_url,
        database_url=database_url,
        log_level=log_level,
    )
    prepare_home(settings.home)
    begin("worker", settings)
    stop = stop_on_signal()
    from chainmemory.anchoring.worker import run_worker
    from chainmemory.chain.signer import ensure_keystore

    ensure_keystore(settings.signer_keystore_path, settings.signer_password_path)
    run_worker(settings, stop)
    log.info("The worker has stopped", action="worker.stopped")


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
