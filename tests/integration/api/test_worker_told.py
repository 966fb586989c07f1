"""What the API tells of the workers: why one can't start, which parts lack one, numbers, and a lost chain."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from chainmemory.anchoring.worker import worker_of
from chainmemory.errors import ConfigurationError
from chainmemory.store.parts import Part
from tests.support.api import Account, Api, refused, use_chain
from tests.support.chains import TesterChain
from tests.support.rounds import drain, free_the_lease
from tests.support.server import eventually


def test_a_worker_that_can_not_start_says_why(api: Api, ada: Account) -> None:
    worker = use_chain(api, TesterChain())
    settings = api.engine.settings
    settings.signer_keystore_path.write_text("no keystore")
    settings.signer_password_path.write_text("sesame-open")
    with pytest.raises(ConfigurationError, match="can't be opened"):
        worker_of(settings, api.engine.db)
    engine = create_engine(api.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE worker_status SET beat_at = '2026-01-01T00:00:00.000000Z'"))
    engine.dispose()
    said = refused(api.http.get("/readyz"), 503, "not_ready")["details"]["worker"]
    assert "signer's keystore" in said
    assert "sesame-open" not in said
    assert api.http.get("/v1/chain").json()["worker"]["health"] == said
    drain(worker)
    eventually(lambda: api.http.get("/readyz").status_code == 200, "the worker that starts takes it back")


def test_parts_without_a_worker_are_named(api: Api, ada: Account) -> None:
    chain = TesterChain()
    # Only the first part's worker deploys.
    assert use_chain(api, chain, part=Part(2, 3)).run_once().error == "not_deployed"
    free_the_lease(api.engine.db)
    drain(use_chain(api, chain))
    free_the_lease(api.engine.db)
    drain(use_chain(api, chain, part=Part(2, 3)))
    said = refused(api.http.get("/readyz"), 503, "not_ready")["details"]["worker"]
    assert "No worker does part 1/3, 3/3 of the work" in said


def test_the_workers_numbers_are_metrics(api: Api, ada: Account) -> None:
    chain = TesterChain()
    worker = use_chain(api, chain)
    drain(worker)
    ada.save()
    for phase in ("alpha", "beta"):
        ada.ops("p", {"op": "set_phase", "phase": phase})
    waiting = api.http.get("/metrics").text
    assert 'chainmemory_queue_rows{kind="state",status="pending"} 2.0' in waiting
    assert 'chainmemory_queue_oldest_seconds{kind="memory",status="pending"}' in waiting
    assert 'chainmemory_queue_attempts{kind="memory",status="pending"} 0.0' in waiting
    chain.hold_blocks()
    worker.run_once()
    signer = f'signer="{chain.signer.address}"'
    assert f'chainmemory_anchor_transactions_open{{{signer},status="sent"}}' in api.http.get("/metrics").text
    chain.tester.enable_auto_mine_transactions()
    chain.mine()
    drain(worker)

    text = api.http.get("/metrics").text

    assert "chainmemory_queue_rows" not in text
    assert f'chainmemory_anchored_total{{kind="state",{signer}}} 2.0' in text
    assert f'chainmemory_anchor_transactions_total{{event="confirmed",kind="memory",{signer}}} 1.0' in text
    assert f'chainmemory_anchor_transactions_total{{event="sent",kind="memory",{signer}}} 1.0' in text
    assert f'chainmemory_anchor_gas_total{{kind="memory",{signer}}}' in text
    assert "chainmemory_confirmations_wanted 1.0" in text
    assert f"chainmemory_signer_balance_wei{{{signer}}}" in text
    with api.engine.db.read() as tx:
        (lease,) = tx.leases.all()
    assert f'chainmemory_lease_held{{holder="{lease.holder}",lease="{lease.name}"}} 1.0' in text


def test_a_chain_that_went_back_is_told(api: Api, ada: Account) -> None:
    chain = TesterChain.with_contracts()
    worker = use_chain(api, chain)
    drain(worker)
    before = chain.tester.take_snapshot()
    for phase in ("alpha", "beta"):
        ada.ops("p", {"op": "set_phase", "phase": phase})
    drain(worker)
    assert api.http.get("/v1/chain").json()["worker"]["notice"] is None

    chain.tester.revert_to_snapshot(before)
    drain(worker)

    found = api.http.get("/v1/chain").json()["worker"]
    assert "The chain went back: " in found["notice"]
    assert "restored from an older copy" in found["notice"]
    assert found["notice"] in found["health"]
    assert found["ok"] is True
    free_the_lease(api.engine.db)
    drain(use_chain(api, chain))
    assert api.http.get("/v1/chain").json()["worker"]["notice"] == found["notice"]
    eventually(lambda: api.http.get("/v1/verify/p").json()["verified"] is True, "it is anchored again")
