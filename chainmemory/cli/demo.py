"""`chainmemory demo`: the whole story on a real git history, and the proof that it holds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from chainmemory.cli import options
from chainmemory.cli.account import KEPT, connect_publicly, keep, server_url
from chainmemory.cli.check import Checker
from chainmemory.cli.git_history import History
from chainmemory.cli.import_git import import_with_progress
from chainmemory.cli.output import printable, say
from chainmemory.cli.story import Story
from chainmemory.cli.verify import rpc_of
from chainmemory.cli.witness import Witness
from chainmemory.client import Client, Json
from chainmemory.errors import ChainMemoryError, ConfigurationError, IntegrityError, NotFound, Unavailable
from chainmemory.settings import Settings

POLL_S = 0.5
OPS_A_CALL = 100
EMPTY: Json = {
    "vision": None,
    "phase": None,
    "current_focus": None,
    "decisions": [],
    "milestones": [],
    "risks": [],
    "metrics": [],
    "environment": {"repositories": []},
}


def demo(
    path: Annotated[Path, typer.Argument(help="A git repository.", metavar="PATH")] = Path(),
    project: Annotated[
        str | None, typer.Option(help="The project's name.", show_default="the repository's", metavar="NAME")
    ] = None,
    rpc: Annotated[
        str | None, typer.Option(help="Ask the chain here.", show_default="the server's own", metavar="URL")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Longest wait for the anchor.", min=0, metavar="SECONDS")
    ] = 180.0,
    home: options.Home = None,
    url: options.Url = None,
) -> None:
    """Import a git history, make a state of it, anchor and verify it.

    The server is believed in nothing: hashes are recomputed here and compared with the contract. Safe to
    repeat. Exit code 1 where anything differs, 2 where it couldn't be checked.
    """
    settings = Settings.load(home=home)
    history = History(path)
    if history.count() == 0:
        raise ConfigurationError(f"{path} has no commits yet, so there is nothing to tell.")
    with _client(settings, url) as client:
        Demo(client, settings, history, project or history.slug(), rpc, timeout).run()


class Demo:
    """One run, step by step."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        history: History,
        project: str,
        rpc: str | None,
        timeout: float,
    ) -> None:
        self._client = client
        self._settings = settings
        self._history = history
        self._project = project
        self._rpc = rpc
        self._timeout = timeout

    def run(self) -> None:
        try:
            numbers = self._remember()
            self._consolidate(numbers)
            self._wait()
            self._verify()
        except IntegrityError as error:
            # Whoever finds it out, the server on the way there or the check at the end.
            raise IntegrityError(f"VERIFICATION FAILED. {error.message}", code=error.code) from error

    def _remember(self) -> dict[str, int]:
        _step(1, f"Remember: one memory for each of {self._history.count()} commits of {self._history.name}")
        done = import_with_progress(self._client, self._history, self._project)
        _say(
            f"saved {done.saved} memories, encrypted"
            + (f"; {done.known} were there already" if done.known else "")
        )
        return done.numbers

    def _consolidate(self, numbers: dict[str, int]) -> None:
        _step(
            2, f"Consolidate: operations that cite those memories make the state of project {self._project}"
        )
        commits, tags = list(self._history.commits()), self._history.tags()
        for part in (Story.beginnings, Story.present):
            story = Story(self._history.name, commits, tags, numbers, self._document())
            ops = part(story)
            for start in range(0, len(ops), OPS_A_CALL):
                self._apply(ops[start : start + OPS_A_CALL])
        newest = self._client.state(self._project)
        _say(f"version {newest['version']}, state hash {newest['state_hash']}")

    def _apply(self, ops: list[Json]) -> None:
        done = self._client.apply_ops(self._project, ops, generated_by="chainmemory demo", atomic=True)
        cited = {entry["memory_number"] for op in done["applied"] for entry in op["evidence"]}
        _say(f"version {done['version']}: {done['applied_count']} operations, {len(cited)} memories cited")

    def _document(self) -> Json:
        try:
            document: Json = self._client.state(self._project)["state"]
        except NotFound:
            return EMPTY
        return document

    def _wait(self) -> None:
        _step(3, "Anchor: wait until the state's hash is on chain")
        began = time.monotonic()
        while (anchor := self._client.anchor(self._project)["anchor"])["status"] != "anchored":
            if anchor["status"] == "conflict":
                raise IntegrityError("The contract holds another hash for this version.")
            if time.monotonic() - began > self._timeout:
                raise Unavailable(
                    f"Not anchored after {self._timeout:.0f} s: {anchor['status']}"
                    + (f" ({printable(anchor['reason'])})" if anchor.get("reason") else "")
                    + ". See `chainmemory status`."
                )
            time.sleep(POLL_S)
        _say(f"anchored in block {anchor['block_number']}, transaction {anchor['tx_hash']}")

    def _verify(self) -> None:
        _step(4, "Verify: recompute every hash here, and ask the contract itself by plain JSON-RPC")
        hashed_id = str(self._client.state(self._project)["state"]["state_meta"]["project_id"])
        answer = self._client.verify(hashed_id)
        with Witness(rpc_of(answer, self._settings, self._rpc, self._client)) as witness:
            _say(f"asking the chain at {witness.place}")
            if answer.get("witness") == "self":
                _say("(it is this server's own: believe it as far as you believe whoever runs it)")
            checked = Checker(self._client, witness, self._project, _say).run()
        say(
            f"\nVERIFIED: {checked.versions} versions, {checked.items} items and {checked.memories} memories "
            f"of {printable(self._project)} are what {len(checked.transactions)} transactions say they are."
        )
        say(f"Anyone can look: {self._client.url}/verify/{printable(answer['project'])}")


def _client(settings: Settings, url: str | None) -> Client:
    """Return a client with the home's key; without one, create an account and keep its key."""
    client = connect_publicly(settings, url)
    try:
        client.profile()
    except ChainMemoryError as error:
        if error.code != "unauthorized":
            raise
        if (settings.home / KEPT).exists() or url is not None:
            raise ConfigurationError(
                f"The server doesn't know the key in {settings.home / KEPT}, or there is none for it; "
                "`chainmemory keys create --replace` makes a new account."
            ) from error
        place = server_url(settings, url)
        created = client.create_account()
        keep(settings, place, created)
        _say(f"created account {created['account_id']}; its key is in {settings.home / KEPT}")
        client.close()
        return Client(place, created["api_key"])
    return client


def _step(number: int, what: str) -> None:
    say(f"\n{number}/4  {printable(what)}")


def _say(what: Any) -> None:
    say(f"     {printable(what)}")
