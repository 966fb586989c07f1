"""`chainmemory save` and `memories`."""

from __future__ import annotations

from typing import Annotated

import typer

from chainmemory.cli import options
from chainmemory.cli.account import connect, text_argument
from chainmemory.cli.output import print_json, printable, say
from chainmemory.client import Client
from chainmemory.errors import NotFound
from chainmemory.protocol.event import CATEGORIES

LINE = 100


def save(
    text: Annotated[str, typer.Argument(help="What to remember; - reads it from stdin.", metavar="TEXT")],
    project: Annotated[str | None, typer.Option(help="The project it belongs to.", metavar="NAME")] = None,
    category: Annotated[
        str | None, typer.Option(help=", ".join(sorted(CATEGORIES)) + ".", metavar="WORD")
    ] = None,
    importance: Annotated[int | None, typer.Option(help="1 to 10.", metavar="N")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given again.", metavar="WORD")] = None,
    kind: Annotated[str | None, typer.Option(help="A free-form event type.", metavar="WORD")] = None,
    occurred_at: Annotated[
        str | None, typer.Option(help="When it happened, as 2026-09-13T22:02:35Z.", metavar="TIME")
    ] = None,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Save a memory."""
    content = text_argument(text)
    with connect(home, url) as client:
        saved = client.save(
            content,
            project=project,
            category=category,
            importance=importance,
            tags=tag or None,
            kind=kind,
            occurred_at=occurred_at,
            platform="cli",
        )
    if as_json:
        print_json(saved)
    else:
        say(f"memory {saved['memory_number']}  {saved['event_hash']}")


def memories(
    project: Annotated[str | None, typer.Option(help="Only this project's.", metavar="NAME")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, help="At most this many, 1 to 200.", metavar="N")
    ] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Leave out this many first.", metavar="N")] = 0,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """List memories, newest first."""
    with connect(home, url) as client:
        page = client.memories(limit=limit, offset=offset, project=project)
        if project is not None and not page["total"]:
            _check_known(client, project)
    if as_json:
        print_json(page)
        return
    for memory in page["memories"]:
        first_line = _first_line(memory["summary"] or "(no text here)")
        say(
            f"{memory['memory_number']:>6}  {memory['occurred_at'][:16]}  {memory['category']:<11}  "
            f"{memory['chain_sync']:<9}  {first_line}"
        )
    say(f"{len(page['memories'])} of {page['total']}", err=True)


def _check_known(client: Client, project: str) -> None:
    """Raise NotFound where a project without memories is none at all: a slip of the keyboard."""
    slugs = [str(known["project_id"]) for known in client.projects()]
    if project not in slugs:
        names = f" There are: {', '.join(slugs[:20])}." if slugs else ""
        raise NotFound(f"There is no project {project}.{names}")


def _first_line(text: str) -> str:
    line, _, rest = text.strip().partition("\n")
    shown = printable(line.rstrip())
    return shown[:LINE] + " …" if rest or len(shown) > LINE else shown
