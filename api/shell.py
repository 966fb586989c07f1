"""The ASGI application under FastAPI's: find the door, check in the order api.md gives, answer in one shape.

FastAPI's own request path (dependency injection, exit stacks, a middleware stack, a scan over all routes)
costs about 0.2 ms a request here, a quarter of what a durable save may cost. So FastAPI keeps what it is good
at, the document and the mounting of other applications, and requests go from here straight to their door.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from api.auth import check_may_create_accounts, key_in
from api.door import Answer, Call, Door
from api.errors import MethodNotAllowed, encode, envelope, headers_of, status_of
from api.limits import IN_LOOP_BYTES, ClientGone, Receive, read_body
from api.site import Site
from chainmemory.engine.callers import Caller
from chainmemory.engine.once import MAX_KEY_LENGTH, Once, Written
from chainmemory.errors import ChainMemoryError, Forbidden, Invalid, NotFound, Unauthorized
from chainmemory.logging import log
from chainmemory.protocol.canonical import parse_json
from chainmemory.store_file import DAMAGED

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_QUERY_FIELDS = 100


class Shell:
    """Every request passes here; what is no door of ours goes on to `rest` (mounted applications)."""

    def __init__(self, site: Site, doors: list[Door], rest: App) -> None:
        self._site = site
        self._rest = rest
        self._exact: dict[str, dict[str, Door]] = {}
        self._forms: list[tuple[re.Pattern[str], dict[str, Door]]] = []
        forms: dict[str, dict[str, Door]] = {}
        for door in doors:
            table = forms if "{" in door.path else self._exact
            table.setdefault(door.path, {})[door.method] = door
        for path, methods in forms.items():
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
            self._forms.append((re.compile(pattern), methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        methods, params = self._find(scope["path"])
        if methods is None:
            await self._elsewhere(scope, receive, send)
            return
        started = time.perf_counter()
        method = scope["method"]
        door = methods.get("GET" if method == "HEAD" else method)
        self._site.in_flight += 1
        try:
            if door is None:
                raise MethodNotAllowed(sorted(methods))
            answer = await self._enter(door, params, scope, receive)
        except ClientGone:
            return
        except ChainMemoryError as error:
            if error.code == DAMAGED:
                self._site.engine.note_damage(error)
            # A wrong method is told as the address's other doors tell their errors.
            refuse = (door or next(iter(methods.values()))).refuse
            answer = refuse(error) if refuse else error_answer(error)
        except Exception:  # noqa: BLE001 - whatever it was, the client gets an answer and the log the place
            answer = _unexpected(scope)
        finally:
            self._site.in_flight -= 1
        status = answer.status or (door.status if door else 200)
        if isinstance(answer.body, Iterator):
            await self._stream(send, answer, status)
        else:
            await _send(send, answer, status)
        route = next(iter(methods.values())).path
        self._site.metrics.count(method if door else "other", route, status, time.perf_counter() - started)

    def _find(self, path: str) -> tuple[dict[str, Door] | None, dict[str, str]]:
        exact = self._exact.get(path)
        if exact is not None:
            return exact, {}
        for pattern, methods in self._forms:
            found = pattern.fullmatch(path)
            if found is not None:
                return methods, found.groupdict()
        return None, {}

    async def _elsewhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._rest(scope, receive, send)
        except ChainMemoryError as error:
            await _send(send, error_answer(error), status_of(error))

    async def _stream(self, send: Send, answer: Answer, status: int) -> None:
        """Send an answer piece by piece, each made in the pool once the one before is on its way.

        What fails in between cuts the answer off, so that nobody takes it for whole.
        """
        pieces: Iterator[bytes] = answer.body
        piece = await self._site.pool.run(next, pieces, None)
        await send({"type": "http.response.start", "status": status, "headers": _headers(answer)})
        while piece is not None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            piece = await self._site.pool.run(next, pieces, None)
        await send({"type": "http.response.body", "body": b""})

    async def _enter(self, door: Door, params: dict[str, str], scope: Scope, receive: Receive) -> Answer:
        """Check a request in the order of api.md, and run its handler."""
        site = self._site
        raw_headers = scope["headers"]
        headers = dict(raw_headers)
        peer = scope["client"][0] if scope.get("client") else None
        if door.needs == "public":
            site.limiter.take(peer or "")
        engine = site.engine
        if door.needs == "local":
            check_may_create_accounts(raw_headers, peer, site.settings)
        caller = await self._caller(door, headers)
        raw = b""
        if door.body is not None:
            limit = site.settings.max_body_bytes
            raw = await read_body(receive, headers.get(b"content-length"), limit)

        call = Call(site, engine, caller, {}, {}, None, raw, None, raw_headers, peer, scope["scheme"])
        query = scope["query_string"]
        if door.in_loop:
            if len(raw) <= IN_LOOP_BYTES:
                _check(door, call, params, query, headers)
            else:
                await site.pool.run(_check, door, call, params, query, headers)
            return _answer(await door.handler(call))
        return await site.pool.run(_work, door, call, params, query, headers)

    async def _caller(self, door: Door, headers: dict[bytes, bytes]) -> Caller | None:
        """Return whose key the request carries. Raises Unauthorized where one is needed or isn't valid."""
        if door.scope is None and not door.knows_key:
            return None
        key = key_in(headers)
        if key is None:
            if door.knows_key:
                return None
            raise Unauthorized("Send your API key in the header x-api-key.")
        callers = self._site.engine.callers
        return callers.known(key) or await self._site.pool.run(callers.authenticate, key)


def _work(
    door: Door, call: Call, params: dict[str, str], query: bytes, headers: dict[bytes, bytes]
) -> Answer:
    _check(door, call, params, query, headers)
    answer = _answer(door.handler(call))
    if not isinstance(answer.body, (bytes, Iterator)):
        # Here and not in the event loop: a page of memories may have many megabytes.
        answer.body = encode(answer.body)
    return answer


def _check(door: Door, call: Call, params: dict[str, str], query: bytes, headers: dict[bytes, bytes]) -> None:
    """Fill in the call: JSON, then shape, then scope."""
    if door.body is not None:
        body = parse_json(call.raw) if call.raw or door.body_required else {}
        call.body = door.body.check(body, "")
    call.path = _read_path(door, params)
    call.query = _read_query(door, query)
    if door.once and call.caller_or_none is not None:
        call.once = _once(door, params, call.raw, headers.get(b"idempotency-key"))
    caller = call.caller_or_none
    if caller is not None and door.scope is not None and not caller.reaches(door.scope):
        raise Forbidden(
            f"This needs a key with the scope {door.scope}; yours has {caller.scope}.",
            details={"needed": door.scope, "scope": caller.scope},
        )


def _read_path(door: Door, params: dict[str, str]) -> dict[str, Any]:
    return {
        name: door.params[name].read(text, name) if name in door.params else text
        for name, text in params.items()
    }


def _read_query(door: Door, query: bytes) -> dict[str, Any]:
    if door.query is None:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS
        )
    except ValueError:
        raise Invalid(
            f"The query string must be UTF-8, percent-encoded, with at most {MAX_QUERY_FIELDS} fields.",
            code="invalid_request",
        ) from None
    given = dict(pairs)
    read: dict[str, Any] = {}
    for name, field in door.query.fields.items():
        text = given.get(name, "")
        if text:
            read[name] = field.kind.read(text, name)
        elif field.required:
            raise Invalid(f"{name} is missing in the query; give it.", code="missing_field", field=name)
        else:
            read[name] = None
    return read


def _once(door: Door, params: dict[str, str], raw: bytes, key: bytes | None) -> Once | None:
    if key is None:
        return None
    text = key.decode("latin-1")
    if not 1 <= len(text) <= MAX_KEY_LENGTH:
        raise Invalid(
            f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} characters, not {len(text)}.",
            field="Idempotency-Key",
        )
    route = f"{door.method} {door.path.format(**params)}"
    return Once(route=route, key=text, body_hash=hashlib.sha256(raw).hexdigest())


def _answer(result: Any) -> Answer:
    if isinstance(result, Written):
        replayed = ((b"idempotent-replayed", b"true"),) if result.replayed else ()
        return Answer(result.answer, headers=replayed)
    return result if isinstance(result, Answer) else Answer(result)


def error_answer(error: ChainMemoryError) -> Answer:
    """Return the answer that tells an error."""
    return Answer(envelope(error), status=status_of(error), headers=headers_of(error))


def _unexpected(scope: Scope) -> Answer:
    log.error("a request failed unexpectedly", action="api.unexpected", method=scope["method"], exc_info=True)
    return Answer(
        envelope(
            ChainMemoryError(
                "Something unexpected happened here; it is in the server's log. Try again later."
            )
        ),
        status=500,
    )


async def _send(send: Send, answer: Answer, status: int) -> None:
    body = answer.body if isinstance(answer.body, bytes) else encode(answer.body)
    headers = [*_headers(answer), (b"content-length", str(len(body)).encode())]
    if status == 204:  # has no body, so nothing describes it
        headers = [header for header in headers if not header[0].startswith(b"content-")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", answer.media.encode()),
        (b"cache-control", answer.cache),
        (b"x-content-type-options", b"nosniff"),
        *answer.headers,
    ]


async def not_found(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer a path that nothing serves."""
    if scope["type"] == "http":
        await _send(send, error_answer(NotFound("There is nothing at this address; see /openapi.json.")), 404)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
