"""A project's state driven without a store: what the engine does around the builder, in memory."""

from __future__ import annotations

import hashlib
from typing import Any

from chainmemory.state.builder import ProjectState, Result, apply_call, check_call, cited_numbers

PROJECT_ID = "0x" + "ab" * 32
SECRET = bytes(range(32))


def event_hash(number: int) -> str:
    """The event hash that memory `number` has in these tests."""
    return "0x" + hashlib.sha256(b"memory %d" % number).hexdigest()


class Project:
    """One project of an account with `memories` memories."""

    def __init__(self, memories: int = 50) -> None:
        self.memories = memories
        self.state = ProjectState.empty(PROJECT_ID)
        self.versions = [self.state]

    def try_call(self, *ops: dict[str, Any], **options: Any) -> Result:
        """Apply a call and keep nothing."""
        call = check_call({"ops": list(ops), **options})
        hashes = {number: event_hash(number) for number in cited_numbers(call) if number <= self.memories}
        return apply_call(
            self.state, call, event_hashes=hashes, highest_memory=self.memories, project_secret=SECRET
        )

    def call(self, *ops: dict[str, Any], **options: Any) -> Result:
        """Apply a call and keep the new version."""
        result = self.try_call(*ops, **options)
        if result.changed:
            self.state = result.state
            self.versions.append(result.state)
        return result

    def item(self, item_id: str) -> dict[str, Any]:
        """Return an item of the current version, wherever it is."""
        document = self.state.document
        arrays = [value for value in document.values() if isinstance(value, list)]
        arrays += document["environment"].values()
        return next(item for array in arrays for item in array if item["id"] == item_id)
