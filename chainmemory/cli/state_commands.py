"""`chainmemory ops` and `state`: change a project's state, and read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chainmemory.cli import options
from chainmemory.cli.account import connect, stdin_bytes
from chainmemory.cli.output import as_text, print_json, printable, say
from chainmemory.errors import Invalid, InvalidJson, NotFound
from chainmemory.protocol.canonical import parse_json

Project = Annotated[str, typer.Argument(help="The project's name.", metavar="PROJECT")]


def ops(
    project: Project,
    file: Annotated[str, typer.Argument(help="JSON: a list of operations; - reads stdin.", metavar="FILE")],
    expected_version: Annotated[
        int | None, typer.Option(help="Refuse unless it is at this version.", metavar="N")
    ] = None,
    atomic: Annotated[bool, typer.Option("--atomic", help="One bad operation refuses all.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")] = False,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Apply operations to a project's state. Exit code 1 where one was rejected."""
    operations = _operations(file)
    with connect(home, url) as client:
        done = client.apply_ops(
            project,
            operations,
            expected_version=expected_version,
            atomic=atomic or None,
            dry_run=dry_run or None,
            generated_by="cli",
        )
    if as_json:
        print_json(done)
    else:
        say(f"{done['project']} version {done['version']}  {done['state_hash']}")
        for op in done["applied"]:
            say(f"  applied   {op['index']:>3}  {op['op']}  {op['id']}")
        for op in done["rejected"]:
            why = printable(f"{op['op']}  {op['code']}: {op['error']}")
            say(f"  rejected  {op['index']:>3}  {why}")
    raise typer.Exit(1 if done["rejected"] else 0)


def state(
    project: Project,
    version: Annotated[
        int | None, typer.Option(min=1, help="Which one.", show_default="the latest", metavar="N")
    ] = None,
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
    say(f"{found['project']} version {found['version']}  {found['state_hash']}")
    say(f"anchor {anchor['status']}" + (f" in {anchor['tx_hash']}" if anchor["tx_hash"] else "") + "\n")
    say(as_text({key: item for key, item in found["state"].items() if key != "provenance"}))


def _operations(file: str) -> list[Any]:
    try:
        data = stdin_bytes() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise NotFound(f"{file} can't be read: {error.strerror}.") from None
    place = "standard input" if file == "-" else file
    try:
        read = parse_json(data)
    except InvalidJson as error:
        raise InvalidJson(f"{place} must hold a JSON list of operations: {error}.") from None
    given = read["ops"] if isinstance(read, dict) and set(read) == {"ops"} else read
    if not isinstance(given, list):
        raise Invalid(f"{place} must hold a JSON list of operations.")
    return given
