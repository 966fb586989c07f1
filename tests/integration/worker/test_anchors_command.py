"""`chainmemory anchors` and `worker --once`: an operator's look at the queue, and one pass over it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from requests.exceptions import ConnectionError

from chainmemory.chain.signer import ensure_keystore
from chainmemory.store.database import Database
from tests.support.chains import TesterChain, embedded_node
from tests.support.rounds import Work, drain, free_the_lease, worker_on
from tests.support.saving import append_state
from tests.support.server import cli


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def db(home: Path) -> Iterator[Database]:
    with Database.open(f"sqlite:///{home / 'store.sqlite'}") as database:
        yield database


def listed(home: Path, *arguments: str) -> list[dict[str, Any]]:
    ran = cli(home, "anchors", "list", "--json", *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(ran.stdout)["anchors"]
    return found


def told(home: Path, what: str) -> str:
    ran = cli(home, "anchors", "explain", what)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_queue_is_listed_filtered_and_explained(home: Path, db: Database, chain: TesterChain) -> None:
    work = Work(db)

    assert [one["what"] for one in listed(home, "--kind", "state")] == ["alpha@2", "alpha@1"]
    assert {one["status"] for one in listed(home)} == {"pending"}
    assert "memories it cites that aren't on chain yet: 1." in told(home, "alpha@1")
    assert "It waits for version 1 of the same project, which is pending." in told(home, "alpha@2")
    assert "No worker has run on this store yet." in told(home, "alpha@2")

    drain(worker_on(db, chain))

    assert listed(home, "--status", "pending", "--status", "failed") == []
    assert [one["what"] for one in listed(home, "--project", "alpha", "--limit", "1")] == ["alpha@2"]
    row = work.rows[3]
    said = told(home, "alpha@2")
    assert (
        f"It is anchored in block {row.block_number} ({row.block_hash}), transaction {row.tx_hash}." in said
    )
    assert f"signed into transaction {row.tx_hash}" in said
    assert "which was confirmed in block" in said
    assert told(home, str(row.id)) == said
    table = cli(home, "anchors", "list", "--kind", "memory").stdout
    assert table.splitlines()[0].split()[:4] == ["ID", "WHAT", "STATUS", "TRIES"]
    assert f"memory 2 of account {work.person.account_id[:8]}" in table


def test_a_failed_anchor_says_why_and_is_due_at_once_when_asked(
    home: Path, db: Database, chain: TesterChain
) -> None:
    work = Work(db)
    worker = worker_on(db, chain)
    chain.node.mood = lambda method, params: ConnectionError("refused")
    worker.run_once()
    with db.write() as tx:
        # As if it had failed so often that the next attempt is far off.
        row = work.rows[0]
        lease = tx.leases.all()[0]
        tx.outbox.mark_failed(
            lease, [row.id], reason=row.reason or "", next_attempt_at="9999-01-01T00:00:00.000000Z"
        )

    said = told(home, str(row.id))
    assert "2 attempts came to nothing." in said
    assert "can't be reached" in said
    assert "The next attempt is at 9999-01-01 00:00:00 UTC." in said
    assert "The worker said at" in said
    (failed,) = [one for one in listed(home, "--status", "failed") if one["id"] == row.id]
    assert failed["next_attempt_at"] == "9999-01-01T00:00:00.000000Z"

    assert json.loads(cli(home, "anchors", "retry", str(row.id), "--json").stdout) == {"due_now": 1}
    assert "failed anchors are due now" in cli(home, "anchors", "retry").stdout
    assert cli(home, "anchors", "retry", "--project", "alpha").stdout == "0 failed anchors are due now.\n"
    chain.node.in_good_mood()
    free_the_lease(db)
    drain(worker_on(db, chain))
    work.check(chain.seen)


def test_what_is_not_there_is_said_in_a_sentence(home: Path, tmp_path: Path, db: Database) -> None:
    for arguments in (
        ("anchors", "explain", "999"),
        ("anchors", "explain", "nothing@1"),
        ("anchors", "explain", "x"),
        ("anchors", "list", "--project", "nothing"),
    ):
        ran = cli(home, *arguments)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "There is no" in ran.stderr
    elsewhere = tmp_path / "elsewhere"
    assert "There is no store at" in cli(elsewhere, "anchors", "list").stderr
    assert not elsewhere.exists()


def test_one_pass_works_off_what_is_due_and_gives_the_lease_back(
    home: Path, db: Database, chain: TesterChain
) -> None:
    work = Work(db)
    said: list[str] = []

    assert worker_on(db, chain).run_until_idle(threading.Event(), said.append).state == "working"

    work.check(chain.seen)
    assert said[-1] == "All that is due was sent."
    append_state(db, work.person, work.project, 3)
    # The lease is free at once: the next pass doesn't wait for it to lapse.
    assert worker_on(db, chain).run_until_idle(threading.Event(), said.append).state == "working"
    assert work.statuses == {"anchored": len(work.rows)}


def test_one_pass_ends_with_the_first_trouble_and_where_another_works(
    db: Database, chain: TesterChain
) -> None:
    other = worker_on(db, chain)
    other.run_once()
    said: list[str] = []
    assert worker_on(db, chain).run_until_idle(threading.Event(), said.append).state == "standby"
    assert "holds the lease" in said[-1]
    free_the_lease(db)
    chain.node.mood = lambda method, params: ConnectionError("refused")
    assert worker_on(db, chain).run_until_idle(threading.Event(), said.append).state == "waiting"
    assert "can't be reached" in said[-1]


def test_the_worker_command_does_one_pass_on_a_real_chain(home: Path, db: Database, tmp_path: Path) -> None:
    work = Work(db)
    signer = ensure_keystore(home / "signer.json", home / "signer.password")
    nowhere = cli(home, "worker", "--once", "--chain-port", "9")
    assert nowhere.returncode == 2
    assert "Not all that was due is on chain." in nowhere.stderr

    with embedded_node(tmp_path / "chain", alloc=(signer,)) as node:
        ran = cli(home, "worker", "--once", "--chain-port", str(node.port))

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("Nothing is left to send.\n")
    assert work.statuses == {"anchored": len(work.rows)}
