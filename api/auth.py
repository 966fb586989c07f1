"""Who asks: the key in a request's headers, and whether a request comes from this machine's own user."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping

from chainmemory.errors import Unauthorized
from chainmemory.settings import Settings

# Any of them means that somebody stands between, so the peer address says nothing about the caller.
PROXY_HEADERS = (b"forwarded", b"x-real-ip", b"via")
PROXY_PREFIX = b"x-forwarded-"

_LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)

Headers = Mapping[bytes, bytes]
RawHeaders = Iterable[tuple[bytes, bytes]]


def key_in(headers: Headers) -> str | None:
    """Return the API key a request carries, or None. `x-api-key` comes before `Authorization: Bearer`."""
    given = headers.get(b"x-api-key")
    if given is not None:
        return given.decode("latin-1")
    return bearer_in(headers)


def bearer_in(headers: Headers) -> str | None:
    """Return the token of `Authorization: Bearer`, or None."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" and token.strip() else None


def check_may_create_accounts(raw: RawHeaders, peer: str | None, settings: Settings) -> None:
    """Let pass who may create accounts: the user of this very machine, or who holds the admin token.

    Raises Unauthorized. The conditions are api.md's (POST /v1/keys): they keep out other machines, a web page
    in the user's browser (Origin; a rebound name, through Host) and whatever a reverse proxy passes on.
    """
    if from_this_machine(raw, peer, settings):
        return
    headers = dict(raw)
    token = settings.admin_token.get_secret_value() if settings.admin_token is not None else None
    given = headers.get(b"x-admin-token", b"").decode("latin-1") or bearer_in(headers) or ""
    if not token:
        raise Unauthorized(
            "This is open only to programs on the server's own machine (new accounts, agents' files); "
            "to allow it from elsewhere set CHAINMEMORY_ADMIN_TOKEN on the server and send it as a Bearer "
            "token."
        )
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise Unauthorized("Send the server's admin token: Authorization: Bearer CHAINMEMORY_ADMIN_TOKEN.")


def from_this_machine(headers: RawHeaders, peer: str | None, settings: Settings) -> bool:
    """Say whether a request surely comes from a program of this machine's own user."""
    hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
    origins = [value.decode("latin-1").lower() for name, value in headers if name == b"origin"]
    return (
        settings.loopback
        and peer is not None
        and _is_loopback(peer)
        and len(hosts) == 1
        and _LOCAL_HOST.fullmatch(hosts[0]) is not None
        and all(origin in (f"http://{hosts[0]}", f"https://{hosts[0]}") for origin in origins)
        and not any(name in PROXY_HEADERS or name.startswith(PROXY_PREFIX) for name, _ in headers)
    )


def _is_loopback(peer: str) -> bool:
    try:
        return ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False
