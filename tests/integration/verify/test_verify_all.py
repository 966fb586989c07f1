"""`chainmemory verify --all`: a sound home passes, and every kind of damage is named for what it is."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chainmemory.anchoring.options import Options
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.errors import ConfigurationError, IntegrityError, Unavailable
from chainmemory.protocol.ledger_entry import make_entry
from chainmemory.verify.findings import Report
from chainmemory.verify.keys import MasterKeys
from chainmemory.verify.whole import Asked, verify_store
from tests.support.api import Account, Api, running_api
from tests.support.chains import QUICK, SIGNER_KEY, Door, embedded_node, error, result
from tests.support.databases import fresh_database_url
from tests.support.grammar import SEED, VALID
from tests.support.server import cli, eventually

VERSIONS = 51  # a snapshot is made of version 50
CODE = {name: load_artifact(name).code_hash for name in (STATE_ANCHOR, MEMORY_REGISTRY)}


@dataclass
class Home:
    """A home as a server left it, and a node that still runs."""

    folder: Path
    node: Path
    url: str
    rpc: str
    account: str
    other: str
    project: str

    def check(self, url: str | None = None, rpc: str | None = "", **changes: Any) -> Report:
        """Check the store at `url` against the node at `rpc` (None: no chain)."""
        asked = None if rpc is None else replace(Asked(rpc or self.rpc, CODE), **changes)
        return verify_store(url or self.url, MasterKeys.read(self.folder / "master.key"), asked)


def fill(account: Account) -> str:
    """Save every kind of memory and apply every kind of op; return the project's id."""
    account.save("We ship on Friday.", project="alpha", tags=["ship", "QA"])
    account.save({"deploy": [1, 2.5, None], "who": "Zoë"}, kind="event.deploy", category="MILESTONE")
    sealed = b"\x02" + os.urandom(12) + b"x" * 10 + os.urandom(16)
    account.post(
        "/v1/memory/sealed",
        {
            "blob_b64": base64.b64encode(sealed).decode(),
            "plain_len": 10,
            "event_hash": "0x" + "ab" * 32,
        },
    )
    account.save("x" * 5_000)
    account.ops("alpha", *SEED, generated_by="a model")
    # A priority that is done takes no risks any more, so that op comes last.
    names = sorted(VALID, key=lambda name: name == "set_priority_status")
    for number, name in enumerate(names):
        cited = {"evidence_memory_ids": [1 + number % 4]}
        done = account.ops("alpha", {"op": name, **VALID[name], **cited})
        assert done["applied_count"] == 1, done
    for number in range(VERSIONS - 1 - len(VALID)):
        done = account.ops("alpha", {"op": "set_focus", "focus": f"step {number}"})
    assert done["version"] == VERSIONS
    account.ops("beta", {"op": "set_phase", "phase": "late", "evidence_memory_ids": [4]})
    projects = account.get("/v1/projects")["projects"]
    return next(str(project["id"]) for project in projects if project["public_name"] == "alpha")


def anchor_all(api: Api, rpc: str, options: Options = QUICK) -> None:
    """Let a worker anchor all there is."""
    worker = AnchorWorker(api.engine.db, Gateway(rpc), Signer.from_key(SIGNER_KEY), options)

    def done() -> bool:
        worker.run_once()
        with api.engine.db.read() as tx:
            return {depth.status for depth in tx.outbox.depth()} == {"anchored"}

    eventually(done, "everything is anchored")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("verify")
    (folder / "home").mkdir()
    with embedded_node(folder / "node") as node:
        rpc = f"http://127.0.0.1:{node.port}"
        with running_api(folder / "home") as api:
            account, other = api.account(), api.account()
            project = fill(account)
            other.save("Somebody else's.", project="alpha")
            other.ops("alpha", {"op": "set_phase", "phase": "beta", "evidence_memory_ids": [1]})
            anchor_all(api, rpc)
            url = api.url
        yield Home(folder / "home", folder / "node", url, rpc, account.account_id, other.account_id, project)


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_a_sound_home_passes(home: Home) -> None:
    report = home.check()
    assert report.findings == []
    report.judge()
    assert report.chain_checked
    totals = report.totals
    assert {name: totals[name] for name in ("accounts", "memories", "memories_decrypted", "versions")} == {
        "accounts": 2,
        "memories": 5,
        "memories_decrypted": 4,
        "versions": VERSIONS + 2,
    }
    assert totals["ledger_entries"] == 5 + VERSIONS + 2
    assert totals["anchored"] == 5 + VERSIONS + 2


# -- damage to the store ------------------------------------------------------------------------------

Damage = Callable[[sqlite3.Connection, Home], None]


def sql(*statements: str) -> Damage:
    """Damage by SQL; `:a` is the account, `:b` the other one, `:p` its project alpha."""

    def damage(db: sqlite3.Connection, home: Home) -> None:
        for statement in statements:
            changed = db.execute(statement, {"a": home.account, "b": home.other, "p": home.project}).rowcount
            assert changed, f"changed nothing: {statement}"

    return damage


def rewrite_the_ledger(db: sqlite3.Connection, home: Home) -> None:
    """Make the whole ledger anew with another time in its first entry, every hash recomputed."""
    previous = "0" * 64
    rows = db.execute(
        "SELECT seq, entry FROM ledger_entries WHERE account_id = ? ORDER BY seq", (home.account,)
    ).fetchall()
    for seq, text in rows:
        entry = json.loads(text)
        rest = {k: v for k, v in entry.items() if k not in ("seq", "ts", "op", "prev", "hash")}
        ts = "2020-01-01T00:00:00.000000Z" if seq == 1 else entry["ts"]
        entry = make_entry(previous, seq, ts, entry["op"], **rest)
        previous = entry["hash"]
        db.execute(
            "UPDATE ledger_entries SET hash = ?, entry = ? WHERE account_id = ? AND seq = ?",
            (previous, json.dumps(entry, sort_keys=True, separators=(",", ":")), home.account, seq),
        )
        db.execute(
            "UPDATE outbox SET hash = ? WHERE kind = 'head' AND subject = ? AND position = ?",
            (previous, home.account, seq),
        )
    db.execute("UPDATE accounts SET ledger_hash = ? WHERE account_id = ?", (previous, home.account))


def swap_blobs(db: sqlite3.Connection, home: Home) -> None:
    """Give memory 1 the sealed content of memory 4, with its key seed."""
    db.execute(
        "UPDATE memories SET (content_blob, wrapped_seed) = (SELECT content_blob, wrapped_seed FROM memories "
        "WHERE account_id = :a AND number = 4) WHERE account_id = :a AND number = 1",
        {"a": home.account},
    )


MEMORY_1 = "WHERE account_id = :a AND number = 1"
VERSION_9 = "WHERE project_id = :p AND version = 9"
FLIPPED = "CAST(substr({0}, 1, length({0}) - 1) || x'00' AS BLOB)"

DAMAGES: dict[str, tuple[Damage, set[str]]] = {
    "a memory deleted": (
        sql(f"DELETE FROM memories {MEMORY_1}"),
        {"memory_missing", "evidence", "outbox_stray", "store_behind"},
    ),
    "the last memory deleted, and uncounted": (
        sql(
            "DELETE FROM memories WHERE account_id = :a AND number = 4",
            "UPDATE accounts SET memory_count = 3 WHERE account_id = :a",
        ),
        {"memory_missing", "evidence", "outbox_stray", "store_behind"},
    ),
    "a memory put in past the server": (
        sql(
            "INSERT INTO memories SELECT account_id, 5, event_hash, project, category, importance, source, "
            "kind, occurred_at, recorded_at, header, archived, superseded_by, hidden, forgotten, tag_tokens, "
            f"search_tokens, NULL, wrapped_seed, content_blob FROM memories {MEMORY_1}"
        ),
        {"memory_extra", "memory_unsealed", "header_number", "content_undecryptable", "outbox_missing"},
    ),
    "an event hash changed": (
        sql(f"UPDATE memories SET event_hash = '0x' || lower(hex(randomblob(32))) {MEMORY_1}"),
        {"event_hash", "evidence", "outbox_hash", "onchain_hash"},
    ),
    "a header changed": (
        sql(f"UPDATE memories SET header = replace(header, 'importance\":5', 'importance\":9') {MEMORY_1}"),
        {"event_hash", "memory_sealed_header", "header_column"},
    ),
    "a header's spaces changed": (
        sql(f"UPDATE memories SET header = replace(header, ',\"number', ', \"number') {MEMORY_1}"),
        {"header_form"},
    ),
    "a header that is no JSON": (
        sql(f"UPDATE memories SET header = substr(header, 2) {MEMORY_1}"),
        {"header_unparseable"},
    ),
    "a column that repeats the header changed": (
        sql(f"UPDATE memories SET occurred_at = '2020-01-01T00:00:00.000000Z' {MEMORY_1}"),
        {"header_column"},
    ),
    "ciphertext changed": (
        sql(f"UPDATE memories SET content_blob = {FLIPPED.format('content_blob')} {MEMORY_1}"),
        {"blob_hash", "content_undecryptable", "onchain_ciphertext"},
    ),
    "ciphertext that became text, which isn't even UTF-8": (
        sql(
            "UPDATE memories SET content_blob = x'01ff' || substr(content_blob, 3, 28) || x'00' || "
            f"substr(content_blob, 32) {MEMORY_1}"
        ),
        {"blob_hash", "content_undecryptable", "onchain_ciphertext"},
    ),
    "ciphertext that became a text": (
        sql(f"UPDATE memories SET content_blob = 'so be it' {MEMORY_1}"),
        {"column_type"},
    ),
    "texts that aren't UTF-8": (
        sql(
            f"UPDATE memories SET category = CAST(x'ff' AS TEXT), kind = CAST(x'ff' AS TEXT) {MEMORY_1}",
            "UPDATE ledger_entries SET entry = CAST(x'ff' AS TEXT) WHERE account_id = :a AND seq = 2",
            f"UPDATE state_versions SET ops_seed = CAST(x'ff' AS TEXT), ops_count = 'x' {VERSION_9}",
            "UPDATE citations SET item_id = CAST(x'ff' AS TEXT) WHERE project_id = :p AND version = 9",
            "UPDATE outbox SET status = CAST(x'ff' AS TEXT) WHERE kind = 'memory' AND subject = :a "
            "AND position = 1",
        ),
        {"column_type", "ledger_unparseable", "memory_unsealed", "outbox_missing"},
    ),
    "an account whose count is no number": (
        sql("UPDATE accounts SET memory_count = CAST(x'ff' AS TEXT) WHERE account_id = :a"),
        {"column_type"},
    ),
    "two memories' contents swapped": (
        swap_blobs,
        {"blob_hash", "content_undecryptable", "onchain_ciphertext"},
    ),
    "a client's sealed blob changed": (
        sql("UPDATE memories SET content_blob = x'0203' WHERE account_id = :a AND number = 3"),
        {"blob_hash", "content_length", "onchain_ciphertext"},
    ),
    "a key seed changed": (
        sql(f"UPDATE memories SET wrapped_seed = {FLIPPED.format('wrapped_seed')} {MEMORY_1}"),
        {"content_undecryptable"},
    ),
    "content gone": (sql(f"UPDATE memories SET content_blob = NULL {MEMORY_1}"), {"blob_missing"}),
    "tags changed": (
        sql(f"UPDATE memories SET tags_blob = {FLIPPED.format('tags_blob')} {MEMORY_1}"),
        {"tags_undecryptable"},
    ),
    "marked forgotten, without a word in the ledger": (
        sql(f"UPDATE memories SET forgotten = 1, content_blob = NULL, wrapped_seed = NULL {MEMORY_1}"),
        {"forgotten_kept", "forgotten_unsealed"},
    ),
    "a ledger entry deleted": (
        sql("DELETE FROM ledger_entries WHERE account_id = :a AND seq = 2"),
        {"ledger_gap", "memory_unsealed"},
    ),
    "the ledger's end cut off": (
        sql("DELETE FROM ledger_entries WHERE account_id = :a AND seq > 50"),
        {"ledger_head", "version_unsealed", "outbox_stray", "store_behind"},
    ),
    "a ledger entry changed": (
        sql(
            "UPDATE ledger_entries SET entry = replace(entry, '\"save\"', '\"adopt\"') "
            "WHERE account_id = :a AND seq = 2"
        ),
        {"ledger_hash"},
    ),
    "a ledger entry that is no JSON": (
        sql("UPDATE ledger_entries SET entry = 'x' WHERE account_id = :a AND seq = 2"),
        {"ledger_unparseable", "memory_unsealed"},
    ),
    "the whole ledger made anew": (rewrite_the_ledger, {"onchain_hash"}),
    "the account's head set back": (
        sql("UPDATE accounts SET ledger_seq = ledger_seq - 1 WHERE account_id = :a"),
        {"ledger_head"},
    ),
    "the account's key changed": (
        sql(f"UPDATE accounts SET wrapped_key = {FLIPPED.format('wrapped_key')} WHERE account_id = :a"),
        {"account_key"},
    ),
    "an account deleted": (
        sql("DELETE FROM accounts WHERE account_id = :b"),
        {"orphan"},
    ),
    "a version's ops changed": (
        sql(f"UPDATE state_versions SET ops_blob = {FLIPPED.format('ops_blob')} {VERSION_9}"),
        {"ops_undecryptable"},
    ),
    "two versions' ops swapped": (
        sql(
            "UPDATE state_versions SET (ops_blob, ops_seed) = (SELECT ops_blob, ops_seed FROM state_versions "
            f"WHERE project_id = :p AND version = 8) {VERSION_9}"
        ),
        {"ops_undecryptable"},
    ),
    "a version's hash changed": (
        sql(f"UPDATE state_versions SET state_hash = '0x' || lower(hex(randomblob(32))) {VERSION_9}"),
        {"state_hash", "version_previous", "version_sealed_hash", "outbox_hash", "onchain_hash"},
    ),
    "a version's previous hash changed": (
        sql(f"UPDATE state_versions SET previous_state_hash = '0x' || hex(zeroblob(32)) {VERSION_9}"),
        {"version_previous"},
    ),
    "a version's watermark changed": (
        sql(f"UPDATE state_versions SET consolidated_until_event = 3 {VERSION_9}"),
        {"state_hash", "snapshot"},
    ),
    "a version deleted": (
        sql(f"DELETE FROM state_versions {VERSION_9}"),
        {"version_gap", "version_missing", "outbox_stray", "store_behind"},
    ),
    "the last version deleted": (
        sql(f"DELETE FROM state_versions WHERE project_id = :p AND version = {VERSIONS}"),
        {"version_missing", "project_head", "outbox_stray", "store_behind"},
    ),
    "the last version deleted, and its project set back": (
        sql(
            f"DELETE FROM state_versions WHERE project_id = :p AND version = {VERSIONS}",
            "UPDATE projects SET version = version - 1, state_hash = (SELECT state_hash FROM state_versions "
            f"WHERE project_id = :p AND version = {VERSIONS - 1}) WHERE project_id = :p",
        ),
        {"version_missing", "outbox_stray", "store_behind"},
    ),
    "how many ops made a version": (
        sql(f"UPDATE state_versions SET ops_count = 7 {VERSION_9}"),
        {"ops_count"},
    ),
    "a snapshot changed": (
        sql(f"UPDATE state_snapshots SET doc_blob = {FLIPPED.format('doc_blob')} WHERE project_id = :p"),
        {"snapshot"},
    ),
    "a citation deleted": (
        sql(f"DELETE FROM citations {VERSION_9}"),
        {"citations"},
    ),
    "a citation put in": (
        sql("INSERT INTO citations VALUES (:p, 9, 'phase', 1, :a)"),
        {"citations"},
    ),
    "a project's secret changed": (
        sql(f"UPDATE projects SET secret_blob = {FLIPPED.format('secret_blob')} WHERE project_id = :p"),
        {"secret_undecryptable"},
    ),
    "a project's name changed": (
        sql("UPDATE projects SET slug = 'gamma' WHERE project_id = :p"),
        {"project_id", "public_name"},
    ),
    "a public name given to another": (
        sql("UPDATE public_names SET project_id = 'x' WHERE project_id = :p"),
        {"public_name"},
    ),
    "an outbox row deleted": (
        sql("DELETE FROM outbox WHERE kind = 'memory' AND subject = :a AND position = 1"),
        {"outbox_missing"},
    ),
    "an outbox row's hash changed": (
        sql("UPDATE outbox SET hash = 'x' WHERE kind = 'state' AND subject = :p AND position = 9"),
        {"outbox_hash"},
    ),
    "an outbox row put in": (
        sql(
            "INSERT INTO outbox (kind, subject, position, account_id, hash, status, attempts, "
            "next_attempt_at, created_at) SELECT kind, subject, 99, account_id, hash, 'pending', 0, '', '' "
            "FROM outbox WHERE kind = 'memory' AND subject = :a AND position = 1"
        ),
        {"outbox_stray"},
    ),
    "an outbox row with no such status": (
        sql("UPDATE outbox SET status = 'done' WHERE kind = 'memory' AND subject = :a AND position = 1"),
        {"outbox_status"},
    ),
    "a conflict": (
        sql("UPDATE outbox SET status = 'conflict' WHERE kind = 'state' AND subject = :p AND position = 9"),
        {"conflict"},
    ),
    "anchored, and nobody says where": (
        sql("UPDATE outbox SET tx_hash = NULL WHERE kind = 'memory' AND subject = :a AND position = 1"),
        {"outbox_place", "onchain_place"},
    ),
    "anchored in another block": (
        sql(
            "UPDATE outbox SET block_number = 1 WHERE kind = 'state' AND subject = :p AND position = 9",
        ),
        {"onchain_place"},
    ),
    "an anchor's id changed": (
        sql("UPDATE outbox SET anchor_id = '7000' WHERE kind = 'state' AND subject = :p AND position = 9"),
        {"onchain_place"},
    ),
    "covered, and by nothing": (
        sql(
            "UPDATE outbox SET status = 'covered' WHERE kind = 'state' AND subject = :p "
            f"AND position = {VERSIONS}",
        ),
        {"onchain_missing"},
    ),
    "a root nobody knows of": (
        sql(
            "UPDATE outbox SET anchor_id = '0x' || hex(zeroblob(32)), tx_hash = 'x' "
            "WHERE kind = 'state' AND subject = :p AND position = 9",
        ),
        {"root_unknown"},
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_to_the_store_is_named(home: Home, tmp_path: Path, name: str) -> None:
    damage, wanted = DAMAGES[name]
    path = tmp_path / "store.sqlite"
    shutil.copy(home.folder / "store.sqlite", path)
    with sqlite3.connect(path) as db:
        damage(db, home)
    db.close()
    report = home.check(f"sqlite:///{path}")
    assert codes(report) == wanted, report.findings
    with pytest.raises(IntegrityError, match="VERIFICATION FAILED"):
        report.judge()


def test_a_file_that_is_damaged_or_missing_or_no_store(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with pytest.raises(ConfigurationError, match="There is no store"):
        home.check(f"sqlite:///{path}")
    assert not path.exists(), "checking made a file"
    pages = (home.folder / "store.sqlite").read_bytes()
    path.write_bytes(pages[:4096] + os.urandom(8192) + pages[12288:])
    with pytest.raises(IntegrityError, match="damaged"):
        home.check(f"sqlite:///{path}")
    path.write_bytes(b"not a database at all" * 300)
    with pytest.raises(IntegrityError, match="damaged"):
        home.check(f"sqlite:///{path}")
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE x (y)")
    with pytest.raises(Unavailable, match="can't be read"):
        home.check(f"sqlite:///{path}")


# -- what the chain says ------------------------------------------------------------------------------


def changing(method: str, change: Callable[[Any], Any], target: str) -> Door:
    """Return a door to the node that changes the answers to one method."""
    door = Door(target)
    behave = door.behave

    def meddle(request: dict[str, Any]) -> tuple[int, bytes] | None:
        if request["method"] != method:
            return None
        door.behave = behave
        try:
            status, body = door.answer(json.dumps(request).encode())
        finally:
            door.behave = meddle
        return status, json.dumps({**json.loads(body), "result": change(json.loads(body)["result"])}).encode()

    door.behave = meddle
    return door


def with_topics(logs: list[Any], count: int) -> list[Any]:
    return [log for log in logs if len(log["data"]) == 2 + 64 * count]


def twice(logs: list[Any]) -> list[Any]:
    return logs + with_topics(logs, 3)[:1]


def without_the_last_state(logs: list[Any]) -> list[Any]:
    states = with_topics(logs, 3)
    return [log for log in logs if log not in states[-1:]]


def other_hashes(logs: list[Any]) -> list[Any]:
    return [{**log, "data": "0x" + "ee" * 32 + log["data"][66:]} for log in logs]


CHAIN_DAMAGES: dict[str, tuple[str, Callable[[Any], Any], set[str]]] = {
    # A state's event and a batch of memories both have three words.
    "something written twice": ("eth_getLogs", twice, {"onchain_twice"}),
    "an anchor that is gone": (
        "eth_getLogs",
        lambda logs: [log for log in logs if len(log["data"]) != 2 + 64 * 3],
        {"onchain_missing"},
    ),
    "other code at the address": ("eth_getCode", lambda code: code[:-2] + "00", {"contract_code"}),
    "another answer than was logged": (
        "eth_call",
        lambda answer: answer[:130] + "ee" * 32 + answer[194:],
        {"onchain_hash"},
    ),
}


@pytest.mark.parametrize("name", CHAIN_DAMAGES)
def test_what_the_chain_says_otherwise_is_named(home: Home, name: str) -> None:
    method, change, wanted = CHAIN_DAMAGES[name]
    door = changing(method, change, home.rpc)
    try:
        report = home.check(rpc=door.url)
    finally:
        door.close()
    assert codes(report) == wanted, report.findings


def test_another_chain_or_none(home: Home) -> None:
    assert codes(home.check(expected_chain_id=7)) == {"chain_id"}

    door = Door(home.rpc)
    door.behave = lambda request: result(request, "0x7") if request["method"] == "eth_chainId" else None
    try:
        # On a chain where no contracts are known nothing can be anchored.
        assert codes(home.check(rpc=door.url)) == {"onchain_missing"}
    finally:
        door.close()

    report = home.check(rpc="http://127.0.0.1:1")
    assert (report.findings, report.chain_checked) == ([], False)
    with pytest.raises(Unavailable, match="can't be asked"):
        report.judge()


def test_the_chain_of_another_home(home: Home, tmp_path: Path) -> None:
    """Another home's chain at the usual address has the same id; what it lacks is no fault of this home."""
    folder = tmp_path / "home"
    shutil.copytree(home.folder, folder)
    (folder / "chain").mkdir(exist_ok=True)
    shutil.copy(home.node / "genesis.json", folder / "chain" / "genesis.json")
    port = home.rpc.rpartition(":")[2]
    own = cli(folder, "verify", "--all", CHAINMEMORY_CHAIN_PORT=port)
    assert (own.returncode, own.stderr) == (0, "")
    with embedded_node(tmp_path / "node") as other:
        found = cli(folder, "verify", "--all", CHAINMEMORY_CHAIN_PORT=str(other.port))
    assert found.returncode == 2, found.stdout
    assert f"The chain at http://127.0.0.1:{other.port} isn't this store's" in found.stderr
    assert "DIFFERS" not in found.stdout
    assert "4 memories (3 decrypted)" in found.stdout  # the store itself was checked


def test_a_node_that_answers_little_at_once(home: Home) -> None:
    """Where a node refuses a wide range of blocks, fewer are asked for."""
    door = Door(home.rpc)
    asked: list[int] = []

    def few(request: dict[str, Any]) -> tuple[int, bytes] | None:
        if request["method"] != "eth_getLogs":
            return None
        span = int(request["params"][0]["toBlock"], 16) - int(request["params"][0]["fromBlock"], 16) + 1
        asked.append(span)
        return error(request, "query returned more than 10000 results") if span > 2 else None

    door.behave = few
    try:
        report = home.check(rpc=door.url)
    finally:
        door.close()
    assert report.findings == []
    assert min(asked) <= 2 < max(asked)


# -- stores and doors ---------------------------------------------------------------------------------


def test_postgresql(tmp_path: Path, home: Home) -> None:
    """The same check over the other store; anchored under Merkle roots this time."""
    (tmp_path / "home").mkdir()
    with fresh_database_url("postgresql", tmp_path) as url, running_api(tmp_path / "home", url) as api:
        account = api.account()
        account.save("We ship on Friday.", project="alpha", tags=["ship"])
        for phase in ("alpha", "beta", "gamma"):
            account.ops("alpha", {"op": "set_phase", "phase": phase, "evidence_memory_ids": [1]})
        anchor_all(api, home.rpc, replace(QUICK, merkle=True))

        def check() -> Report:
            keys = MasterKeys.read(tmp_path / "home" / "master.key")
            return verify_store(url, keys, Asked(home.rpc, CODE))

        report = check()
        assert (report.findings, report.chain_checked) == ([], True)
        assert (report.totals["anchored"], report.totals["memories_decrypted"]) == (4, 1)

        from sqlalchemy import text

        with api.engine.db.write() as tx:
            tx.memories._session.execute(
                text("UPDATE outbox SET hash = '0x' || repeat('ab', 32) WHERE kind = 'state'")
            )
        assert codes(check()) == {"outbox_hash", "root", "onchain_missing"}


def test_the_command(home: Home, tmp_path: Path) -> None:
    """Exit code 0 where all is well, 1 where something differs, 2 where not all could be checked."""
    folder = tmp_path / "home"
    shutil.copytree(home.folder, folder)
    good = cli(folder, "verify", "--all", "--rpc", home.rpc)
    assert (good.returncode, good.stderr) == (0, "")
    assert f"project alpha: {VERSIONS} versions rebuilt" in good.stdout
    assert good.stdout.splitlines()[-1].startswith("VERIFIED: 5 memories, ")

    told = cli(folder, "verify", "--all", "--json", "--no-chain")
    assert told.returncode == 0
    assert json.loads(told.stdout)["ok"] is True
    assert json.loads(told.stdout)["chain"]["checked"] is False

    away = cli(folder, "verify", "--all", "--rpc", "http://127.0.0.1:1")
    assert (away.returncode, "NOT WHOLLY CHECKED" in away.stderr) == (2, True)
    both = cli(folder, "verify", "alpha", "--all")
    assert (both.returncode, "not both" in both.stderr) == (2, True)
    neither = cli(folder, "verify")
    assert (neither.returncode, "--all" in neither.stderr) == (2, True)

    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("UPDATE memories SET importance = 9 WHERE number = 1")
    db.close()
    bad = cli(folder, "verify", "--all", "--no-chain")
    assert (bad.returncode, "VERIFICATION FAILED: 2 things differ" in bad.stderr) == (1, True)
    assert "DIFFERS [header_column] memory 1 of " in bad.stdout
    (folder / "master.key").unlink()
    assert cli(folder, "verify", "--all", "--no-chain").returncode == 2
