"""Filing: what the store did with a memory afterwards; no hash changes by it (protocol §3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from chainmemory.engine.callers import Caller
from chainmemory.engine.memory_input import TAGS
from chainmemory.engine.memory_save import seal_tags
from chainmemory.engine.memory_view import item
from chainmemory.engine.once import Once, Written, write
from chainmemory.engine.shapes import Choice, Field, Integer, Record, need
from chainmemory.errors import Invalid
from chainmemory.protocol.event import CATEGORIES
from chainmemory.store.tx import Tx

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

RETAG: Final = Record({"tags": need(TAGS, "the new tags; [] for none")})


class _Filing(Record):
    """category, superseded_by or both. Here null says something: superseded by nothing."""

    def __init__(self) -> None:
        super().__init__(
            {
                "category": Field(
                    Choice(CATEGORIES), note="how it is filed; the header keeps what was declared"
                ),
                "superseded_by": Field(Integer(1), note="number of the newer memory; null: of none"),
            }
        )

    def check(self, value: Any, path: str = "") -> dict[str, Any]:
        found = super().check(value, path)
        changes = {name: found[name] for name in found if found[name] is not None}
        if "superseded_by" in value:
            changes["superseded_by"] = found["superseded_by"]
        if not changes:
            raise Invalid("Give category or superseded_by.", code="missing_field", field="category")
        return changes


REFILE: Final = _Filing()


def set_tags(engine: Engine, caller: Caller, once: Once | None, number: int, tags: list[str]) -> Written:
    """Replace a memory's tags and return it as lists show it. Raises NotFound."""
    vault = engine.vault(caller.account_id)
    different = list(dict.fromkeys(tags))

    def change(tx: Tx) -> None:
        tx.memories.set_tags(
            caller.account_id,
            number,
            tags_blob=seal_tags(vault, number, different),
            tag_tokens=vault.tag_tokens(different) if different else None,
        )

    return _filed(engine, caller, once, number, change)


def set_archived(engine: Engine, caller: Caller, once: Once | None, number: int, archived: bool) -> Written:
    """Archive a memory or take it back. Raises NotFound."""
    return _filed(
        engine,
        caller,
        once,
        number,
        lambda tx: tx.memories.set_archived(caller.account_id, number, archived),
    )


def set_filing(
    engine: Engine, caller: Caller, once: Once | None, number: int, changes: dict[str, Any]
) -> Written:
    """Change the category a memory is filed under, and which memory supersedes it (as REFILE returns them).

    Raises NotFound; Invalid where `superseded_by` is the memory itself or doesn't exist.
    """

    def change(tx: Tx) -> None:
        newer = changes.get("superseded_by")
        if newer is not None:
            tx.memories.get(caller.account_id, number)
            if newer == number or not tx.memories.event_hashes(caller.account_id, [newer]):
                raise Invalid(
                    f"superseded_by must be the number of another memory of yours, not {newer}.",
                    field="superseded_by",
                )
        tx.memories.set_filing(caller.account_id, number, **changes)

    return _filed(engine, caller, once, number, change)


def _filed(
    engine: Engine, caller: Caller, once: Once | None, number: int, change: Callable[[Tx], None]
) -> Written:
    vault = engine.vault(caller.account_id)

    def work(tx: Tx) -> dict[str, Any]:
        change(tx)
        row = tx.memories.get(caller.account_id, number)
        return {**item(vault, row, whole=False), "superseded_by": row.superseded_by}

    return write(engine, caller, once, work, numbers=lambda _: (number, number))
