"""`chainmemory chain`, `api` and `worker`: one process of a server alone; `chain export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chainmemory.cli import options
from chainmemory.cli.output import printable, say
from chainmemory.cli.processes import run_api, run_chain, run_worker, run_worker_once
from chainmemory.settings import Settings

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
    if context.invoked_subcommand is None:
        run_chain(Settings.load(home=home, port=port, chain_port=chain_port, log_level=log_level))


@chain_app.command()
def export(
    file: Annotated[Path, typer.Argument(help="Where the blocks go, as RLP.", metavar="FILE")],
    genesis: Annotated[
        Path | None,
        typer.Option(help="Where the genesis goes.", show_default="genesis.json beside FILE", metavar="FILE"),
    ] = None,
    home: options.Home = None,
) -> None:
    """Write the embedded chain as geth imports it.

    Blocks as RLP, and its genesis.json.
    """
    settings = Settings.load(home=home)
    from chainmemory.node.export import export_chain

    done = export_chain(settings.chain_dir, file, genesis)
    say(
        f"{done.blocks} blocks with {done.transactions} transactions, head {done.head_hash}\n"
        + printable(f"blocks in {file}, genesis in {done.genesis}")
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
    run_api(
        Settings.load(
            home=home, host=host, port=port, rpc_url=rpc_url, database_url=database_url, log_level=log_level
        )
    )


def worker(
    home: options.Home = None,
    port: options.Port = None,
    chain_port: options.ChainPort = None,
    rpc_url: options.RpcUrl = None,
    database_url: options.DatabaseUrl = None,
    log_level: options.LogLevel = None,
    once: Annotated[bool, typer.Option("--once", help="Work off what is due now, then end.")] = False,
) -> None:
    """Run the anchor worker alone.

    With --once, exit code 0: all that was due is in a block; 2: not all, and a sentence says why.
    """
    settings = Settings.load(
        home=home,
        port=port,
        chain_port=chain_port,
        rpc_url=rpc_url,
        database_url=database_url,
        log_level=log_level,
    )
    if once:
        run_worker_once(settings, say)
    else:
        run_worker(settings)
