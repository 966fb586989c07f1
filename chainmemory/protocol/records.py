"""Hashes over what the ledger seals and the receipts that leave the server (protocol §5, §10)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from chainmemory.protocol.canonical import canonical, canonical_user
from chainmemory.protocol.hashing import hex32, tagged_hash
from chainmemory.protocol.ledger_entry import ledger_form

FACT_KEYS: Final = (
    "fact_id", "version", "project_id", "subject_type", "subject_id", "predicate", "value", "qualifiers",
    "confidence", "status", "valid_from", "valid_to", "recorded_from", "source_events", "by", "reason",
    "salt",
)  # fmt: skip
FILE_RECORD_KEYS: Final = (
    "id", "session_id", "agent_id", "summary", "key_facts", "decisions_made", "projects_referenced",
    "timestamp",
)  # fmt: skip
_FORGOTTEN_OF_FACT: Final = frozenset({"value", "qualifiers", "reason", "salt"})
_FORGOTTEN_OF_HEADER: Final = frozenset({"salt", "content_hash", "content_length"})
_OUTSIDE_RECEIPT: Final = frozenset({"receipt_hash", "ledger_seq"})


def header_sha256(header: Mapping[str, Any]) -> str:
    """Hash a header as the server ledger's `content_sha256`, 64 hex digits."""
    return _sha256(canonical(dict(header)))


def header_rest_sha256(header: Mapping[str, Any]) -> str:
    """Hash what is left of a header after `forget`, 64 hex digits (a whole header will do)."""
    return _sha256(canonical(_without(header, _FORGOTTEN_OF_HEADER)))


def fact_sha256(fact: Mapping[str, Any]) -> str:
    """Hash one version of a fact, absent keys counted as null, 64 hex digits."""
    return _sha256(canonical_user(_whole_fact(fact)))


def fact_rest_sha256(fact: Mapping[str, Any]) -> str:
    """Hash what is left of a fact version after `forget`, 64 hex digits."""
    return _sha256(canonical_user(_without(_whole_fact(fact), _FORGOTTEN_OF_FACT)))


def file_record_sha256(record: Mapping[str, Any]) -> str:
    """Hash the sealed keys of a file tenant's record in form C, null where absent, 64 hex digits."""
    return _sha256(ledger_form({key: record.get(key) for key in FILE_RECORD_KEYS}))


def receipt_hash(receipt: Mapping[str, Any]) -> str:
    """Hash a forget receipt without its own `receipt_hash` and `ledger_seq`, hex32."""
    return hex32(tagged_hash("CM_RECEIPT_V1", canonical_user(_without(receipt, _OUTSIDE_RECEIPT))))


def capture_fingerprint(
    project: str, subject_type: str, subject_id: str, kind: str, occurred_at: str, content_hash: str
) -> str:
    """Fingerprint a captured event for deduplication, 64 hex digits (`content_hash` is a hex32)."""
    return _sha256(canonical([project, subject_type, subject_id, kind, occurred_at, content_hash]))


def _whole_fact(fact: Mapping[str, Any]) -> dict[str, Any]:
    return {key: fact.get(key) for key in FACT_KEYS}


def _without(value: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
