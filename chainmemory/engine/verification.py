"""Public verification: what the contract itself holds for a project's versions (api.md, Project state)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from chainmemory.anchoring.roots import RootProof, root_proofs
from chainmemory.chain.abi import Abi
from chainmemory.chain.artifacts import STATE_ANCHOR, load_artifact
from chainmemory.engine.anchors import confirmations, why_not
from chainmemory.engine.callers import Caller
from chainmemory.engine.root_view import HOW_TO_VERIFY as HOW_TO_VERIFY_ROOT
from chainmemory.engine.root_view import is_under_root, proof_json
from chainmemory.errors import Invalid, NotFound, Unavailable
from chainmemory.protocol.hashing import ZERO, parse_hex32
from chainmemory.store.outbox_rows import ANCHORED, STATE, OutboxRow
from chainmemory.store.projects import Project
from chainmemory.store.states import StateVersion
from chainmemory.store.tx import Tx

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

MOST_ANCHORS: Final = 50
HOW_TO_VERIFY: Final = (
    "Ask any node of the chain yourself, not this server: call stateHashOf(bytes32 projectId, uint64 "
    "version) on the contract ProjectStateAnchor at chain.contract with project_id and a version. It returns "
    "the state hash that was anchored, zero where none was. Whoever has the state document recomputes that "
    "hash as SHA3-256 over "
    '"CM_PROJECT_STATE_V2", a zero byte and the canonical JSON (RFC 8785) of the document.'
)


def anchor(
    engine: Engine, caller: Caller | None, name: str, version: int | None, base: str
) -> dict[str, Any]:
    """Return how one version (default: the latest) is anchored. Raises NotFound.

    `base` is this server's own address, for the links in the answer.
    """
    with engine.db.read() as tx:
        project = find(tx, caller, name)
        number = project.version if version is None else version
        stored = tx.states.get(project.project_id, number)
        if stored is None:
            raise NotFound(_no_version(project, number), field="version")
        row = tx.outbox.get(STATE, project.project_id, number)
        proofs = root_proofs(tx, [row]) if row is not None else {}
    return {
        "project": _name_for(project, caller),
        "project_id": project.project_id,
        "version": number,
        "state_hash": stored.state_hash,
        "anchor": {
            "status": row.status if row is not None else None,
            "onchain_anchor_id": row.anchor_id if row is not None else None,
            "tx_hash": row.tx_hash if row is not None else None,
            "block_number": row.block_number if row is not None else None,
            "block_hash": row.block_hash if row is not None else None,
            "anchored_at": row.anchored_at if row is not None else None,
            "confirmations": confirmations(engine, row),
            **(why_not(row) if row is not None else {}),
            **_proof(row, proofs),
        },
        "chain": chain_of(engine, base),
        "how_to_verify": HOW_TO_VERIFY + (HOW_TO_VERIFY_ROOT if proofs else ""),
    }


def verify(engine: Engine, name: str, *, limit: int, cursor: int | None, base: str) -> dict[str, Any]:
    """Compare a page of a project's versions, newest first, with what the contract holds. Raises NotFound.

    `cursor` is the lowest version of the page before. Hashes on chain come from the contract alone; where it
    can't be read, `onchain_state_hash`, `matches` and `verified` are null. What was anchored under a Merkle
    root carries its `proof`, and is compared by it.
    """
    with engine.db.read() as tx:
        project = find(tx, None, name)
        before = project.version + 1 if cursor is None else cursor
        stored = tx.states.list(project.project_id, before=before, limit=limit)
        rows = tx.outbox.statuses(STATE, project.project_id, [one.version for one in stored])
        latest = tx.outbox.get(STATE, project.project_id, project.version)
        listed = latest is None or latest.position in rows
        proofs = root_proofs(tx, [*rows.values()] if latest is None or listed else [*rows.values(), latest])
    on_chain = _on_chain(engine, project, stored)
    anchors = [_compared(engine, one, rows.get(one.version), on_chain, proofs) for one in stored]
    lowest = stored[-1].version if stored else 0
    answer = {
        "project": project.public_name,
        "project_id": project.project_id,
        "latest_version": project.version,
        "latest_state_hash": project.state_hash if project.version else None,
        "verified": _verdict(engine, project, latest, anchors, proofs),
        "chain": chain_of(engine, base),
        "anchors": anchors,
        "how_to_verify": HOW_TO_VERIFY + (HOW_TO_VERIFY_ROOT if proofs else ""),
        "next_cursor": str(lowest) if lowest > 1 else None,
    }
    if engine.settings.embedded:
        answer["witness"] = "self"
    return answer


def find(tx: Tx, caller: Caller | None, name: str) -> Project:
    """Return the project a public route means: the caller's own slug first, then a public name or id.

    Raises NotFound.
    """
    project = tx.projects.get(caller.account_id, name) if caller is not None else None
    if project is None:
        project = tx.projects.by_public_name(name)
    if project is None:
        raise NotFound("There is no project of that public name or id.")
    return project


def read_cursor(text: str | None) -> int | None:
    """Read a page's `next_cursor`. Raises Invalid."""
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 16:
        raise Invalid("cursor must be the next_cursor of an answer.", field="cursor")
    return int(text)


def chain_of(engine: Engine, base: str) -> dict[str, Any]:
    """Return where to ask; null where the chain can't be reached now. Never the worker's own RPC address."""
    chain_id: int | None = None
    contract: str | None = engine.settings.anchor_address
    try:
        contracts = engine.chain.contracts()
        chain_id, contract = contracts.chain_id, contracts.anchors.address
    except (Unavailable, NotFound):
        pass
    return {
        "chainId": chain_id,
        "contract_name": STATE_ANCHOR,
        "contract": contract,
        "rpc": public_rpc(engine, base),
        "explorer": engine.settings.public_explorer_url,
    }


def public_rpc(engine: Engine, base: str) -> str | None:
    """Return the RPC address that verifiers may be told: the setting, or the embedded chain's door here."""
    settings = engine.settings
    if settings.public_rpc_url is not None:
        return settings.public_rpc_url
    return f"{base}/rpc" if settings.embedded else None


def own_call(found: dict[str, Any]) -> tuple[str, str] | None:
    """Return the `data` of the eth_call that asks the contract about the latest version of a `verify` answer,
    and what the call then answers; None where there is no version.
    """
    version, state_hash = found["latest_version"], found["latest_state_hash"]
    if not version:
        return None
    abi = Abi(load_artifact(STATE_ANCHOR).abi)
    project_id = parse_hex32(found["project_id"])
    proof = next((one.get("proof") for one in found["anchors"] if one["version"] == version), None)
    if proof is None:
        return f"0x{abi.encode('stateHashOf', project_id, version).hex()}", state_hash
    item = (project_id, version, parse_hex32(state_hash))
    path = [parse_hex32(step) for step in proof["path"]]
    data = abi.encode("verifyInRoot", parse_hex32(proof["root"]), item, proof["index"], proof["size"], path)
    return f"0x{data.hex()}", f"0x{1:064x}"


def _on_chain(engine: Engine, project: Project, stored: list[StateVersion]) -> dict[int, str] | None:
    """Return what the contract holds, by version; None where it can't be asked."""
    if not stored:
        return {}
    first = stored[-1].version
    try:
        hashes = engine.chain.state_hashes(project.project_id, first, stored[0].version - first + 1)
    except (Unavailable, NotFound):
        return None
    return dict(enumerate(hashes, start=first))


def _compared(
    engine: Engine,
    one: StateVersion,
    row: OutboxRow | None,
    on_chain: dict[int, str] | None,
    proofs: dict[int, RootProof],
) -> dict[str, Any]:
    held = None if on_chain is None else on_chain.get(one.version)
    held = None if held == ZERO else held
    matches = None if held is None else held == one.state_hash
    if held is None and on_chain is not None and row is not None:
        matches = is_under_root(engine, row, one.state_hash, proofs)
        held = one.state_hash if matches else None
    return {
        "version": one.version,
        "state_hash": one.state_hash,
        "status": row.status if row is not None else None,
        "anchor_id": row.anchor_id if row is not None else None,
        "tx_hash": row.tx_hash if row is not None else None,
        "block_number": row.block_number if row is not None else None,
        "anchored_at": row.anchored_at if row is not None else None,
        "onchain_state_hash": held,
        "matches": matches,
        **_proof(row, proofs),
    }


def _proof(row: OutboxRow | None, proofs: dict[int, RootProof]) -> dict[str, Any]:
    proof = proofs.get(row.id) if row is not None else None
    return {} if proof is None else {"proof": proof_json(proof)}


def _verdict(
    engine: Engine,
    project: Project,
    latest: OutboxRow | None,
    anchors: list[dict[str, Any]],
    proofs: dict[int, RootProof],
) -> bool | None:
    """Return true if the latest version is anchored and every listed anchor matches, false if one differs,
    else None."""
    if any(one["matches"] is False for one in anchors):
        return False
    if latest is None or latest.status != ANCHORED:
        return None
    if any(one["status"] == ANCHORED and one["matches"] is None for one in anchors):
        return None
    listed = {one["version"]: one["matches"] for one in anchors}
    if project.version in listed:
        return True if listed[project.version] else None
    try:
        (held,) = engine.chain.state_hashes(project.project_id, project.version, 1)
    except (Unavailable, NotFound):
        return None
    if held == ZERO:
        return is_under_root(engine, latest, project.state_hash, proofs)
    return held == project.state_hash


def _name_for(project: Project, caller: Caller | None) -> str:
    mine = caller is not None and caller.account_id == project.account_id
    return project.slug if mine else project.public_name


def _no_version(project: Project, number: int) -> str:
    if project.version == 0:
        return "This project has no state yet."
    return f"This project has no version {number}; the latest is {project.version}."
