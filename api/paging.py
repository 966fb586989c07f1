"""`limit` and `offset` of lists (api.md, Conventions)."""

from __future__ import annotations

from typing import Any, Final

from chainmemory.engine.shapes import Field, Integer

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200

LIMIT: Final = {"limit": Field(Integer(1, MAX_LIMIT), note=f"default {DEFAULT_LIMIT}")}
PAGE: Final = {**LIMIT, "offset": Field(Integer(0, 2**53 - 1), note="default 0")}


def limit_in(query: dict[str, Any]) -> int:
    """Return the page's size."""
    return query["limit"] if query["limit"] is not None else DEFAULT_LIMIT


def page_in(query: dict[str, Any]) -> dict[str, int]:
    """Return `limit` and `offset`."""
    return {"limit": limit_in(query), "offset": query["offset"] or 0}
