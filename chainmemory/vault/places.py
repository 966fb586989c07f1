"""Associated data: the place a blob belongs to, so that blobs can't be swapped (protocol §4)."""

from __future__ import annotations

from chainmemory.protocol.canonical import canonical


def content_place(account_id: str, number: int) -> bytes:
    """Return the place of a memory's content."""
    return b'{"account":%b,"number":%d,"role":"content"}' % (canonical(account_id), number)


def state_ops_place(account_id: str, project_id: str, version: int) -> bytes:
    """Return the place of a state version's ops; `project_id` is the hex32."""
    return _state(account_id, "state_ops", project_id, version)


def state_doc_place(account_id: str, project_id: str, version: int) -> bytes:
    """Return the place of a state version's snapshot; `project_id` is the hex32."""
    return _state(account_id, "state_doc", project_id, version)


def account_key_place(account_id: str, key_id: str) -> bytes:
    """Return the place of an account key wrapped by the master key `key_id`."""
    return canonical({"account": account_id, "role": "account_key", "key_id": key_id})


def key_seed_place(account_id: str, of: bytes) -> bytes:
    """Return the place of a key seed wrapped by the account key; `of` is its blob's own place."""
    return b"".join((b'{"account":', canonical(account_id), b',"of":', of, b',"role":"key_seed"}'))


def small_place(account_id: str, role: str, ids: dict[str, str | int]) -> bytes:
    """Return the place of a small text kept beside the memories (tags, labels, names, stored answers,
    secrets).

    `ids` name the one row it belongs to. Raises ValueError where they would hide the account or the role.
    """
    if ids.keys() & {"account", "role"}:
        raise ValueError("account and role are given already")
    return canonical({"account": account_id, "role": role, **ids})


def _state(account_id: str, role: str, project_id: str, version: int) -> bytes:
    return canonical({"account": account_id, "role": role, "project_id": project_id, "version": version})
