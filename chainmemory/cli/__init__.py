"""The command line; `main` is the console script."""


def main() -> None:
    """Run a command."""
    # Imported here, for a server's processes import this package and need none of the commands.
    try:
        from chainmemory.cli.app import run

        run()
    except KeyboardInterrupt:  # before the command began, or after it ended
        raise SystemExit(130) from None
