"""A whole store against itself and against the chain: everything recomputed, nothing of the writers used.

Beyond `protocol/` no line is shared with what wrote the store: SQL, decryption, the state grammar and the
JSON-RPC are written a second time, so that a mistake in one is seen by the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chainmemory.errors import ConfigurationError, IntegrityError, Unavailable
from chainmemory.verify.findings import AccountChecked, Report
from chainmemory.verify.keys import AccountKey, MasterKeys
from chainmemory.verify.ledger import walk
from chainmemory.verify.memories import check_memories
from chainmemory.verify.onchain import (
    ANCHORS,
    REGISTRY,
    Comparison,
    Stored,
    check_storage,
    merkle_root,
    read,
)
from chainmemory.verify.projects import check_projects
from chainmemory.verify.queue import ANCHORED, check_queue
from chainmemory.verify.rows import Rows, open_rows
from chainmemory.verify.rpc import Chain

_ORPHANS: Final = {
    "memories": "account_id NOT IN (SELECT account_id FROM accounts)",
    "ledger_entries": "account_id NOT IN (SELECT account_id FROM accounts)",
    "projects": "account_id NOT IN (SELECT account_id FROM accounts)",
    "outbox": "account_id NOT IN (SELECT account_id FROM accounts)",
    "state_versions": "project_id NOT IN (SELECT project_id FROM projects)",
    "state_snapshots": "NOT EXISTS (SELECT 1 FROM state_versions v WHERE v.project_id = "
    "state_snapshots.project_id AND v.version = state_snapshots.version)",
    "citations": "project_id NOT IN (SELECT project_id FROM projects)",
}


@dataclass(frozen=True)
class Asked:
    """Where to ask the chain, and what must be there."""

    rpc_url: str
    code_hashes: Mapping[str, str]
    """Keccak-256 of each published contract's code, by its name."""
    anchor_address: str | None = None
    registry_address: str | None = None
    expected_chain_id: int | None = None
    first_block: Mapping[str, int] | None = None
    """Fields of block 0, named as JSON-RPC does, where it is known what they must be."""


def verify_store(url: str, keys: MasterKeys, asked: Asked | None) -> Report:
    """Check everything in a store, and with `asked` everything it says of the chain; return what was found.

    Nothing is started or written. Differences are in the report; raises ConfigurationError where there is no
    store, IntegrityError where its file is damaged, Unavailable where it can't be read.
    """
    report = Report()
    with open_rows(url) as rows:
        accounts = _check_accounts(rows, report, keys)
        for table, condition in _ORPHANS.items():
            for (count,) in list(rows.all(f"SELECT COUNT(*) FROM {table} WHERE {condition}")):
                if count:
                    report.add("orphan", table, f"{count} of its rows belong to nothing that is there.")
        deployments = list(rows.all("SELECT chain_id, name, address, block_number FROM deployments"))
        roots = _roots(rows)
    if asked is None:
        report.chain = "The chain was left out, as asked."
        return report
    try:
        with Chain(asked.rpc_url) as chain:
            _check_chain(chain, report, asked, accounts, deployments, roots)
    except (Unavailable, ConfigurationError) as error:
        report.unchecked = report.chain = error.message
    return report


def _check_accounts(rows: Rows, report: Report, keys: MasterKeys) -> list[Stored]:
    found = []
    query = (
        "SELECT account_id, key_id, wrapped_key, memory_count, ledger_seq, ledger_hash FROM accounts "
        "ORDER BY account_id"
    )
    for account_id, key_id, wrapped, count, seq, head in list(rows.all(query)):
        if not (isinstance(account_id, str) and isinstance(count, int) and isinstance(seq, int)):
            names = ["account_id, memory_count or ledger_seq"]
            report.add_misfits(f"account {account_id!r}", names)
            continue
        checked = AccountChecked(account_id)
        report.accounts.append(checked)
        sealed = walk(rows, report, account_id, seq=seq, head=head)
        checked.ledger_entries = len(sealed.hashes)
        key: AccountKey | None = None
        try:
            key = keys.account(account_id, key_id, wrapped)
        except IntegrityError as error:
            where = f"account {account_id}"
            report.add("account_key", where, f"Its key can't be opened: {error.message}.")
        known = check_memories(rows, report, checked, key, sealed, count=count)
        states = check_projects(rows, report, checked, key, sealed, known.event_hashes)
        queue = check_queue(
            rows, report, account_id, memories=known.event_hashes, states=states, ledger=sealed.hashes
        )
        found.append(Stored(checked, known.event_hashes, known.blobs, states, sealed.hashes, queue))
    return found


def _roots(rows: Rows) -> dict[str, tuple[str, str]]:
    """Return, for each transaction that states were anchored by under a Merkle root, the root over what the
    store says was in it, or why there is none."""
    query = (
        "SELECT DISTINCT t.tx_hash, t.outbox_ids FROM chain_transactions t JOIN outbox o ON "
        "o.tx_hash = t.tx_hash WHERE o.kind = 'state' AND o.status = 'anchored' "
        "AND substr(o.anchor_id, 1, 2) = '0x'"
    )
    found = {}
    for tx_hash, text in list(rows.all(query)):
        leaves: list[tuple[Any, ...]] = []
        try:
            ids = list(json.loads(text))
        except (ValueError, TypeError):
            found[tx_hash] = "", "What was in its transaction can't be read."
            continue
        for outbox_id in ids:
            leaves += rows.all("SELECT subject, position, hash FROM outbox WHERE id = ?", outbox_id)
        if len(leaves) < len(ids):
            found[tx_hash] = "", "Rows that were in its transaction are gone."
        else:
            found[tx_hash] = merkle_root(leaves), ""
    return found


def _check_chain(
    chain: Chain,
    report: Report,
    asked: Asked,
    accounts: list[Stored],
    deployments: list[tuple[Any, ...]],
    roots: Mapping[str, tuple[str, str]],
) -> None:
    if asked.first_block is not None and chain.first_block(asked.first_block) != asked.first_block:
        # Whatever it holds or not says nothing of this store.
        raise ConfigurationError(
            f"The chain at {chain.place} isn't this store's: it began with another block. Start the server "
            "whose home this is, or say where its chain answers with --rpc."
        )
    chain_id = chain.chain_id()
    if asked.expected_chain_id is not None:
        report.expect("chain_id", f"chain at {chain.place}", "its id", asked.expected_chain_id, chain_id)
    given = {ANCHORS: asked.anchor_address, REGISTRY: asked.registry_address}
    places = {name: (address, block) for at, name, address, block in deployments if at == chain_id}
    for name, address in given.items():
        if address is not None and (name not in places or places[name][0].lower() != address.lower()):
            places[name] = (address, 0)
    if ANCHORS not in places or REGISTRY not in places:
        _check_nothing_anchored(report, accounts, chain_id)
        return
    for name, wanted in asked.code_hashes.items():
        where = f"{name} at {places[name][0]}"
        report.expect("contract_code", where, "its code's hash", wanted, chain.code_hash(places[name][0]))
    anchors, registry = places[ANCHORS][0], places[REGISTRY][0]
    found = read(chain, anchors, registry, first=min(block for _, block in places.values()))
    comparison = Comparison(report, found, roots)
    for stored in accounts:
        comparison.account(stored)
        for project in stored.checked.projects:
            states = {at: state for (of, at), state in stored.states.items() if of == project.project_id}
            check_storage(chain, report, anchors, project.project_id, states, found)
    report.chain_checked = True
    report.chain = f"{found.events} events of {anchors} and {registry} on chain {chain_id}, at {chain.place}"


def _check_nothing_anchored(report: Report, accounts: list[Stored], chain_id: int) -> None:
    """Without contracts nothing can be anchored."""
    for stored in accounts:
        for row in stored.queue:
            if row.status == ANCHORED:
                report.add("onchain_missing", row.where, "It counts as anchored, and no contract is known.")
    report.chain_checked = True
    report.chain = f"No contracts are known on chain {chain_id} yet."
