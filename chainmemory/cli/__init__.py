"""The command line; `main` is the console script."""

from chainmemory.cli.app import main

__all__ = ["main"]
