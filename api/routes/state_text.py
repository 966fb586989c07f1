"""What changed between versions of a state, and its brief."""

from __future__ import annotations

from typing import Any

from api.answers import COUNT, FREE, HEX32, NUMBER, SLUG, TEXT, many, maybe, obj
from api.door import Call, Doors
from chainmemory.engine import state_text
from chainmemory.engine.shapes import Choice, Field, Integer, Record, Slug, Text
from chainmemory.state import brief
from chainmemory.state.brief_words import LANGUAGES

DEFAULT_LANG = "en"
DEFAULT_LEVEL = "standard"

doors = Doors("Project state")

_HASH = "0xa6b6efbbff022c24b31f8080ae3f70e5572528b89e12ab497d531e6e8a56a0ee"
_NAME = {"name": Slug()}


@doors.get(
    "/v1/project/{name}/state/diff",
    needs="owner",
    summary="What changed between two versions",
    description="Per item: what was added, and which keys changed (`keys`: name → [old, new]). `moved` are "
    "the priorities whose own move explains the new order, with their ranks.",
    params=_NAME,
    query=Record(
        {
            "from": Field(Integer(0), note="default: the version before `to`"),
            "to": Field(Integer(0), note="default: the latest"),
        }
    ),
    answer=obj(
        {
            "project": SLUG,
            "from": COUNT,
            "to": COUNT,
            "added": many(FREE),
            "changed": many(obj({"id": TEXT, "keys": FREE})),
            "moved": many(obj({"id": TEXT, "from": NUMBER, "to": NUMBER})),
        }
    ),
    example={
        "project": "payments",
        "from": 1,
        "to": 2,
        "added": [],
        "changed": [{"id": "dec_0001", "keys": {"status": ["proposed", "confirmed"]}}],
        "moved": [],
    },
    errors=(404,),
)
def diff_state(call: Call) -> dict[str, Any]:
    return state_text.difference(
        call.engine, call.caller, call.path["name"], call.query["from"], call.query["to"]
    )


@doors.get(
    "/v1/project/{name}/inject",
    needs="owner",
    summary="The brief: the state as text, by relevance",
    params=_NAME,
    query=Record(
        {
            "budget": Field(
                Integer(brief.MIN_BUDGET, brief.MAX_BUDGET), note=f"default {brief.DEFAULT_BUDGET}"
            ),
            "since": Field(Integer(0), note="a version: only what changed after it"),
            "task": Field(Text(1, 4000), note="what the reader is about to do"),
            "lang": Field(Choice(LANGUAGES), note=f"default {DEFAULT_LANG}"),
            "level": Field(Choice(brief.LEVELS), note=f"default {DEFAULT_LEVEL}"),
        }
    ),
    answer=obj(
        {
            "project": SLUG,
            "version": COUNT,
            "state_hash": HEX32,
            "since": maybe(COUNT),
            "budget": NUMBER,
            "lang": TEXT,
            "level": TEXT,
            "text": TEXT,
        }
    ),
    example={
        "project": "payments",
        "version": 1,
        "state_hash": _HASH,
        "since": None,
        "budget": 7000,
        "lang": "en",
        "level": "standard",
        "text": "Project state, version 1 …",
    },
    errors=(404,),
)
def inject_state(call: Call) -> dict[str, Any]:
    query = call.query
    return state_text.inject(
        call.engine,
        call.caller,
        call.path["name"],
        budget=query["budget"] or brief.DEFAULT_BUDGET,
        since=query["since"],
        task=query["task"],
        lang=query["lang"] or DEFAULT_LANG,
        level=query["level"] or DEFAULT_LEVEL,
    )
