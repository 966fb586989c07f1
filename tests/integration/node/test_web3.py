"""web3.py talks to the node as to any other: deploys, sends, waits, reads, filters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from web3 import HTTPProvider, Web3
from web3.exceptions import ContractLogicError, TransactionNotFound, Web3RPCError
from web3.middleware import ExtraDataToPOAMiddleware, SignAndSendRawMiddlewareBuilder

from tests.support.evm_code import ANCHOR, REVERT_WITH_TEXT, creation
from tests.support.node_process import CHAIN_ID, USER, NodeProcess

EVENT = {
    "type": "event",
    "name": "Anchored",
    "anonymous": False,
    "inputs": [
        {"name": "key", "type": "bytes32", "indexed": True},
        {"name": "sender", "type": "address", "indexed": True},
        {"name": "value", "type": "bytes32", "indexed": False},
    ],
}


@pytest.fixture(scope="module")
def w3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web3]:
    node = NodeProcess(tmp_path_factory.mktemp("web3") / "chain", alloc=[USER.address])
    try:
        port = node.start().port
        web3 = Web3(HTTPProvider(f"http://127.0.0.1:{port}", request_kwargs={"timeout": 60}))
        web3.middleware_onion.inject(ExtraDataToPOAMiddleware, layer=0)
        web3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(USER), layer=0)
        web3.eth.default_account = USER.address
        yield web3
    finally:
        node.ensure_gone()


def test_a_contract_is_deployed_called_and_its_logs_are_read(w3: Web3) -> None:
    assert w3.is_connected()
    assert w3.eth.chain_id == CHAIN_ID
    # web3 fills in nonce, gas and fees itself: estimateGas, feeHistory, maxPriorityFeePerGas, getBlock.
    deployed = w3.eth.send_transaction({"data": "0x" + creation(ANCHOR).hex()})
    receipt = w3.eth.wait_for_transaction_receipt(deployed, timeout=60, poll_latency=0.05)
    contract = receipt["contractAddress"]
    assert bytes(w3.eth.get_code(contract)) == ANCHOR

    blocks = w3.eth.filter("latest")
    logs = w3.eth.filter({"address": contract})
    sent = w3.eth.send_transaction({"to": contract, "data": "0x" + "01" * 32 + "02" * 32})
    receipt = w3.eth.wait_for_transaction_receipt(sent, timeout=60, poll_latency=0.05)
    assert receipt["status"] == 1
    assert w3.eth.get_transaction(sent)["type"] == 2
    assert [bytes(block) for block in blocks.get_new_entries()] == [bytes(receipt["blockHash"])]
    (log,) = logs.get_new_entries()
    assert bytes(log["data"]) == b"\x02" * 32
    (found,) = w3.eth.get_logs({"address": contract, "fromBlock": 0, "topics": [None, "0x" + "01" * 32]})
    assert found == log == receipt["logs"][0]
    assert w3.eth.get_storage_at(contract, int("01" * 32, 16)) == b"\x02" * 32
    assert w3.eth.get_proof(contract, [1], "latest")["storageProof"][0]["value"] == b"\x00"
    block = w3.eth.get_block("latest", full_transactions=True)
    assert bytes(block["transactions"][0]["hash"]) == bytes(sent)
    assert len(block["proofOfAuthorityData"]) == 97
    assert w3.eth.get_block("pending")["number"] == block["number"] + 1
    assert w3.eth.fee_history(2, "latest", [50.0])["oldestBlock"] == block["number"] - 1


def test_failures_arrive_as_web3s_own_errors(w3: Web3) -> None:
    deployed = w3.eth.send_transaction({"data": "0x" + creation(REVERT_WITH_TEXT).hex()})
    contract = w3.eth.wait_for_transaction_receipt(deployed, timeout=60, poll_latency=0.05)["contractAddress"]
    with pytest.raises(ContractLogicError, match="no!"):
        w3.eth.call({"to": contract})
    with pytest.raises(TransactionNotFound):
        w3.eth.get_transaction_receipt("0x" + "ee" * 32)
    raw = USER.sign_transaction(
        {"nonce": 0, "to": contract, "gas": 50_000, "gasPrice": 10**10, "chainId": CHAIN_ID, "value": 0}
    )
    with pytest.raises(Web3RPCError, match="nonce too low"):
        w3.eth.send_raw_transaction(raw.raw_transaction)


def test_a_waiting_transaction_is_replaced_by_web3(w3: Web3) -> None:
    nonce = w3.eth.get_transaction_count(USER.address)
    fields = {"from": USER.address, "to": USER.address, "nonce": nonce + 1, "gas": 30_000, "value": 1}
    first = w3.eth.send_transaction({**fields, "maxFeePerGas": 3 * 10**9, "maxPriorityFeePerGas": 10**9})
    second = w3.eth.replace_transaction(
        first, {**fields, "maxFeePerGas": 4 * 10**9, "maxPriorityFeePerGas": 2 * 10**9}
    )
    assert w3.eth.get_transaction_count(USER.address, "pending") == nonce
    w3.eth.send_transaction({**fields, "nonce": nonce})
    assert w3.eth.wait_for_transaction_receipt(second, timeout=60, poll_latency=0.05)["status"] == 1
    with pytest.raises(TransactionNotFound):
        w3.eth.get_transaction(first)
