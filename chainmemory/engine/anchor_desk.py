"""What an operator asks about anchors: which there are, what happened to one, and to try again now.

It needs the store alone: neither a running server nor the chain.
"""

from __future__ import annotations

from typing import Any

from chainmemory.engine import clock
from chainmemory.errors import NotFound
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import (
    ANCHORED,
    CONFLICT,
    COVERED,
    FAILED,
    HEAD,
    MEMORY,
    PENDING,
    STATE,
    SUBMITTED,
    OutboxRow,
)
from chainmemory.store.transactions import TransactionRow
from chainmemory.store.tx import Tx


def listed(
    db: Database,
    *,
    kind: str | None = None,
    statuses: tuple[str, ...] = (),
    project: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return the newest anchors, of this kind, these statuses, this project's states; () and None mean any.

    `project` is a public name or a project's id. Raises NotFound.
    """
    with db.read() as tx:
        subject = None if project is None else _project_id(tx, project)
        rows = tx.anchors.newest(
            kind=STATE if subject is not None else kind, statuses=statuses, subject=subject, limit=limit
        )
        return [_shown(tx, row) for row in rows]


def retry(db: Database, *, ids: tuple[int, ...] = (), project: str | None = None) -> int:
    """Make failed anchors (these, or a project's states, or all) due now; return how many. Or NotFound."""
    with db.write() as tx:
        subject = None if project is None else _project_id(tx, project)
        return tx.anchors.make_due(now=clock.now(), ids=ids or None, subject=subject)


def explain(db: Database, what: str) -> dict[str, Any]:
    """Return an anchor's row, its transactions, and what happened to it in words.

    `what` is an anchor's id, or PROJECT@VERSION. Raises NotFound.
    """
    with db.read() as tx:
        row = _find(tx, what)
        sent = tx.anchors.transactions_with(row.id)
        words = [f"{_name(tx, row)} was queued at {_short(row.created_at)} with the hash {row.hash}."]
        words += [_told(one) for one in sent]
        words += _now(tx, row)
        return {
            **_shown(tx, row),
            "words": words,
            "transactions": [
                {
                    "tx_hash": one.tx_hash,
                    "purpose": one.purpose,
                    "status": one.status,
                    "signer": one.signer,
                    "nonce": one.nonce,
                    "max_fee_wei": str(one.max_fee),
                    "block_number": one.block_number,
                    "gas_used": one.gas_used,
                    "created_at": one.created_at,
                }
                for one in sent
            ],
        }


def _now(tx: Tx, row: OutboxRow) -> list[str]:
    """Say where a row stands, and what it waits for."""
    if row.status == ANCHORED:
        under = f" under the root {row.anchor_id}" if (row.anchor_id or "").startswith("0x") else ""
        block = f"block {row.block_number} ({row.block_hash})"
        return [f"It is anchored{under} in {block}, transaction {row.tx_hash}."]
    words = []
    if row.attempts:
        words.append(f"{row.attempts} attempt{'s' if row.attempts > 1 else ''} came to nothing.")
    if row.status in (COVERED, CONFLICT):
        end = "It is covered" if row.status == COVERED else "It ended in a conflict"
        return [*words, f"{end}. {row.reason or ''}".strip()]
    if row.status == SUBMITTED:
        return [*words, f"Its transaction {row.tx_hash} is out; the worker waits for it."]
    if row.status == FAILED:
        due = "is due now" if row.next_attempt_at <= clock.now() else f"is at {_short(row.next_attempt_at)}"
        words.append(f"Last reason: {row.reason} The next attempt {due}.")
    behind = tx.anchors.waits_behind(row)
    if behind is not None:
        words.append(f"It waits for version {behind.position} of the same project, which is {behind.status}.")
    uncited = tx.anchors.uncited(row)
    if uncited:
        numbers = ", ".join(str(number) for number in uncited)
        words.append(f"It waits for memories it cites that aren't on chain yet: {numbers}.")
    if row.status == PENDING and behind is None and not uncited:
        words.append("Nothing holds it up: the worker takes it at its next occasion.")
    said = tx.worker.status()
    if said is not None:
        words.append(f"The worker said at {_short(said.beat_at)}: {said.words}")
    else:
        words.append("No worker has run on this store yet.")
    return words


def _told(one: TransactionRow) -> str:
    """Tell one transaction's story in a sentence."""
    head = (
        f"At {_short(one.created_at)} it was signed into transaction {one.tx_hash} (nonce {one.nonce} of "
        f"{one.signer}, at most {one.max_fee / 1e9:g} gwei a unit of gas"
        + (f", with {len(one.outbox_ids) - 1} others" if len(one.outbox_ids) > 1 else "")
        + ")"
    )
    ends = {
        "signed": "which no node has taken yet",
        "sent": "which is with the node, not in a block yet",
        "mined": f"which is in block {one.block_number}, waiting for confirmations",
        "confirmed": f"which was confirmed in block {one.block_number} for {one.gas_used} gas",
        "failed": f"which failed in block {one.block_number}",
        "replaced": "in whose place another with the same nonce got into a block",
        "dropped": "which was given up",
    }
    return f"{head}, {ends.get(one.status, one.status)}."


def _shown(tx: Tx, row: OutboxRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "what": _name(tx, row),
        "kind": row.kind,
        "status": row.status,
        "attempts": row.attempts,
        "next_attempt_at": row.next_attempt_at if row.status == FAILED else None,
        "reason": row.reason,
        "tx_hash": row.tx_hash,
        "block_number": row.block_number,
        "anchor_id": row.anchor_id,
        "created_at": row.created_at,
        "anchored_at": row.anchored_at,
    }


def _name(tx: Tx, row: OutboxRow) -> str:
    if row.kind == STATE:
        return f"{tx.anchors.project_name(row.subject) or row.subject}@{row.position}"
    what = {MEMORY: "memory", HEAD: "ledger head"}[row.kind]
    return f"{what} {row.position} of account {row.subject[:8]}"


def _find(tx: Tx, what: str) -> OutboxRow:
    name, _, version = what.rpartition("@")
    row = None
    if name and version.isascii() and version.isdigit() and len(version) < 16:
        row = tx.outbox.get(STATE, _project_id(tx, name), int(version))
    elif what.isascii() and what.isdigit() and len(what) < 16:
        row = tx.anchors.get(int(what))
    if row is None:
        raise NotFound(
            "There is no such anchor; name one by its id or PROJECT@VERSION (chainmemory anchors list)."
        )
    return row


def _project_id(tx: Tx, name: str) -> str:
    project = tx.projects.by_public_name(name)
    if project is None:
        raise NotFound("There is no project of that public name or id.")
    return project.project_id


def _short(time: str) -> str:
    return f"{time[:10]} {time[11:19]} UTC"
