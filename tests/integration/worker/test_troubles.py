"""Whatever node, fees, funds or settings do: the right status, the right reason, the right end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
from web3.types import RPCResponse

from chainmemory.chain import gas
from chainmemory.chain.abi import submitter_role
from chainmemory.chain.deploy import grant
from chainmemory.chain.failures import CodeMismatch, WrongChain
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.signer import Signer
from chainmemory.errors import ConfigurationError
from chainmemory.store.database import Database
from chainmemory.store.outbox import Anchored
from chainmemory.store.outbox_rows import STATE
from tests.support.chains import OTHER_KEY, TesterChain, refusal
from tests.support.rounds import (
    Work,
    drain,
    free_the_lease,
    purposes,
    rows_of,
    transactions,
    worker_on,
)
from tests.support.saving import append_state, create_account, create_project

SEND = "eth_sendRawTransaction"
Mood = Callable[[str, Any], RPCResponse | Exception | None]


def once(method: str, answer: RPCResponse | Exception) -> Mood:
    """Answer the first call of a method so, and leave the others alone."""
    calls: list[str] = []

    def mood(asked: str, params: Any) -> RPCResponse | Exception | None:
        if asked != method or calls:
            return None
        calls.append(asked)
        return answer

    return mood


def test_a_node_that_is_away_is_waited_for_with_a_reason_and_a_time(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    chain.node.mood = lambda method, params: requests.ConnectionError("to user:hunter22@host/secret-path")
    worker = worker_on(db, chain)

    for attempt in (1, 2):
        progress = worker.run_once()
        assert (progress.state, progress.error) == ("waiting", "chain_unavailable")
        waiting = [row for row in work.rows if row.kind != STATE]
        assert {row.status for row in waiting} == {"failed"}
        assert {row.attempts for row in waiting} == {attempt}
        assert all("can't be reached" in (row.reason or "") for row in waiting)
        assert all(row.next_attempt_at > row.created_at for row in waiting)
        free_up(db)
    with db.read() as tx:
        status = tx.worker.status()
    assert status is not None
    assert (status.state, status.error) == ("waiting", "chain_unavailable")
    assert "hunter22" not in repr(status) + repr(work.rows)
    chain.node.in_good_mood()
    drain(worker)

    work.check(chain.seen)
    with db.read() as tx:
        status = tx.worker.status()
    assert status is not None
    assert (status.state, status.error) == ("working", None)


def free_up(db: Database) -> None:
    """Make what waits for its next attempt due now."""
    with db.write() as tx:
        (lease,) = tx.leases.all()
        tx.outbox.retry_now(lease, now="2000-01-01T00:00:00.000000Z")


def test_a_node_that_goes_away_after_the_transaction_was_stored_marks_it_failed_until_it_is_taken(
    db: Database, chain: TesterChain
) -> None:
    work = Work(db)
    worker = worker_on(db, chain)
    chain.node.mood = lambda method, params: requests.Timeout() if method == SEND else None

    progress = worker.run_once()

    assert progress.state == "waiting"
    assert "in time" in progress.words
    stored = [row for row in work.rows if row.tx_hash is not None]
    assert {row.status for row in stored} == {"failed"}
    chain.node.in_good_mood()
    drain(worker)
    work.check(chain.seen)
    assert purposes(db) == ["memory", "head", "state", "state"]


@pytest.mark.parametrize(
    "answer",
    [
        requests.ConnectionError(),
        requests.Timeout(),
        refusal("already known"),
        refusal("nonce too low"),
        refusal("the pool is full"),
    ],
    ids=["reset", "timeout", "already known", "nonce too low", "full"],
)
def test_a_lost_answer_to_a_delivered_transaction_costs_nothing(
    db: Database, chain: TesterChain, answer: RPCResponse | Exception
) -> None:
    work = Work(db)
    chain.node.afterwards = once(SEND, answer)

    drain(worker_on(db, chain))

    work.check(chain.seen)
    assert len({row.nonce for row in transactions(db)}) == len(transactions(db))


def test_a_swallowed_transaction_is_sent_again_byte_for_byte(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    chain.node.mood = once(SEND, {"jsonrpc": "2.0", "id": 1, "result": "0x" + "00" * 32})

    drain(worker_on(db, chain, resend_s=0))

    work.check(chain.seen)
    assert len({row.nonce for row in transactions(db)}) == len(transactions(db))


@pytest.mark.parametrize(
    "words", ["transaction underpriced", "replacement transaction underpriced", "max fee per gas less than"]
)
def test_a_too_cheap_transaction_is_replaced_by_a_dearer_one(
    db: Database, chain: TesterChain, words: str
) -> None:
    work = Work(db)
    chain.node.mood = once(SEND, refusal(words))

    drain(worker_on(db, chain))

    work.check(chain.seen)
    old, new, *_ = transactions(db)
    assert (old.nonce, old.status) == (new.nonce, "replaced")
    assert new.max_fee * 10 > old.max_fee * 11
    assert new.status == "confirmed"
    assert old.outbox_ids == new.outbox_ids


def test_a_stuck_transaction_is_replaced_while_blocks_pass(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    chain.node.mood = once(SEND, {"jsonrpc": "2.0", "id": 1, "result": "0x" + "00" * 32})
    worker = worker_on(db, chain, stuck_s=0, resend_s=3600, head_wait_s=3600)
    worker.run_once()
    before = len(transactions(db))

    worker.run_once()
    assert len(transactions(db)) == before, "no block passed, so the fee isn't why"
    chain.mine(3)
    drain(worker)

    old, new, *_ = transactions(db)
    assert old.nonce == new.nonce
    assert new.max_fee > old.max_fee
    assert {row.status for row in work.rows if row.kind != "head"} == {"anchored"}


def test_the_cap_holds_anchoring_back_and_says_so(db: Database, chain: TesterChain) -> None:
    work = Work(db)

    progress = worker_on(db, chain, max_fee=1).run_once()

    assert progress.error == "fees_too_high"
    assert transactions(db) == []
    assert any("max_fee_gwei" in (row.reason or "") for row in work.rows)
    free_the_lease(db)
    drain(worker_on(db, chain))
    work.check(chain.seen)


def test_a_signer_without_funds_waits_for_them(db: Database, chain: TesterChain) -> None:
    poor = Signer.from_key(OTHER_KEY)
    assert chain.deployment is not None
    grant(chain.gateway, chain.signer, chain.deployment, poor.address, policy=FeePolicy(10**12))
    work = Work(db)
    worker = worker_on(db, chain, signer=poor)

    progress = worker.run_once()

    assert progress.error == "insufficient_funds"
    assert any("insufficient funds" in (row.reason or "") for row in work.rows)
    assert transactions(db) == []
    chain.fund(poor.address)
    drain(worker)
    work.check(chain.seen)


def test_a_signer_that_may_not_write_waits_for_the_grant(db: Database, chain: TesterChain) -> None:
    stranger = Signer.from_key(OTHER_KEY)
    chain.fund(stranger.address)
    work = Work(db)
    worker = worker_on(db, chain, signer=stranger)

    progress = worker.run_once()

    assert progress.error == "not_submitter"
    assert "contracts grant" in progress.words
    assert transactions(db) == []
    assert chain.deployment is not None
    grant(chain.gateway, chain.signer, chain.deployment, stranger.address, policy=FeePolicy(10**12))
    drain(worker)
    work.check(chain.seen)


def test_a_right_revoked_on_the_way_fails_the_rows_and_is_told(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    worker = worker_on(db, chain, head_wait_s=3600)
    drain(worker)
    anchors = chain.seen.anchors
    revoke = anchors.abi.encode("revokeRole", submitter_role(), chain.signer.address)
    chain.seen.send(chain.signer, anchors.address, revoke)
    append_state(db, work.person, work.project, 3)

    for _ in range(2):
        worker.run_once()

    assert transactions(db)[-1].status == "failed"
    row = rows_of(db, STATE, work.project.project_id)[-1]
    assert row.status == "failed"
    assert "isn't a submitter" in (row.reason or "")


def test_another_chain_stops_the_worker(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    worker = worker_on(db, chain, expected_chain_id=1)

    with pytest.raises(WrongChain, match="serves chain 131277322940537, and this worker anchors on chain 1"):
        worker.run_once()

    with db.read() as tx:
        status = tx.worker.status()
    assert status is not None
    assert (status.state, status.error) == ("stopped", "wrong_chain_id")
    assert any("anchors on chain 1" in (row.reason or "") for row in work.rows)
    assert transactions(db) == []


def test_a_node_that_changes_its_chain_under_way_stops_the_worker(db: Database, chain: TesterChain) -> None:
    worker = worker_on(db, chain, recheck_s=0)
    drain(worker)
    chain.node.mood = lambda method, params: (
        {"jsonrpc": "2.0", "id": 1, "result": hex(5)} if method == "eth_chainId" else None
    )

    with pytest.raises(WrongChain, match="serves chain 5"):
        worker.run_once()


@pytest.mark.parametrize("where", ["another contract", "nobody"])
def test_something_else_at_the_address_stops_the_worker(db: Database, chain: TesterChain, where: str) -> None:
    assert chain.deployment is not None
    registry = chain.deployment.registry.address
    address = registry if where == "another contract" else "0x000000000000000000000000000000000000dEaD"

    with pytest.raises(
        CodeMismatch, match="isn't ProjectStateAnchor" if where != "nobody" else "no contract"
    ):
        worker_on(db, chain, anchor_address=address).run_once()

    assert transactions(db) == []


def test_one_address_alone_is_refused(db: Database, chain: TesterChain) -> None:
    with pytest.raises(ConfigurationError, match="both contract addresses"):
        worker_on(db, chain, registry_address=None).run_once()


def test_without_contracts_on_a_foreign_chain_the_worker_waits(db: Database, chain: TesterChain) -> None:
    progress = worker_on(db, chain, anchor_address=None, registry_address=None).run_once()

    assert progress.error == "not_deployed"
    assert "contracts deploy" in progress.words


def test_a_nonce_used_by_something_else_sends_the_rows_again(db: Database, chain: TesterChain) -> None:
    work = Work(db)
    chain.node.mood = once(SEND, {"jsonrpc": "2.0", "id": 1, "result": "0x" + "00" * 32})
    worker = worker_on(db, chain, resend_s=3600, head_wait_s=3600, missing_s=0)
    worker.run_once()
    chain.node.in_good_mood()
    chain.seen.send(chain.signer, chain.signer.address, b"")

    drain(worker)

    dropped, *_ = transactions(db)
    assert dropped.status == "dropped"
    assert {row.status for row in work.rows if row.kind != "head"} == {"anchored"}
    assert chain.seen.skipped() == []


def test_a_nonce_used_by_the_same_anchor_is_recorded_as_that(db: Database, chain: TesterChain) -> None:
    """As after a restored backup: the chain has more than the store remembers having sent."""
    person = create_account(db)
    project = create_project(db, person, "alpha")
    state = append_state(db, person, project, 1)
    chain.node.mood = once(SEND, {"jsonrpc": "2.0", "id": 1, "result": "0x" + "00" * 32})
    worker = worker_on(db, chain, resend_s=3600, head_wait_s=3600, missing_s=0)
    worker.run_once()
    chain.node.in_good_mood()
    other = chain.seen.anchor(chain.signer, project.project_id, 1, state.state_hash)

    drain(worker)

    (row,) = rows_of(db, STATE, project.project_id)
    assert (row.status, row.tx_hash, row.anchor_id) == ("anchored", other, "1")


def test_what_the_store_took_for_anchored_and_the_chain_lacks_is_sent_first(
    db: Database, chain: TesterChain
) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    worker = worker_on(db, chain, head_wait_s=3600)
    append_state(db, person, project, 1)
    drain(worker)
    for version in (2, 3):
        append_state(db, person, project, version)
    head = chain.gateway.head()
    with db.write() as tx:
        (lease,) = tx.leases.all()
        row = tx.outbox.get(STATE, project.project_id, 2)
        assert row is not None
        tx.outbox.mark_anchored(lease, [Anchored(row.id, "0x00", head.number, head.hash, "9", "x")])

    drain(worker)
    free_up(db)  # version 3 waits for its next attempt where it was tried before version 2
    drain(worker)

    rows = rows_of(db, STATE, project.project_id)
    assert [row.status for row in rows] == ["anchored"] * 3
    assert chain.seen.state_hashes(project.project_id, 3) == [row.hash for row in rows]


def test_a_bound_that_was_too_low_grows(
    db: Database, chain: TesterChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gas, "STATE_FIRST", 40_000)
    person = create_account(db)
    projects = [create_project(db, person, f"p{n}") for n in range(12)]
    for project in projects:
        append_state(db, person, project, 1)
    worker = worker_on(db, chain)

    drain(worker)
    free_up(db)
    drain(worker)

    failed, sent_again = (row for row in transactions(db) if row.purpose == STATE)
    assert (failed.status, sent_again.status) == ("failed", "confirmed")
    assert sent_again.gas_limit == int(failed.gas_limit * 1.5)
    assert all(rows_of(db, STATE, project.project_id)[0].status == "anchored" for project in projects)
