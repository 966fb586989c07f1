"""`chainmemory ops` and `state`: change a project's state, and read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chainmemory.cli import options
from chainmemory.cli.account import connect, text_argument
from chainmemory.cli.output import as_text, print_json, printable
from chainmemory.errors import ConfigurationError
from chainmemory.protocol.canonical import parse_json

Project = Annotated[str, typer.Argument(help="The project's name.", metavar="PROJECT")]


def ops(
    project: Project,
    file: Annotated[str, typer.Argument(help="JSON: a list of operations; - reads stdin.", metavar="FILE")],
    expected_version: Annotated[int | None, typer.Option(help="Refuse unless it is at this version.")] = None,
    atomic: Annotated[bool, typer.Option(help="One bad operation refuses all.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Say what would happen; write nothing.")] = False,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Apply operations to a project's state. Exit code 1 where one was rejected."""
    with connect(home, url) as client:
        done = client.apply_ops(
            project,
            _operations(file),
            expected_version=expected_version,
            atomic=atomic or None,
            dry_run=dry_run or None,
            generated_by="cli",
        )
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{done['project']} version {done['version']}  {done['state_hash']}")
        for op in done["applied"]:
            typer.echo(f"  applied   {op['index']:>3}  {op['op']}  {op['id']}")
        for op in done["rejected"]:
            typer.echo(f"  rejected  {op['index']:>3}  {op['op']}  {op['code']}: {printable(op['error'])}")
    raise typer.Exit(1 if done["rejected"] else 0)


def state(
    project: Project,
    version: Annotated[int | None, typer.Option(min=1, help="Default: the latest.")] = None,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a project's state."""
    with connect(home, url) as client:
        found = client.state(project, version)
    if as_json:
        print_json(found)
        return
    anchor = found["anchor"]
    typer.echo(f"{found['project']} version {found['version']}  {found['state_hash']}")
    typer.echo(
        f"anchor {anchor['status']}" + (f" in {anchor['tx_hash']}" if anchor["tx_hash"] else "") + "\n"
    )
    typer.echo(as_text({key: item for key, item in found["state"].items() if key != "provenance"}))


def _operations(file: str) -> list[Any]:
    try:
        text = text_argument("-") if file == "-" else Path(file).read_bytes().decode()
    except OSError as error:
        raise ConfigurationError(f"{file} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} isn't UTF-8.") from None
    read = parse_json(text)
    given = read["ops"] if isinstance(read, dict) and set(read) == {"ops"} else read
    if not isinstance(given, list):
        raise ConfigurationError(f"{file} must hold a JSON list of operations.")
    return given
