"""`chainmemory verify --all`: a whole home against itself and the chain, whether its server runs or not."""

from __future__ import annotations

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.cli.home import RunNote
from chainmemory.cli.output import print_json, printable, say
from chainmemory.node.genesis import read_genesis
from chainmemory.settings import Settings
from chainmemory.vault.master import FILE
from chainmemory.verify.findings import Report
from chainmemory.verify.keys import MasterKeys
from chainmemory.verify.whole import Asked, verify_store


def verify_home(settings: Settings, rpc: str | None, *, chain: bool, as_json: bool) -> None:
    """Check the home's store and, unless told otherwise, what the chain holds of it; print what was found.

    Raises IntegrityError where anything differs, Unavailable where not all could be checked.
    """
    variable = settings.master_key.get_secret_value() if settings.master_key else None
    keys = MasterKeys.read(settings.home / FILE, variable)
    report = verify_store(settings.store_url, keys, _asked(settings, rpc) if chain else None)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    report.judge()


def _asked(settings: Settings, rpc: str | None) -> Asked:
    note = RunNote.read(settings)
    own = note.chain_url if note is not None and settings.embedded else None
    return Asked(
        rpc_url=rpc or own or settings.chain_url,
        code_hashes={name: load_artifact(name).code_hash for name in (STATE_ANCHOR, MEMORY_REGISTRY)},
        anchor_address=settings.anchor_address,
        registry_address=settings.registry_address,
        expected_chain_id=settings.chain_id if settings.embedded else settings.expected_chain_id,
        first_block=_first_block(settings),
    )


def _first_block(settings: Settings) -> dict[str, int] | None:
    """Return what tells the home's own chain from another with the same id: when it began and who sealed."""
    path = settings.chain_dir / "genesis.json"
    if not settings.embedded or not path.exists():
        return None
    genesis = read_genesis(path)
    return {
        "timestamp": genesis.timestamp,
        "extraData": int.from_bytes(genesis.extra_data, "big"),
        "gasLimit": genesis.gas_limit,
        "baseFeePerGas": genesis.base_fee,
    }


def _show(report: Report) -> None:
    for account in report.accounts:
        on_chain = f", {account.anchored} anchored" if report.chain_checked else ""
        say(
            f"account {account.account_id}: {_count(account.memories, 'memory', 'memories')} "
            f"({account.opened} decrypted{on_chain}), "
            f"{_count(account.ledger_entries, 'ledger entry', 'ledger entries')}"
        )
        for project in account.projects:
            on_chain = f", {project.anchored} anchored" if report.chain_checked else ""
            say(
                f"  project {printable(project.slug)}: {_count(project.versions, 'version')} rebuilt, "
                f"{_count(project.items, 'item')}{on_chain}"
            )
    for finding in report.findings:
        say(f"DIFFERS [{finding.code}] {printable(finding.where)}: {printable(finding.words)}")
    say(f"chain: {printable(report.chain)}")
    if not report.findings and not report.unchecked:
        totals = report.totals
        say(
            f"VERIFIED: {_count(totals.get('memories', 0), 'memory', 'memories')}, "
            f"{_count(totals.get('ledger_entries', 0), 'ledger entry', 'ledger entries')} and "
            f"{_count(totals.get('versions', 0), 'version')} of {_count(totals['accounts'], 'account')} "
            "are as they were written" + (" and as the chain holds them." if report.chain_checked else ".")
        )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
