"""A stored memory or state version as the ledger's verdicts compare it (protocol §5)."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from chainmemory.errors import IntegrityError, Invalid
from chainmemory.ledger.verdicts import Record
from chainmemory.protocol.canonical import canonical, parse_json
from chainmemory.protocol.event import content_hash, event_hash
from chainmemory.store.sealed import SealedState, WholeMemory
from chainmemory.vault.account import AccountVault
from chainmemory.vault.places import content_place

UNREADABLE: Final = Record(seals=None)
FORGOTTEN_KEYS: Final = frozenset({"salt", "content_hash", "content_length"})
"""What a `forget` takes from the header."""
_REPEATED: Final = ("project", "importance", "kind", "source", "occurred_at", "recorded_at")
_EVENT: Final = b"CM_MEMORY_EVENT_V1\x00"


def memory_record(account_id: str, row: WholeMemory, vault: AccountVault | None) -> Record:
    """Return what a memory holds now; it can't be parsed where it isn't the one of this account and number,
    or its event hash is another.

    With a vault (a deep check) it is decrypted too, and what the row repeats of the header for filters is
    compared; what doesn't agree then counts as unreadable.
    """
    header = _header(row)
    if header is None or (header.get("account_id"), header.get("number")) != (account_id, row.number):
        return UNREADABLE
    try:
        form = canonical(header)
    except Invalid:
        return UNREADABLE
    if row.forgotten:
        return _forgotten(row, header)
    blob = row.content_blob
    if not isinstance(blob, bytes) or event_hash(header) != row.event_hash:
        return UNREADABLE
    if vault is not None and not (_repeats(row, header) and _opens(account_id, row, header, vault)):
        return UNREADABLE
    return Record(
        {"content_sha256": hashlib.sha256(form).hexdigest(), "blob_sha256": hashlib.sha256(blob).hexdigest()}
    )


def state_record(account_id: str, row: SealedState) -> Record:
    """Return what a state version holds now."""
    if row.account_id != account_id or not isinstance(row.state_hash, str):
        return UNREADABLE
    return Record({"state_hash": row.state_hash})


def event_hash_of(header: bytes) -> str:
    """Hash a header that is stored in canonical form, hex32."""
    return "0x" + hashlib.sha3_256(_EVENT + header).hexdigest()


def _header(row: WholeMemory) -> dict[str, Any] | None:
    try:
        header = parse_json(row.header)
    except (Invalid, TypeError, AttributeError):
        return None
    return header if isinstance(header, dict) else None


def _forgotten(row: WholeMemory, header: dict[str, Any]) -> Record:
    """A forgotten memory has lost its content; one that still has it is none."""
    if row.content_blob is not None or row.wrapped_seed is not None or FORGOTTEN_KEYS & header.keys():
        return UNREADABLE
    return Record(None, rest_sha256=hashlib.sha256(canonical(header)).hexdigest())


def _repeats(row: WholeMemory, header: dict[str, Any]) -> bool:
    """Say whether the columns that repeat the header for filters (filing is no part of it) say the same."""
    for key in _REPEATED:
        said = header.get(key)
        # A column can't hold U+0000 on every engine; the header keeps it.
        if getattr(row, key) != (said.replace("\0", "\ufffd") if isinstance(said, str) else said):
            return False
    return True


def _opens(account_id: str, row: WholeMemory, header: dict[str, Any], vault: AccountVault) -> bool:
    """Decrypt the content and compare it with the header; a client's own blob only with its form."""
    if header.get("sealed_by") == "client":
        return row.wrapped_seed is None and row.content_blob[:1] == b"\x02"
    if not isinstance(row.wrapped_seed, bytes):
        return False
    try:
        plaintext = vault.open(row.content_blob, row.wrapped_seed, content_place(account_id, row.number))
    except IntegrityError:
        return False
    return (content_hash(plaintext), len(plaintext)) == (
        header.get("content_hash"),
        header.get("content_length"),
    )
