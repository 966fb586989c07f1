"""A memory as lists show it; the same for lists and for filing."""

from __future__ import annotations

from api.answers import (
    CATEGORY,
    FLAG,
    FREE,
    HEX32,
    NUMBER,
    SLUG,
    STATUS,
    TEXT,
    TIME,
    UNIX,
    many,
    maybe,
    obj,
)

_HASH = "0xa6b6efbbff022c24b31f8080ae3f70e5572528b89e12ab497d531e6e8a56a0ee"
_CONTENT = "0xd7aee21c7ae2b09873fcf59eaa6392022ce1e31bc05a56920e5b5b53eceb4f91"
_TIME = "2026-09-13T22:02:35.000000Z"

ITEM_KEYS = {
    "memory_number": NUMBER,
    "id": TEXT,
    "timestamp": {**UNIX, "description": "when it happened (occurred_at), Unix seconds"},
    "category": {**CATEGORY, "description": "as filed"},
    "importance": NUMBER,
    "project": maybe(SLUG),
    "tags": many(TEXT),
    "archived": FLAG,
    "source": TEXT,
    "event_hash": HEX32,
    "content_hash": maybe(HEX32),
    "chain_sync": STATUS,
    "summary": maybe(TEXT),
    "summary_preview": maybe({**TEXT, "maxLength": 80}),
    "occurred_at": TIME,
    "provenance": maybe(FREE),
}
ITEM = obj(ITEM_KEYS)
ITEM_EXAMPLE = {
    "memory_number": 1,
    "id": "1",
    "timestamp": 1789336955,
    "category": "DECISION",
    "importance": 6,
    "project": "payments",
    "tags": ["consensus"],
    "archived": False,
    "source": "api",
    "event_hash": _HASH,
    "content_hash": _CONTENT,
    "chain_sync": "anchored",
    "summary": "Use Clique PoA consensus",
    "summary_preview": "Use Clique PoA consensus",
    "occurred_at": _TIME,
    "provenance": None,
}
