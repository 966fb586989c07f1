"""Projects."""

from __future__ import annotations

from typing import Any

from api.answers import COUNT, FLAG, HEX32, SLUG, TEXT, TIME, TX, many, maybe, obj
from api.door import Call, Doors
from api.paging import PAGE, page_in
from chainmemory.engine import projects
from chainmemory.engine.once import Written
from chainmemory.engine.shapes import Record, Slug

doors = Doors("Projects")

_KEYS = {
    "project_id": {**SLUG, "description": "the slug"},
    "id": {**HEX32, "description": "the hashed id that goes on chain"},
    "public_name": {
        **TEXT,
        "description": "the slug, or the hashed id where another account had the slug first",
    },
    "name": maybe(TEXT),
    "keywords": many(TEXT),
    "description": maybe(TEXT),
    "archived": FLAG,
    "version": COUNT,
    "state_hash": TX,
    "created_at": TIME,
}
PROJECT = obj(_KEYS)
_PROJECT = {
    "project_id": "payments",
    "id": "0x65016e30a1c9c7c5b509a4048143e9aa9d03813c5c48fc7d2c2073a3b7bbad92",
    "public_name": "payments",
    "name": "Payment system",
    "keywords": ["billing"],
    "description": None,
    "archived": False,
    "version": 0,
    "state_hash": None,
    "created_at": "2026-09-13T22:02:35.000000Z",
}


@doors.get(
    "/v1/projects",
    needs="read",
    summary="List the account's projects",
    description="Oldest first, archived ones too; `memories` counts what was saved to it.",
    query=Record(PAGE),
    answer=obj({"projects": many(obj({**_KEYS, "memories": COUNT})), "total": COUNT}),
    example={"projects": [{**_PROJECT, "memories": 12}], "total": 1},
)
def list_projects(call: Call) -> dict[str, Any]:
    return projects.list_projects(call.engine, call.caller, **page_in(call.query))


@doors.post(
    "/v1/projects",
    needs="owner",
    status=201,
    summary="Create a project",
    description="409 `project_exists` if the account has it. An archived one is taken back, with the new "
    "name and keywords.",
    body=projects.CREATE,
    body_example={"project_id": "payments", "name": "Payment system", "keywords": ["billing"]},
    once=True,
    answer=PROJECT,
    example=_PROJECT,
)
def create_project(call: Call) -> Written:
    return projects.create(call.engine, call.caller, call.once, call.body)


@doors.get(
    "/v1/projects/defaults",
    needs="read",
    summary="Projects that can be created by name",
    answer=obj(
        {
            "defaults": many(
                obj({"project_id": SLUG, "name": TEXT, "keywords": many(TEXT), "description": TEXT})
            )
        }
    ),
    example={
        "defaults": [
            {"project_id": "work", "name": "Work", "keywords": ["job"], "description": "Tasks at work."}
        ]
    },
)
def list_default_projects(_call: Call) -> dict[str, Any]:
    return projects.list_defaults()


@doors.post(
    "/v1/projects/from-default/{id}",
    needs="owner",
    status=201,
    summary="Create a default project",
    params={"id": Slug()},
    body=Record({}),
    body_required=False,
    once=True,
    answer=PROJECT,
    example={**_PROJECT, "project_id": "work", "public_name": "work", "name": "Work"},
    errors=(404,),
)
def create_default_project(call: Call) -> Written:
    return projects.create_from_default(call.engine, call.caller, call.once, call.path["id"])


@doors.delete(
    "/v1/projects/{slug}",
    needs="owner",
    summary="Delete a project, or archive one that has state versions",
    description="Its memories stay. A deleted project's public name is never given to another account.",
    params={"slug": Slug()},
    once=True,
    answer=obj({"project_id": SLUG, "deleted": FLAG, "archived": FLAG}),
    example={"project_id": "payments", "deleted": True, "archived": False},
    errors=(404,),
)
def delete_project(call: Call) -> Written:
    return projects.delete(call.engine, call.caller, call.once, call.path["slug"])
