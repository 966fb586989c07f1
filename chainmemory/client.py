"""The Python SDK: a thin, typed client of the HTTP API that raises the same errors the library does."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from chainmemory.errors import (
    ChainMemoryError,
    ConfigurationError,
    Conflict,
    Forbidden,
    IntegrityError,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from chainmemory.logging import redact_url

Json = dict[str, Any]

PAGE = 200
"""Items of a list page; the API's largest (api.md, Conventions)."""
BATCH = 500
"""Memories of one batch; the API's largest."""
ATTEMPTS = 4
"""How often a call that is safe to repeat is made while the server can't be reached."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
"""Cap of the wait a busy server asks for."""

# What a server answers with where it found stored bytes changed.
_CHANGED = frozenset({IntegrityError.code, "undecryptable", "state_mismatch"})
_BY_STATUS: dict[int, type[ChainMemoryError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: RateLimited,
    503: Unavailable,
}


class Client:
    """One account's view of a server at `url`; without `api_key` only the public routes answer.

    Every call raises the ChainMemoryError that fits the answer, with the API's code, field and details, and
    Unavailable where no answer comes. Calls that write carry an idempotency key, so they are safely repeated
    when a connection breaks.
    """

    def __init__(
        self, url: str, api_key: str | None = None, *, timeout_s: float = 60.0, key_from: str | None = None
    ) -> None:
        """Speak to `url`; `key_from` tells in a refusal which file or variable the key is of.

        Raises ConfigurationError where `url` is no address, or the key holds what no key can.
        """
        self.url = _address(url)
        what = f"The API key of {key_from}" if key_from else "The API key"
        self.api_key = _sendable(api_key, what) if api_key else api_key
        self.key_from = key_from
        headers = {"x-api-key": api_key} if api_key else {}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -- accounts -----------------------------------------------------------------------------------

    def create_account(self, *, admin_token: str | None = None) -> Json:
        """Create an account; the answer's `api_key` is shown this once."""
        return self._object(self._send("POST", "/v1/keys", headers=_admin(admin_token)))

    def keys(self) -> Iterator[Json]:
        """Yield the account's keys, oldest first, revoked ones too; never the keys themselves."""
        return self._pages("/v1/keys", "keys")

    def add_key(self, label: str, scope: str) -> Json:
        """Add a key to the account; the answer's `api_key` is shown this once."""
        return self._object(self._send("POST", "/v1/keys/members", body={"label": label, "scope": scope}))

    def revoke_key(self, key_id: str) -> Json:
        """Revoke a key for ever."""
        return self._object(self._send("DELETE", f"/v1/keys/{_part(key_id)}"))

    def profile(self) -> Json:
        """Return the account's profile."""
        return self.get("/v1/profile")

    # -- memories -----------------------------------------------------------------------------------

    def save(self, content: str, **fields: Any) -> Json:
        """Save one memory; `fields` as api.md lists them, None where not given."""
        return self.post("/v1/memory", {"content": content, **_given(fields)})

    def save_batch(self, memories: list[Json], *, idempotency_key: str | None = None) -> list[Json]:
        """Save up to 500 memories, all or none."""
        body = {"memories": memories}
        answer = self.post("/v1/memories/batch", body, idempotency_key=idempotency_key)
        return list(answer["memories"])

    def memories(self, *, limit: int = 50, offset: int = 0, **filters: Any) -> Json:
        """Return one page of memories with their whole text, newest first."""
        return self.get("/v1/memories", limit=limit, offset=offset, **filters)

    def iter_memories(self, **filters: Any) -> Iterator[Json]:
        """Yield every memory without its text, newest first."""
        return self._pages("/v1/memories/list", "memories", **filters)

    def memory(self, number: int) -> Json:
        """Return one memory's header, filing and sync status."""
        return self.get(f"/v1/memory/{number}")

    def projects(self) -> Iterator[Json]:
        """Yield the account's projects, oldest first, archived ones too."""
        return self._pages("/v1/projects", "projects")

    # -- project state ------------------------------------------------------------------------------

    def apply_ops(self, project: str, ops: list[Json], **options: Any) -> Json:
        """Apply operations to a project's state; `options` as api.md lists them."""
        return self.post(f"{_project(project)}/state/ops", {"ops": ops, **_given(options)})

    def state(self, project: str, version: int | None = None) -> Json:
        """Return a project's state, the latest by default."""
        return self.get(f"{_project(project)}/state", version=version)

    def evidence(self, project: str, item_id: str, version: int | None = None) -> Json:
        """Return the event hashes behind an item, with their proofs."""
        return self.get(f"{_project(project)}/state/evidence/{_part(item_id)}", version=version)

    def anchor(self, project: str, version: int | None = None) -> Json:
        """Return where a state version stands on its way to the chain."""
        return self.get(f"{_project(project)}/state/anchor", version=version)

    def verify(self, public_name: str, *, limit: int | None = None, cursor: str | None = None) -> Json:
        """Return one page of the public verification of a project."""
        return self.get(f"/v1/verify/{_part(public_name)}", limit=limit, cursor=cursor)

    # -- agents kept as files, on the server's own machine ------------------------------------------

    def verify_files(self, agent_id: str, *, deep: bool = False, admin_token: str | None = None) -> Json:
        """Return the report on an agent's ledger that is kept as files."""
        query = {"agent_id": agent_id, **({"deep": "1"} if deep else {})}
        headers = _admin(admin_token)
        return self._object(self._send("GET", "/ledger/verify", query=query, headers=headers))

    def seal_files(self, agent_id: str, *, root: str | None = None, admin_token: str | None = None) -> Json:
        """Adopt an agent's unsealed files; refused where the server's agents lie elsewhere than `root`."""
        body = _given({"agent_id": agent_id, "root": root})
        return self._object(self._send("POST", "/ledger/seal", body=body, headers=_admin(admin_token)))

    def anchor_files(self, agent_id: str, *, root: str | None = None, admin_token: str | None = None) -> Json:
        """Queue the head of an agent's ledger for the chain, once, and return how far it is."""
        body = _given({"agent_id": agent_id, "root": root})
        return self._object(self._send("POST", "/ledger/anchor", body=body, headers=_admin(admin_token)))

    # -- the server ---------------------------------------------------------------------------------

    def chain(self) -> Json:
        """Return the chain's id, head, contracts and signers, and the worker's health."""
        return self.get("/v1/chain")

    def ready(self) -> Json:
        """Return what /readyz says, whether 200 or 503, with its `status_code`."""
        answer = self._send("GET", "/readyz")
        try:
            said = answer.json()
        except ValueError:
            said = {}
        return {**(said if isinstance(said, dict) else {}), "status_code": answer.status_code}

    # -- how a call is made -------------------------------------------------------------------------

    def get(self, path: str, **query: Any) -> Json:
        """Read `path`; query values of None are left out."""
        return self._object(self._send("GET", path, query=_given(query)))

    def post(self, path: str, body: Json, *, idempotency_key: str | None = None) -> Json:
        """Write `body` to `path` under an idempotency key, a random one by default."""
        headers = {"idempotency-key": idempotency_key or secrets.token_urlsafe(24)}
        return self._object(self._send("POST", path, body=body, headers=headers))

    def _pages(self, path: str, name: str, **query: Any) -> Iterator[Json]:
        """Yield what stands under `name` on all pages of a list."""
        offset = 0
        while True:
            page = self.get(path, limit=PAGE, offset=offset, **query)[name]
            yield from page
            if len(page) < PAGE:
                return
            offset += len(page)

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        repeatable = method == "GET" or (headers is not None and "idempotency-key" in headers)
        attempts = ATTEMPTS if repeatable else 1
        for attempt in range(1, attempts + 1):
            pause = FIRST_PAUSE_S * 2**attempt
            try:
                answer = self._http.request(method, path, params=query, json=body, headers=headers)
            except UnicodeEncodeError:
                raise _no_unicode() from None
            except httpx.TransportError as error:
                # A refused connection won't heal by itself within our patience.
                if attempt == attempts or isinstance(error, httpx.ConnectError):
                    raise Unavailable(
                        f"No ChainMemory server answers at {_place(self.url)} "
                        f"({type(error).__name__}). Start one with `chainmemory serve` (from a checkout "
                        "scripts/start); one on another home or port is named with --home or --url."
                    ) from error
            else:
                if answer.status_code != 429 or attempt == attempts:
                    return answer
                pause = _wanted_pause(answer, pause)
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _object(self, response: httpx.Response) -> Json:
        try:
            body = response.json()
        except ValueError:
            body = None
        if response.is_success and isinstance(body, dict):
            return body
        error = _error(response.status_code, body)
        if isinstance(error, Unauthorized) and self.key_from and self.api_key:
            raise Unauthorized(
                f"{error.message} The key that was refused is the one of {self.key_from}.",
                code=error.code,
                field=error.field,
                details=error.details,
            )
        raise error


def _error(status: int, body: Any) -> ChainMemoryError:
    """Turn the API's error envelope back into the error it was made from."""
    if not isinstance(body, dict) or not isinstance(body.get("error"), str):
        return Unavailable(f"The answer (HTTP {status}) isn't one of a ChainMemory server.")
    code = body.get("code")
    kind = IntegrityError if code in _CHANGED else _BY_STATUS.get(status, ChainMemoryError)
    return kind(body["error"], code=code, field=body.get("field"), details=body.get("details"))


def _wanted_pause(busy: httpx.Response, otherwise: float) -> float:
    """Return how long a busy server (429) asks to wait, in seconds, within reason."""
    asked = busy.headers.get("retry-after", "")
    return min(float(asked), LONGEST_PAUSE_S) if asked.isdecimal() else otherwise


def _place(url: str) -> str:
    """Return an address for people: without credentials, and with its port, the usual one too."""
    parts = urlsplit(url)
    usual = "" if parts.port else f":{443 if parts.scheme == 'https' else 80}"
    return redact_url(url) + usual


def _address(url: str) -> str:
    """Return the address without a slash at its end. Raises ConfigurationError."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host or not 0 <= (parsed.port or 0) <= 65535:
        raise ConfigurationError(
            "The server's address (--url, CHAINMEMORY_URL) isn't one; it is like http://127.0.0.1:8420."
        )
    return url.rstrip("/")


def _sendable(secret: str, what: str) -> str:
    """Return a key or token that a header can carry. Raises ConfigurationError, which doesn't quote it."""
    if not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
        raise ConfigurationError(
            f"{what} can't be right: it holds a line break, a space at an end or a letter beyond ASCII. "
            "Copy it anew."
        )
    return secret


def _part(name: str) -> str:
    """Return a name as a part of a path. Raises Invalid."""
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise _no_unicode() from None


def _no_unicode() -> Invalid:
    return Invalid("A name or text isn't Unicode: its bytes are no valid UTF-8. Nothing was sent.")


def _admin(token: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {_sendable(token, 'The admin token')}"} if token else {}


def _given(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _project(name: str) -> str:
    return f"/v1/project/{_part(name)}"
