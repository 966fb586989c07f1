"""`chainmemory anchors`: what waits for the chain, what happened to one, and trying again now.

It looks into the home's store, so it works whether or not a server runs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainmemory.cli import options
from chainmemory.cli.local_store import open_store
from chainmemory.cli.output import print_json, printable, say
from chainmemory.settings import Settings

if TYPE_CHECKING:
    from chainmemory.store.database import Database

app = typer.Typer(no_args_is_help=True, help="What waits for the chain, and why.")


class Status(StrEnum):
    """An anchor's status, as api.md names them."""

    PENDING = "pending"
    SUBMITTED = "submitted"
    FAILED = "failed"
    ANCHORED = "anchored"
    COVERED = "covered"
    CONFLICT = "conflict"


class Kind(StrEnum):
    """What an anchor is of."""

    MEMORY = "memory"
    STATE = "state"
    HEAD = "head"


Project = Annotated[
    str | None, typer.Option(help="Only this project's states, by its public name or id.", metavar="NAME")
]


@app.command(name="list")
def list_anchors(
    status: Annotated[
        list[Status] | None,
        typer.Option(help="Only " + ", ".join(Status) + "; may be given again.", metavar="STATUS"),
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option(help="Only of a memory, a state or a head.", metavar="KIND")
    ] = None,
    project: Project = None,
    limit: Annotated[
        int, typer.Option(help="At most so many, 1 to 10000.", min=1, max=10_000, metavar="N")
    ] = 50,
    home: options.Home = None,
    database_url: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """List anchors, newest first."""
    from chainmemory.engine import anchor_desk

    with _store(home, database_url) as db:
        found = anchor_desk.listed(db, kind=kind, statuses=tuple(status or ()), project=project, limit=limit)
    if as_json:
        print_json({"anchors": found})
    else:
        say("\n".join(_table(found)) if found else "There are no such anchors.")


@app.command()
def explain(
    what: Annotated[str, typer.Argument(help="An anchor's id, or PROJECT@VERSION.", metavar="ANCHOR")],
    home: options.Home = None,
    database_url: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell what happened to one anchor, and what it waits for.

    Its attempts, transactions and blocks.
    """
    from chainmemory.engine import anchor_desk

    with _store(home, database_url) as db:
        found = anchor_desk.explain(db, what)
    if as_json:
        print_json(found)
    else:
        say("\n".join(printable(line) for line in found["words"]))


@app.command()
def retry(
    ids: Annotated[
        list[int] | None,
        typer.Argument(help="Ids of anchors.", show_default="all that failed", metavar="ID"),
    ] = None,
    project: Project = None,
    home: options.Home = None,
    database_url: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Make failed anchors due now, not at their next attempt.

    The worker takes them from there.
    """
    from chainmemory.engine import anchor_desk

    with _store(home, database_url) as db:
        count = anchor_desk.retry(db, ids=tuple(ids or ()), project=project)
    if as_json:
        print_json({"due_now": count})
    else:
        say(f"{count} failed anchor{'s are' if count != 1 else ' is'} due now.")


def _store(home: Path | None, database_url: str | None) -> AbstractContextManager[Database]:
    return open_store(Settings.load(home=home, database_url=database_url))


def _table(found: list[dict[str, Any]]) -> list[str]:
    rows = [("ID", "WHAT", "STATUS", "TRIES", "BLOCK", "WHY, AND WHEN NEXT")]
    for one in found:
        why = one["reason"] or ""
        if one["next_attempt_at"]:
            why += f" (next at {one['next_attempt_at'][:19].replace('T', ' ')} UTC)"
        block = "" if one["block_number"] is None else str(one["block_number"])
        rows.append((str(one["id"]), one["what"], one["status"], str(one["attempts"]), block, why))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        printable("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for row in rows
    ]
