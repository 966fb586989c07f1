"""What a caller gives to save a memory: content, how it is to be filed, and what it is about (api.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from chainmemory.engine.shapes import (
    Base64,
    Choice,
    Field,
    Hash,
    Integer,
    Kind,
    Many,
    Moment,
    Record,
    Slug,
    Text,
    Words,
    need,
    shown,
)
from chainmemory.errors import Invalid, TooLarge
from chainmemory.protocol.canonical import canonical_user
from chainmemory.protocol.event import CATEGORIES, DEFAULT_KIND, MAX_PROVENANCE_KEYS, MAX_TEXT

MAX_CONTENT_BYTES: Final = 1024 * 1024
MAX_BATCH: Final = 500
CLIENT_BLOB_OVERHEAD: Final = 1 + 12 + 16  # protocol §4: 0x02, nonce, tag
DEFAULT_CATEGORY: Final = "INTERACTION"
DEFAULT_IMPORTANCE: Final = 5
DEFAULT_SOURCE: Final = "api"


@dataclass(frozen=True, slots=True)
class Content:
    """A memory's plaintext: `media` is its content type, `body` its bytes (JSON in JCS form)."""

    body: bytes
    media: str

    @property
    def text(self) -> str:
        return self.body.decode()


class ContentKind:
    """Text, or a JSON object or array, of at most 1 MiB."""

    def check(self, value: Any, path: str) -> Content:
        """Return the content in the form that is hashed. Raises Invalid, TooLarge."""
        if type(value) is str:
            if not value:
                raise Invalid(f"{path} must not be empty; say what is to be remembered.", field=path)
            content = Content(value.encode(), "text/plain")
        elif type(value) in (dict, list):
            content = Content(canonical_user(value), "application/json")
        else:
            raise Invalid(f"{path} must be text, or a JSON object or array, not {shown(value)}.", field=path)
        if len(content.body) > MAX_CONTENT_BYTES:
            raise too_large(path, len(content.body))
        return content

    def read(self, text: str, path: str) -> Content:
        return self.check(text, path)

    def schema(self) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": MAX_CONTENT_BYTES},
                {"type": "object"},
                {"type": "array", "items": {}},
            ]
        }


TAGS: Final = Many(Text(1, 100), 0, 50)
_FILING: Final[dict[str, Kind | Field]] = {
    "project": Field(Slug(), note="the project's slug; one the account doesn't have is created"),
    "tags": TAGS,
    "category": Field(Choice(CATEGORIES), note=f"default {DEFAULT_CATEGORY}"),
    "importance": Field(Integer(1, 10), note=f"default {DEFAULT_IMPORTANCE}"),
    "platform": Field(Text(1, MAX_TEXT), note=f"where it is saved from (`source`); default {DEFAULT_SOURCE}"),
}
SUBJECT: Final = Record({"type": need(Text(1, MAX_TEXT)), "id": need(Text(1, MAX_TEXT))})
PROVENANCE: Final = Words(r"[a-z][a-z0-9_]{0,63}", MAX_PROVENANCE_KEYS, MAX_TEXT)


class SaveKind(Record):
    """The body of a save: `content`, or else `summary`."""

    def __init__(self) -> None:
        super().__init__(
            {
                "summary": Field(ContentKind(), note="what to remember, where content isn't given"),
                "content": Field(ContentKind(), note="what to remember; wins over summary"),
                **_FILING,
                "kind": Field(Text(1, MAX_TEXT), note=f"free-form event type; default {DEFAULT_KIND}"),
                "subject": Field(SUBJECT, note="whom or what it is about"),
                "occurred_at": Field(Moment(), note="when it happened; default: when it is recorded"),
                "provenance": Field(PROVENANCE, note="agent_id, session_id, run_id, …"),
            }
        )

    def check(self, value: Any, path: str = "") -> dict[str, Any]:
        found = super().check(value, path)
        if found["content"] is None and found["summary"] is None:
            field = f"{path}.content" if path else "content"
            raise Invalid(
                f"Give {field} (or summary): what is to be remembered.", code="missing_field", field=field
            )
        return found


SAVE: Final = SaveKind()
BATCH: Final = Record({"memories": need(Many(SAVE, 1, MAX_BATCH), f"1 to {MAX_BATCH} saves; all or nothing")})
SEALED: Final = Record(
    {
        "blob_b64": need(Base64(), "0x02, a nonce of 12 bytes, the ciphertext, a tag of 16 bytes"),
        "event_hash": need(Hash(), "SHA-256 of the plaintext: the content hash"),
        "plain_len": need(Integer(1), "bytes of the plaintext"),
        **_FILING,
    }
)


def too_large(path: str, size: int) -> TooLarge:
    """Return the error of content over the limit."""
    return TooLarge(
        f"{path} has {size} bytes; a memory has at most {MAX_CONTENT_BYTES}. Split it.",
        field=path,
        details={"limit_bytes": MAX_CONTENT_BYTES},
    )
