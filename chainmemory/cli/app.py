"""All commands put together."""

from __future__ import annotations

from typing import Annotated

import typer

from chainmemory import __version__, logging
from chainmemory.cli import anchors, contracts, import_git, ledger
from chainmemory.cli.account_commands import keys, status
from chainmemory.cli.demo import demo
from chainmemory.cli.exits import ending
from chainmemory.cli.import_mnemo import import_mnemo_command
from chainmemory.cli.memory_commands import memories, save
from chainmemory.cli.output import say
from chainmemory.cli.process_commands import api, chain_app, worker
from chainmemory.cli.rotate_master import rotate_master
from chainmemory.cli.serve import serve
from chainmemory.cli.state_commands import ops, state
from chainmemory.cli.streams import guarded, output_is_closed
from chainmemory.cli.verify import verify
from chainmemory.errors import ConfigurationError

SERVERS = frozenset({"serve", "chain", "api", "worker"})

app = typer.Typer(
    name="chainmemory",
    help="A memory for AI agents that can be proved.",
    epilog="Exit codes: 0 done, or right; 1 what was checked is wrong; 2 it couldn't be done or checked; "
    "130 broken off by Ctrl-C; 141 nobody reads the output.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (serve, status, demo, save, memories, ops, state, verify, api, worker):
    app.command()(command)
app.add_typer(chain_app, name="chain")
keys.command("rotate-master")(rotate_master)
app.add_typer(keys, name="keys")
app.add_typer(contracts.app, name="contracts")
app.add_typer(anchors.app, name="anchors")
import_git.app.command("mnemo")(import_mnemo_command)
app.add_typer(import_git.app, name="import")
app.add_typer(ledger.app, name="ledger")


def _print_version(asked: bool) -> None:
    if asked:
        say(f"chainmemory {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """A memory for AI agents that can be proved."""
    # Told before anything is done; a server has nothing to say there that its log doesn't say.
    if output_is_closed() and context.invoked_subcommand not in SERVERS:
        raise ConfigurationError("Standard output is closed; give it a file, a pipe, or /dev/null.")


@app.command()
def version() -> None:
    """Print the version."""
    say(__version__)


def run() -> None:
    """Run the command that the arguments name."""
    with guarded(), ending():
        # Warnings of a command are for its user; without this they would stand between what it prints.
        logging.configure("chainmemory", short=True)
        app(prog_name="chainmemory")  # however it was started: what help shows can be typed
