"""Deploying by hand: checked by status, code and events; and who may write afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from chainmemory.chain.anchor_contract import StateAnchors, StateItem
from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR
from chainmemory.chain.deploy import check_code, check_created, deploy, grant
from chainmemory.chain.failures import ChainUnavailable, CodeMismatch, Refusal, TransactionRefused
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.registry import MemoryRegistry
from chainmemory.chain.signer import Signer
from chainmemory.errors import ConfigurationError
from tests.support.chains import OTHER_KEY, TesterChain

POLICY = FeePolicy(10**12)


@pytest.fixture(scope="module")
def chain() -> TesterChain:
    return TesterChain.with_contracts()


def test_what_is_deployed_is_what_was_compiled(chain: TesterChain) -> None:
    assert chain.deployment is not None
    for contract in (chain.deployment.anchors, chain.deployment.registry):
        assert check_code(chain.gateway, contract.name, contract.address) == contract.code_hash
        receipt = chain.gateway.receipt(contract.tx_hash)
        assert receipt is not None
        assert receipt.block_number == contract.block_number >= chain.deployment.first_block
    assert chain.seen.anchors.is_submitter(chain.signer.address)
    assert chain.seen.registry.is_submitter(chain.signer.address)


def test_swapped_addresses_and_empty_ones_are_refused(chain: TesterChain) -> None:
    assert chain.deployment is not None
    with pytest.raises(CodeMismatch, match="isn't MemoryRegistry"):
        check_code(chain.gateway, MEMORY_REGISTRY, chain.deployment.anchors.address)
    with pytest.raises(CodeMismatch, match="no contract at"):
        check_code(chain.gateway, STATE_ANCHOR, chain.signer.address)


def test_admin_and_submitter_can_be_others_than_the_one_who_pays(chain: TesterChain) -> None:
    other = Signer.from_key(OTHER_KEY)
    chain.fund(other.address)

    made = deploy(chain.gateway, chain.signer, policy=POLICY, admin=other.address, submitter=other.address)

    anchors = StateAnchors(chain.gateway, made.anchors.address)
    registry = MemoryRegistry(chain.gateway, made.registry.address)
    assert (anchors.is_submitter(chain.signer.address), anchors.is_submitter(other.address)) == (False, True)
    with pytest.raises(ConfigurationError, match="isn't the contract's admin"):
        grant(chain.gateway, chain.signer, made, chain.signer.address, policy=POLICY)
    assert len(grant(chain.gateway, other, made, chain.signer.address, policy=POLICY)) == 2
    assert anchors.is_submitter(chain.signer.address)
    assert registry.is_submitter(chain.signer.address)


def test_a_creation_that_ran_out_of_gas_or_left_nothing_is_refused(chain: TesterChain) -> None:
    signed = chain.signer.sign(
        chain_id=chain.gateway.chain_id(),
        nonce=chain.gateway.nonce(chain.signer.address),
        to=None,
        data=b"\xfe",
        gas_limit=100_000,
        fees=POLICY.quote(chain.gateway.fee_market()),
    )
    chain.gateway.send_raw(signed.raw)
    receipt = chain.gateway.receipt(signed.hash)
    assert receipt is not None

    with pytest.raises(CodeMismatch, match="Deploying ProjectStateAnchor failed"):
        check_created(chain.gateway, STATE_ANCHOR, receipt)


def test_a_signer_without_funds_is_refused(chain: TesterChain) -> None:
    poor = Signer.from_key(b"\x07" * 32)

    with pytest.raises(TransactionRefused) as refused:
        deploy(chain.gateway, poor, policy=POLICY)

    assert refused.value.refusal is Refusal.INSUFFICIENT_FUNDS


def test_a_transaction_no_block_takes_is_given_up(chain: TesterChain) -> None:
    def swallow(method: str, params: Any) -> Any:
        if method == "eth_sendRawTransaction":
            return {"jsonrpc": "2.0", "id": 1, "result": "0x" + "00" * 32}
        return None

    chain.node.mood = swallow
    try:
        with pytest.raises(ChainUnavailable, match=r"No block took transaction .* within 0\.2 s"):
            deploy(chain.gateway, chain.signer, policy=POLICY, wait_s=0.2)
    finally:
        chain.node.in_good_mood()


def test_a_log_of_another_contract_is_none_of_ours(chain: TesterChain) -> None:
    item = StateItem("0x" + "01" * 32, 1, "0x" + "02" * 32)
    tx_hash = chain.seen.anchor(chain.signer, item.project_id, 1, item.state_hash)
    receipt = chain.gateway.receipt(tx_hash)
    assert receipt is not None
    elsewhere = StateAnchors(chain.gateway, chain.signer.address)

    assert chain.seen.anchors.state_results(receipt, [item])[0].outcome == 0
    with pytest.raises(CodeMismatch, match="without an event for 1 of 1 elements"):
        elsewhere.state_results(receipt, [item])
