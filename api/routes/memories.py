"""Lists of memories, search, and the context for a model."""

from __future__ import annotations

from typing import Any

from api.answers import (
    COUNT,
    FLAG,
    TEXT,
    UNIX,
    many,
    obj,
)
from api.door import Call, Doors
from api.paging import LIMIT, PAGE, limit_in, page_in
from api.routes.memory_items import ITEM, ITEM_EXAMPLE, ITEM_KEYS
from chainmemory.engine import memory_read
from chainmemory.engine.shapes import Boolean, Choice, Field, Moment, Record, Slug, Text, need
from chainmemory.protocol.event import CATEGORIES

doors = Doors("Memories")

_LIST = Record(
    {
        **PAGE,
        "project": Slug(),
        "tag": Field(Text(1, 100), note="exactly as written"),
        "category": Field(Choice(CATEGORIES), note="as filed"),
        "archived": Field(
            Choice(("0", "1", "true", "false", "all")), note="1: archived ones alone; all: both; default 0"
        ),
        "include_plaintext": Field(Boolean(), note="on /v1/memories/list: give the whole text in summary"),
        "since": Field(Moment(), note="occurred at or after this time"),
        "until": Field(Moment(), note="occurred before this time"),
    }
)
_ARCHIVED = {None: False, "0": False, "false": False, "1": True, "true": True, "all": None}


def _listed(call: Call, *, whole: bool) -> dict[str, Any]:
    query = call.query
    return memory_read.list_memories(
        call.engine,
        call.caller,
        **page_in(query),
        whole=whole,
        project=query["project"],
        tag=query["tag"],
        category=query["category"],
        archived=_ARCHIVED[query["archived"]],
        since=query["since"],
        until=query["until"],
    )


@doors.get(
    "/v1/memories",
    needs="read",
    summary="List memories with their text",
    description="Newest (highest number) first. `summary` is null for what the server can't read: "
    "client-sealed or forgotten memories, and damaged ones (the audit names those).",
    query=_LIST,
    answer=obj({"memories": many(ITEM), "total": COUNT}),
    example={"memories": [ITEM_EXAMPLE], "total": 1},
)
def list_memories(call: Call) -> dict[str, Any]:
    return _listed(call, whole=True)


@doors.get(
    "/v1/memories/list",
    needs="read",
    summary="List memories with a preview",
    description="As /v1/memories; `summary` is null unless `include_plaintext=1`.",
    query=_LIST,
    answer=obj({"memories": many(ITEM), "total": COUNT}),
    example={"memories": [{**ITEM_EXAMPLE, "summary": None}], "total": 1},
)
def list_memory_previews(call: Call) -> dict[str, Any]:
    return _listed(call, whole=bool(call.query["include_plaintext"]))


@doors.get(
    "/v1/memories/search",
    needs="read",
    summary="Search the memories' words, best first",
    description="Ranked full text over encrypted storage: the index holds keyed tokens, no words. Whole "
    "words, case-folded. Archived memories are found too.",
    query=Record({"q": need(Text(1, 1000)), **LIMIT, "project": Slug()}),
    answer=obj(
        {
            "query": TEXT,
            "memories": many(obj({**ITEM_KEYS, "score": {"type": "number", "minimum": 0}})),
            "total": COUNT,
        }
    ),
    example={"query": "consensus", "memories": [{**ITEM_EXAMPLE, "score": 1.386294}], "total": 1},
)
def search_memories(call: Call) -> dict[str, Any]:
    return memory_read.search(
        call.engine,
        call.caller,
        query=call.query["q"],
        limit=limit_in(call.query),
        project=call.query["project"],
    )


@doors.get(
    "/v1/memory/context",
    needs="read",
    summary="The newest memories as a context for a model",
    description="`verified`: all hashes add up now, and the chain holds it. `timestamp` is Unix seconds.",
    query=Record({**LIMIT, "verified_only": Boolean()}),
    answer=obj(
        {
            "summary": TEXT,
            "memories": many(obj({"timestamp": UNIX, "platform": TEXT, "summary": TEXT, "verified": FLAG})),
        }
    ),
    example={
        "summary": "The 1 newest memories, newest first:\n- Use Clique PoA consensus",
        "memories": [
            {
                "timestamp": 1789336955,
                "platform": "api",
                "summary": "Use Clique PoA consensus",
                "verified": True,
            }
        ],
    },
)
def memory_context(call: Call) -> dict[str, Any]:
    return memory_read.context(
        call.engine,
        call.caller,
        limit=limit_in(call.query),
        verified_only=bool(call.query["verified_only"]),
    )
