"""What changed between versions, and the brief of the current one (api.md, Project state)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainmemory.engine.callers import Caller
from chainmemory.engine.projects import require
from chainmemory.engine.state_load import state_at
from chainmemory.errors import Invalid
from chainmemory.state.brief import brief
from chainmemory.state.diff import diff

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine


def difference(
    engine: Engine, caller: Caller, slug: str, older: int | None, newer: int | None
) -> dict[str, Any]:
    """Return what was added and changed from version `older` (default: one before) to `newer` (default: the
    latest).

    Raises NotFound; Invalid where `older` is the later one.
    """
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = require(tx, caller.account_id, slug)
        last = project.version if newer is None else newer
        first = max(0, last - 1) if older is None else older
        if first > last:
            raise Invalid(f"from ({first}) must not be later than to ({last}).", field="from")
        before = state_at(engine, tx, vault, project, first, "from")
        after = state_at(engine, tx, vault, project, last, "to")
    found = diff(before.document, after.document)
    return {
        "project": slug,
        "from": first,
        "to": last,
        "added": found["added"],
        "changed": found["changed"],
        "moved": found["moved"],
    }


def inject(
    engine: Engine,
    caller: Caller,
    slug: str,
    *,
    budget: int,
    since: int | None,
    task: str | None,
    lang: str,
    level: str,
) -> dict[str, Any]:
    """Return the brief of the current state, at most `budget` characters. Raises NotFound."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        project = require(tx, caller.account_id, slug)
        found = state_at(engine, tx, vault, project, None)
    text = brief(found.document, budget=budget, since=since, task=task, lang=lang, level=level)
    return {
        "project": slug,
        "version": found.version,
        "state_hash": found.state_hash,
        "since": since,
        "budget": budget,
        "lang": lang,
        "level": level,
        "text": text,
    }
