"""Is there a server that owns the tails of the file ledgers? (`chainmemory ledger seal`)"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx

from chainmemory.cli.account import server_url
from chainmemory.client import Client
from chainmemory.errors import Unavailable
from chainmemory.logging import redact_url
from chainmemory.settings import Settings

PROBE_S = 5.0


def owning_server(settings: Settings, url: str | None) -> Client | None:
    """Return a client of the configured server where one answers, None where its port refuses connections.

    Raises Unavailable for anything in between: there may be a server, so the files are not to be touched.
    """
    place = server_url(settings, url)
    if _refuses(place):
        return None
    try:
        with httpx.Client(timeout=PROBE_S, trust_env=False, follow_redirects=False) as http:
            answer = http.get(f"{place}/healthz")
    except httpx.HTTPError as error:
        raise _unclear(place, f"/healthz gives no answer ({type(error).__name__})") from None
    try:
        healthy = answer.status_code == 200 and answer.json() == {"ok": True}
    except ValueError:
        healthy = False
    if not healthy:
        raise _unclear(place, f"/healthz answers {answer.status_code}, not as a ChainMemory server does")
    return Client(place)


def admin_token(settings: Settings) -> str | None:
    """Return the admin token of the settings."""
    return settings.admin_token.get_secret_value() if settings.admin_token else None


def _refuses(place: str) -> bool:
    parts = urlsplit(place)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), timeout=PROBE_S):
            return False
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError) as error:
        raise _unclear(place, f"the connection fails ({type(error).__name__})") from None


def _unclear(place: str, why: str) -> Unavailable:
    return Unavailable(
        f"It isn't clear whether a server runs at {redact_url(place)}: {why}. Nothing was sealed; start it, "
        "stop it, or name the right one with --url.",
        code="server_unclear",
    )
