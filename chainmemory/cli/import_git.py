"""`chainmemory import git`: a repository's history as memories, one per commit, each commit once."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from chainmemory.cli import options
from chainmemory.cli.account import connect
from chainmemory.cli.git_history import Commit, History
from chainmemory.cli.output import print_json, printable, say
from chainmemory.cli.streams import unguarded
from chainmemory.client import BATCH, Client, Json
from chainmemory.protocol.event import MAX_TEXT

KIND = "git.commit"
SOURCE = "import"
NO_MESSAGE = "(a commit without a message)"
# Half of what the API takes as one body; and so little that its JSON fits even if each byte is escaped.
BATCH_BYTES = 1024 * 1024
CONTENT_BYTES = 256 * 1024

app = typer.Typer(help="Bring other histories in as memories.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Bring other histories in as memories."""


@dataclass(frozen=True)
class Imported:
    """What an import did. `numbers` maps each commit of the history to its memory's number; `cut` names those
    whose message was too long to keep whole."""

    saved: int
    known: int
    numbers: dict[str, int]
    cut: tuple[str, ...] = ()


@app.command("git")
def import_git_command(
    path: Annotated[Path, typer.Argument(help="A git repository.", metavar="PATH")],
    project: Annotated[
        str | None, typer.Option(help="Project they belong to.", show_default="its name", metavar="NAME")
    ] = None,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Save one memory per commit, with its date, author and hash.

    Safe to break off and to repeat: a commit is saved once.
    """
    history = History(path)
    project = project or history.slug()
    with connect(home, url) as client:
        done = import_with_progress(client, history, project)
    for commit in done.cut:
        say(
            f"chainmemory: the message of {commit[:12]} was cut after {CONTENT_BYTES // 1024} KiB; "
            "the repository has all of it.",
            err=True,
        )
    if as_json:
        told = {"project": project, "saved": done.saved, "known": done.known, "cut": done.cut}
        print_json(told)
    elif not done.numbers:
        say(printable(f"{path} has no commits yet; nothing to import."))
    else:
        place = printable(f"{history.name} as memories of project {project}")
        known = f"; {done.known} were there already" if done.known else ""
        say(f"Saved {done.saved} commits of {place}{known}.")


def import_with_progress(client: Client, history: History, project: str) -> Imported:
    """Import with a progress bar on stderr (where that is a terminal)."""
    with bar("commits", history.count()) as advance:
        return import_git(client, history, project, advance)


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr, where that is a terminal; what is yielded moves it on."""
    console = Console(file=unguarded(sys.stderr))
    with Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,  # rich would read markup in what is printed
        redirect_stderr=False,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


def import_git(
    client: Client, history: History, project: str, advance: Callable[[int], None] = lambda _: None
) -> Imported:
    """Save each commit that isn't a memory of `project` yet, oldest first, in batches (each all or nothing).

    What is there already is found by the commit hash in the memories' provenance, so repeating is safe at any
    time, also after an interruption. `advance` is called with the number of commits dealt with.
    """
    numbers = imported_commits(client, project)
    known = 0

    def new_commits() -> Iterator[Commit]:
        nonlocal known
        for commit in history.commits():
            if commit.hash in numbers:
                known += 1
                advance(1)
            else:
                yield commit

    ours = {}
    saved = 0
    cut: list[str] = []
    for batch in _batches((commit, memory_of(commit, project)) for commit in new_commits()):
        answers = client.save_batch([memory for _, memory in batch], idempotency_key=_batch_key(batch))
        for (commit, _), answer in zip(batch, answers, strict=True):
            ours[commit.hash] = int(answer["memory_number"])
            if len((commit.message or "").encode()) > CONTENT_BYTES:
                cut.append(commit.hash)
        saved += len(batch)
        advance(len(batch))
    return Imported(saved, known, {**numbers, **ours}, tuple(cut))


def imported_commits(client: Client, project: str) -> dict[str, int]:
    """Return commit hash → memory number of what was imported into `project`, archived or not."""
    found = {}
    for archived in ("0", "1"):
        for memory in client.iter_memories(project=project, archived=archived):
            provenance = memory.get("provenance") or {}
            if memory.get("source") == SOURCE and "commit" in provenance:
                found[provenance["commit"]] = int(memory["memory_number"])
    return found


def memory_of(commit: Commit, project: str) -> Json:
    """Return a commit as the body of a save."""
    memory: dict[str, Any] = {
        "content": _cut(commit.message or NO_MESSAGE),
        "project": project,
        "kind": KIND,
        "platform": SOURCE,
        "category": "CUSTOM",
        "tags": ["git"] + (["merge"] if len(commit.parents) > 1 else []),
        "provenance": {
            "commit": commit.hash,
            "actor_type": "person",
            "actor_id": commit.author.replace("\0", "")[:MAX_TEXT],
        },
    }
    if commit.authored_at is not None:
        memory["occurred_at"] = commit.authored_at
    return memory


def _cut(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= CONTENT_BYTES:
        return text
    kept = encoded[:CONTENT_BYTES].decode(errors="ignore")
    return f"{kept}\n[cut here; the whole message has {len(encoded)} bytes]"


def _batches(commits: Iterable[tuple[Commit, Json]]) -> Iterator[list[tuple[Commit, Json]]]:
    batch: list[tuple[Commit, Json]] = []
    size = 0
    for commit, memory in commits:
        length = len(orjson.dumps(memory))
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((commit, memory))
        size += length
    if batch:
        yield batch


def _batch_key(batch: list[tuple[Commit, Json]]) -> str:
    """Name the batch by what is in it: of two imports that run at once, one is answered with the other's."""
    return "git-" + hashlib.sha256(orjson.dumps([memory for _, memory in batch])).hexdigest()
