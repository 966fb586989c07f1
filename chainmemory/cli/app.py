"""All commands put together, and the one place that turns an error into a sentence and an exit code."""

from __future__ import annotations

import os
import sys

import typer

from chainmemory import __version__
from chainmemory.cli import contracts, import_git
from chainmemory.cli.account_commands import keys, status
from chainmemory.cli.demo import demo
from chainmemory.cli.memory_commands import memories, save
from chainmemory.cli.processes import api, chain_app, worker
from chainmemory.cli.serve import serve
from chainmemory.cli.state_commands import ops, state
from chainmemory.cli.supervisor import EXIT_CONFIGURATION, LIFELINE_VARIABLE
from chainmemory.cli.verify import verify
from chainmemory.errors import ChainMemoryError, ConfigurationError, IntegrityError

EXIT_WRONG = 1
"""What was checked is wrong."""
EXIT_UNCHECKED = 2
"""It couldn't be done or checked: wrong use, a refusal, a server or a chain that isn't there."""

app = typer.Typer(
    name="chainmemory",
    help="A memory for AI agents that can be proved.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (serve, status, demo, save, memories, ops, state, verify, api, worker):
    app.command()(command)
app.add_typer(chain_app, name="chain")
app.add_typer(keys, name="keys")
app.add_typer(contracts.app, name="contracts")
app.add_typer(import_git.app, name="import")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run a command; every failure is one sentence on stderr and an exit code."""
    try:
        app()
    except ChainMemoryError as error:
        typer.echo(f"chainmemory: {error.message}", err=True)
        sys.exit(exit_code(error))


def exit_code(error: ChainMemoryError) -> int:
    """Return 1 where something checked is wrong, else 2; a supervisor is told of wrong settings."""
    if isinstance(error, ConfigurationError) and LIFELINE_VARIABLE in os.environ:
        return EXIT_CONFIGURATION
    return EXIT_WRONG if isinstance(error, IntegrityError) else EXIT_UNCHECKED
