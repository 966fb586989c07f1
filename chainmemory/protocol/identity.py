"""Public identifiers of accounts, projects and ledgers (protocol §2)."""

from __future__ import annotations

import re
from typing import Final

from chainmemory.errors import Invalid
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.hashing import hex32, tagged_hash

_ACCOUNT_ID: Final = re.compile(r"[0-9a-f]{32}")
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def check_account_id(account_id: str) -> str:
    """Return an account id unchanged; Invalid unless it is 32 lower-case hex digits."""
    if not isinstance(account_id, str) or not _ACCOUNT_ID.fullmatch(account_id):
        raise Invalid("an account id is 32 lower-case hex digits", field="account_id")
    return account_id


def check_slug(name: str) -> str:
    """Return a project name unchanged; Invalid unless it is a slug (protocol §2)."""
    if not isinstance(name, str) or not _SLUG.fullmatch(name):
        raise Invalid(
            "a project name has 1 to 64 characters of a-z, 0-9, '.', '_' and '-', first a letter or digit",
            field="project",
        )
    return name


def project_id(account_id: str, name: str) -> str:
    """Derive the hex32 under which a project appears on chain; Invalid for a bad account id or slug."""
    return _derive("CM_PROJECT_V1", {"account": check_account_id(account_id), "name": check_slug(name)})


def account_ref(account_id: str) -> str:
    """Derive the hex32 that stands for an account in the memory registry; Invalid for a bad account id."""
    return _derive("CM_ACCOUNT_V1", {"account": check_account_id(account_id)})


def ledger_id(account_id: str) -> str:
    """Derive the hex32 under which an account's ledger heads are anchored; Invalid for a bad account id."""
    return _derive("CM_LEDGER_V1", {"account": check_account_id(account_id)})


def file_tenant_id(agent_id: str) -> str:
    """Derive what stands for an account, 32 hex digits, in the ledger id of an agent kept as files.

    Raises Invalid for a name that is no slug.
    """
    parts = {"agent": check_slug(agent_id)}
    return tagged_hash("CM_FILE_TENANT_V1", canonical(parts)).hex()[:32]


def _derive(tag: str, parts: dict[str, str]) -> str:
    return hex32(tagged_hash(tag, canonical(parts)))
