"""One version of a project: its document, what each item has cited, and its hash."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chainmemory.errors import ChainMemoryError, IntegrityError
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.evidence import EvidenceTree
from chainmemory.protocol.hashing import ZERO, hex32, tagged_hash
from chainmemory.state.document import SCHEMA_VERSION, empty_document

_TAG = f"CM_PROJECT_STATE_V{SCHEMA_VERSION}"


@dataclass(frozen=True, slots=True)
class ProjectState:
    """An immutable version of a project; nobody writes to its `document`."""

    document: dict[str, Any]
    cited: Mapping[str, EvidenceTree]
    """Per item id or scalar name, the event hashes it ever cited (iterate for hex32, ascending)."""
    state_hash: str
    """hex32; ZERO for version 0, which is never hashed."""

    @classmethod
    def empty(cls, project_id: str) -> ProjectState:
        """Make version 0 of the project with this hex32 id."""
        return cls(empty_document(project_id), {}, ZERO)

    @property
    def version(self) -> int:
        """The version's number, from 0."""
        return int(self.document["state_meta"]["version"])

    @property
    def previous_state_hash(self) -> str | None:
        """The hash of the version before: ZERO for version 1, None for version 0."""
        previous: str | None = self.document["state_meta"]["previous_state_hash"]
        return previous

    @property
    def consolidated_until_event(self) -> int:
        """The watermark: the last memory number that was consolidated."""
        return int(self.document["state_meta"]["consolidated_until_event"])

    def to_snapshot(self) -> dict[str, Any]:
        """Return all of it as JSON-able values for `from_snapshot`."""
        return {"document": self.document, "cited": {key: list(tree) for key, tree in self.cited.items()}}

    @classmethod
    def from_snapshot(cls, snapshot: Any) -> ProjectState:
        """Restore a version; its hash is computed again, for the caller to compare with the one it stored.

        Raises: IntegrityError if this is no snapshot.
        """
        try:
            document = snapshot["document"]
            cited = {key: EvidenceTree.of(hashes) for key, hashes in snapshot["cited"].items()}
            version = document["state_meta"]["version"]
            return cls(document, cited, state_hash(document) if version else ZERO)
        except (KeyError, TypeError, AttributeError, ChainMemoryError) as error:
            raise IntegrityError(f"this is no snapshot of a project state: {error!r}") from error


def state_hash(document: Mapping[str, Any]) -> str:
    """Hash a state document (protocol §7), hex32."""
    return hash_canonical(canonical(document))


def hash_canonical(document: bytes) -> str:
    """Hash a state document given in canonical form, hex32."""
    return hex32(tagged_hash(_TAG, document))


def state_salt(project_secret: bytes, version: int) -> str:
    """Derive the salt of one version from the project's 32-byte secret, hex32 (protocol §7)."""
    message = b"CM_STATE_SALT_V1\x00" + str(version).encode("ascii")
    return hex32(hmac.digest(project_secret, message, hashlib.sha256))
