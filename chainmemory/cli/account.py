"""Which server the commands talk to, and with which key."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import orjson

from chainmemory.cli.home import prepare_home, running_note, running_url
from chainmemory.client import Client, Json
from chainmemory.errors import ConfigurationError, Invalid, Unauthorized, Unavailable
from chainmemory.settings import Settings

KEY_VARIABLE = "CHAINMEMORY_API_KEY"
KEPT = "client.json"


def server_url(settings: Settings, url: str | None) -> str:
    """Return the server's address: as given, else that of the server on the home."""
    return (url or running_url(settings)).rstrip("/")


def connect(home: Path | None, url: str | None) -> Client:
    """Return a client with the key of CHAINMEMORY_API_KEY, or else the one kept in the home.

    Raises Unauthorized where there is neither.
    """
    client, key = _client(Settings.load(home=home), url)
    if not key:
        raise Unauthorized(
            "There is no API key: create an account with `chainmemory keys create`, or put a key in "
            f"{KEY_VARIABLE}."
        )
    return client


def connect_publicly(settings: Settings, url: str | None) -> Client:
    """Return a client for the public routes, with a key where there is one."""
    return _client(settings, url)[0]


def _client(settings: Settings, url: str | None) -> tuple[Client, str | None]:
    place = server_url(settings, url)
    key, key_from = os.environ.get(KEY_VARIABLE), f"the variable {KEY_VARIABLE}"
    if not key:
        key, key_from = _kept_key(settings, place, given=url is not None), str(settings.home / KEPT)
    return Client(place, key, key_from=key_from), key


def keep(settings: Settings, place: str, created: Json) -> Path:
    """Write an account's key to the home (mode 0600), for the commands that follow."""
    prepare_home(settings.home)
    path = settings.home / KEPT
    new = path.with_suffix(".new")
    kept = {"url": place, "account_id": created["account_id"], "api_key": created["api_key"]}
    with new.open("wb") as file:  # private by prepare_home's umask
        file.write(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    return path


def kept_account(settings: Settings) -> dict[str, Any] | None:
    """Return what `keep` wrote, or None."""
    path = settings.home / KEPT
    try:
        kept: Any = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}.") from None
    except orjson.JSONDecodeError:
        kept = None
    if not isinstance(kept, dict) or not isinstance(kept.get("api_key"), str):
        raise ConfigurationError(f"{path} isn't a file of `chainmemory keys create`; remove or restore it.")
    return kept


def _kept_key(settings: Settings, place: str, *, given: bool) -> str | None:
    """Return the home's key for the home's own server, whatever its port, or for the address it was made at.

    Never for another address: it would be sent to a stranger. Raises Unavailable where the home's server
    doesn't run, and nothing else says that it is the one at `place`.
    """
    kept = kept_account(settings)
    if kept is None or (given and place not in (kept.get("url"), running_url(settings))):
        return None
    # The default port alone says nothing: what listens there may be someone else's.
    known = given or "port" in settings.model_fields_set or running_note(settings) is not None
    if not known and place != kept.get("url"):
        raise Unavailable(
            f"No server runs on the home {settings.home}, and its key isn't sent to {place}, where another "
            "one may listen. Start the server, or name its port with CHAINMEMORY_PORT."
        )
    return str(kept["api_key"])


def text_argument(text: str) -> str:
    """Return a text given on the command line, `-` meaning all of stdin.

    Raises Invalid where the bytes are no UTF-8, or stdin can't be read.
    """
    try:
        given = stdin_bytes().decode() if text == "-" else text
        given.encode()
    except UnicodeError:
        raise Invalid("The text isn't valid UTF-8.") from None
    return given


def stdin_bytes() -> bytes:
    """Return all of stdin. Raises Invalid where it is closed or can't be read."""
    if sys.stdin is None:
        raise Invalid("Standard input is closed; pipe in what is to be read, or name a file instead of -.")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise Invalid(f"Standard input can't be read: {error.strerror or type(error).__name__}.") from None
