"""The doors as FastAPI routes, so that FastAPI writes the OpenAPI document and lists them in `app.routes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from api import errors
from api.door import Door

_KEY_HEADER = {"$ref": "#/components/parameters/IdempotencyKey"}
SECURITY_SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "aic_…"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
COMPONENTS: dict[str, Any] = {
    "schemas": {"Error": errors.SCHEMA},
    "securitySchemes": SECURITY_SCHEMES,
    "parameters": {
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "The same key and body within 24 hours give the stored answer again, with "
            "`Idempotent-Replayed: true`; the same key with another body is refused (409).",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
        }
    },
}


class DoorRoute(APIRoute):
    """A documented route; requests reach its door through the shell, not through here."""

    def __init__(self, door: Door) -> None:
        super().__init__(
            door.path,
            _documented_only,
            methods=[door.method],
            name=door.handler.__name__,
            operation_id=door.handler.__name__,
            summary=door.summary,
            description=_description(door),
            tags=[door.tag],
            status_code=door.status,
            response_description="Done",
            responses=_responses(door),
            openapi_extra=_request(door),
            include_in_schema=door.documented,
        )

    async def handle(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("requests go through api.shell")


def complete(document: dict[str, Any], doors: Iterable[Door]) -> None:
    """Put in what FastAPI drops on its way: nulls in examples; and take out the JSON it adds to pages."""
    for door in doors:
        if not door.documented:
            continue
        operation = document["paths"][door.path][door.method.lower()]
        responses = _responses(door)
        operation["responses"] = {str(status): response for status, response in responses.items()}
        if door.body is not None:
            operation["requestBody"] = _body(door)
    document.setdefault("components", {}).update(COMPONENTS)


async def _documented_only() -> None:
    raise RuntimeError("requests go through api.shell")


def _description(door: Door) -> str:
    needs = {
        "nothing": "Needs no key.",
        "local": "Needs no key on the server's own machine.",
        "public": "Public; rate-limited per address."
        + (" With a key the account's own names come first." if door.knows_key else ""),
        "read": "Needs a key of any scope.",
        "write": "Needs a key with the scope write or owner.",
        "owner": "Needs a key with the scope owner.",
    }
    return f"{door.description}\n\n{needs[door.needs]}".strip()


def _request(door: Door) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    for name, kind in door.params.items():
        parameters.append({"name": name, "in": "path", "required": True, "schema": kind.schema()})
    if door.query is not None:
        for name, field in door.query.fields.items():
            parameter = {
                "name": name,
                "in": "query",
                "required": field.required,
                "schema": field.kind.schema(),
            }
            if field.note:
                parameter["description"] = field.note
            parameters.append(parameter)
    if door.once:
        parameters.append(_KEY_HEADER)
    extra: dict[str, Any] = {"parameters": parameters} if parameters else {}
    if door.body is not None:
        extra["requestBody"] = _body(door)
    if door.needs in ("read", "write", "owner"):
        extra["security"] = [{"key": []}, {"bearer": []}]
    elif door.knows_key:
        extra["security"] = [{}, {"key": []}, {"bearer": []}]
    else:
        extra["security"] = []
    return extra


def _body(door: Door) -> dict[str, Any]:
    assert door.body is not None
    content: dict[str, Any] = {"schema": door.body.schema()}
    if door.body_example is not None:
        content["example"] = door.body_example
    return {"required": door.body_required, "content": {"application/json": content}}


def _responses(door: Door) -> dict[int | str, dict[str, Any]]:
    content: dict[str, Any] = {"schema": door.answer}
    if door.example is not None:
        content["example"] = door.example
    responses: dict[int | str, dict[str, Any]] = {
        door.status: {"description": "Done", "content": {door.media: content}}
    }
    if door.may_say_nothing:
        responses[204] = {"description": "Nothing to answer"}
    for status in sorted({*_usual_errors(door), *door.errors}):
        responses[status] = {
            "description": errors.MEANING[status],
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
    return responses


def _usual_errors(door: Door) -> set[int]:
    """The errors that follow from a door's own rules."""
    found = {500, 503}
    if door.needs in ("read", "write", "owner"):
        found |= {401, 403} if door.needs != "read" else {401}
    if door.knows_key:
        found.add(401)
    if door.needs == "public":
        found.add(429)
    if door.body is not None:
        found |= {413, 422}
    if door.query is not None or door.params:
        found.add(422)
    if door.once:
        found |= {409, 422}
    return found
