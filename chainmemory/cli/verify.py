"""`chainmemory verify NAME`: anybody's check of a project, by its public name, against the contract; with
`--all`, its operator's check of everything."""

from __future__ import annotations

from typing import Annotated

import typer

from chainmemory.cli import options
from chainmemory.cli.account import connect_publicly
from chainmemory.cli.check import check_public
from chainmemory.cli.home import RunNote, running_url
from chainmemory.cli.output import print_json, printable, say
from chainmemory.cli.verify_home import verify_home
from chainmemory.cli.witness import Witness
from chainmemory.client import Client, Json
from chainmemory.errors import ConfigurationError, IntegrityError, Unavailable
from chainmemory.settings import Settings


def verify(
    name: Annotated[
        str | None, typer.Argument(help="A project's public name.", metavar="NAME", show_default=False)
    ] = None,
    rpc: Annotated[
        str | None,
        typer.Option(help="Ask the chain here.", show_default="what the server names", metavar="URL"),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Check the whole home, decrypted; its server needn't run.")
    ] = False,
    chain: Annotated[
        bool, typer.Option("--chain/--no-chain", help="With --all: compare with the chain, too.")
    ] = True,
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a project, or (--all) the home, with the chain.

    Every anchored version is looked up in the contract itself, by plain JSON-RPC.

    Exit code 0: all match; 1: something differs; 2: not all could be compared.
    """
    settings = Settings.load(home=home)
    if everything:
        if name is not None:
            raise ConfigurationError("Give NAME or --all, not both.")
        verify_home(settings, rpc, chain=chain, as_json=as_json)
        return
    if name is None:
        raise ConfigurationError("Give a project's public name, or --all for the whole home.")
    compared = 0
    waiting = 0
    cursor: str | None = None
    with connect_publicly(settings, url) as client:
        answer = client.verify(name)
        with Witness(rpc_of(answer, settings, rpc, client)) as witness:
            place = witness.place
            while True:
                on_page = check_public(answer, witness)
                compared += on_page
                waiting += len(answer["anchors"]) - on_page
                cursor = answer.get("next_cursor")
                if not cursor:
                    break
                answer = client.verify(name, cursor=cursor)
    if answer["verified"] is False:
        raise IntegrityError(f"The server itself says that {name} doesn't match.")
    if as_json:
        print_json({"project": name, "compared": compared, "not_on_chain_yet": waiting, "asked": place})
    else:
        say(
            f"{printable(name)}: {compared} anchored version{'s' if compared != 1 else ''} "
            "found in the contract"
            + (f", {waiting} not on chain yet" if waiting else "")
            + f" (asked {place})"
        )
    if compared == 0:
        raise Unavailable(f"No version of {name} is anchored yet, so there was nothing to compare.")


def rpc_of(answer: Json, settings: Settings, given: str | None, client: Client) -> str:
    """Return the RPC address to ask: the given one, else the home's own server's, else what `answer` names.

    Raises Unavailable where there is none.
    """
    if given:
        return given
    if client.url == running_url(settings):
        note = RunNote.read(settings)
        own = (note.chain_url if note else None) or settings.rpc_url
        if own:
            return own
    if answer["chain"]["rpc"]:
        return str(answer["chain"]["rpc"])
    raise Unavailable("The server names no public RPC address; name one with --rpc.")
