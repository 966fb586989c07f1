"""`chainmemory keys` and `status`: who am I, and how is the server."""

from __future__ import annotations

from typing import Annotated

import typer

from chainmemory.cli import options
from chainmemory.cli.account import connect, connect_publicly, keep, kept_account, server_url
from chainmemory.cli.output import as_text, print_json, printable, say
from chainmemory.client import Client
from chainmemory.errors import ConfigurationError, Unauthorized, Unavailable
from chainmemory.settings import Settings

keys = typer.Typer(help="Accounts and their API keys.", no_args_is_help=True)


@keys.callback()
def _group() -> None:
    """Accounts and their API keys."""


@keys.command("create")
def create(
    home: options.Home = None,
    url: options.Url = None,
    save: Annotated[
        bool, typer.Option(help="Keep the key in the home (client.json, mode 0600) for later commands.")
    ] = True,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of a key that is kept already.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Create an account and print its owner key, shown this once."""
    settings = Settings.load(home=home)
    # Looked at first: a key that can't be kept would be lost, for it is shown once.
    if save and not replace and kept_account(settings) is not None:
        raise ConfigurationError(
            f"{settings.home} already keeps an account's key. Use --no-save to only print the new one, "
            "or --replace to keep it instead."
        )
    place = server_url(settings, url)
    token = settings.admin_token.get_secret_value() if settings.admin_token else None
    with Client(place) as client:
        created = client.create_account(admin_token=token)
    try:
        path = keep(settings, place, created) if save else None
    finally:  # shown this once: it must neither depend on the file, nor the file on it
        if as_json:
            print_json(created)
        else:
            say(f"account  {created['account_id']}\napi key  {created['api_key']}")
            say("The key is shown this once; the server keeps only its hash.", err=True)
    if path:
        say(printable(f"Later commands find it in {path}."), err=True)


@keys.command("add")
def add(
    label: Annotated[str, typer.Argument(help="What the key is for.", metavar="LABEL")],
    scope: Annotated[str, typer.Option(help="owner, write or read.", metavar="SCOPE")] = "write",
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Add a key to the account and print it, shown this once."""
    with connect(home, url) as client:
        added = client.add_key(label, scope)
    if as_json:
        print_json(added)
    else:
        say(f"key id   {added['key_id']}\nscope    {added['scope']}\napi key  {added['api_key']}")
        say("The key is shown this once; the server keeps only its hash.", err=True)


@keys.command("list")
def list_keys(home: options.Home = None, url: options.Url = None, as_json: options.AsJson = False) -> None:
    """List the account's keys, but never a key itself.

    Oldest first, revoked ones too.
    """
    with connect(home, url) as client:
        found = list(client.keys())
    if as_json:
        print_json({"keys": found})
        return
    for key in found:
        revoked = f"revoked {key['revoked_at'][:16]}" if key["revoked_at"] else "valid"
        label = printable(key["label"] or "-")
        say(f"{key['key_id']}  {key['scope']:<5}  {key['created_at'][:16]}  {revoked:<24}  {label}")


@keys.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `keys list` shows it.", metavar="KEY_ID")],
    home: options.Home = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> None:
    """Revoke a key, for ever. The last owner key can't be."""
    with connect(home, url) as client:
        revoked = client.revoke_key(key_id)
    if as_json:
        print_json(revoked)
    else:
        say(f"{revoked['key_id']} is revoked.")


def status(home: options.Home = None, url: options.Url = None, as_json: options.AsJson = False) -> None:
    """Show how the server, its chain and its worker are.

    Exit code 1: it isn't ready; 2: it isn't there.
    """
    settings = Settings.load(home=home)
    with connect_publicly(settings, url) as client:
        ready = client.ready()
        code = int(ready.pop("status_code"))
        shown: dict[str, object] = {"url": client.url, "ready": code == 200, "readyz": ready}
        try:
            shown["chain"] = client.chain()
        except Unavailable as error:
            shown["chain"] = {"error": error.message}
        try:
            shown["account"] = client.profile()
        except Unauthorized as error:
            shown["account"] = {"error": error.message} if client.api_key else None
    if as_json:
        print_json(shown)
    else:
        say(as_text(shown))
    raise typer.Exit(0 if code == 200 else 1)
