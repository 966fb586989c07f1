"""The JSON-RPC of a running node: what web3.py, ethers and explorers ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rlp
from eth_keys.datatypes import Signature
from eth_utils import keccak
from trie import HexaryTrie

from tests.support.evm_code import ANCHOR, CONTEXT, RECURSE, REVERT_WITH_TEXT, SPIN, creation
from tests.support.node_process import CHAIN_ID, USER, Client, NodeProcess, RpcFailure, sign, wait_for

SENDER = USER.address.lower()
UNKNOWN = "0x" + "ee" * 32
NOBODY = "0x" + "ee" * 20


def word(number: int) -> str:
    return f"0x{number:064x}"


@dataclass
class Chain:
    """A running node with five contracts and four anchors on it; nothing in here changes it."""

    client: Client
    contracts: dict[str, str]
    anchors: list[dict[str, Any]]
    """The anchors' receipts."""

    def call(self, method: str, *params: Any) -> Any:
        return self.client.call(method, *params)

    def error(self, method: str, *params: Any) -> RpcFailure:
        with pytest.raises(RpcFailure) as failure:
            self.client.call(method, *params)
        return failure.value


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    node = NodeProcess(tmp_path_factory.mktemp("rpc") / "chain", alloc=[USER.address])
    try:
        client = node.start()
        codes = {
            "anchor": ANCHOR,
            "context": CONTEXT,
            "recurse": RECURSE,
            "revert": REVERT_WITH_TEXT,
            "spin": SPIN,
        }
        hashes = [
            client.call("eth_sendRawTransaction", sign(i, to=None, data=creation(code), gas=300_000))
            for i, code in enumerate(codes.values())
        ]
        contracts = {
            name: client.receipt(h)["contractAddress"] for name, h in zip(codes, hashes, strict=True)
        }
        hashes = []
        for i, fields in enumerate(
            [{}, {"gasPrice": 10**10}, {"type": 1, "gasPrice": 10**10, "accessList": []}, {"value": 0}]
        ):
            data = f"{word(i)}{i + 100:064x}"
            raw = sign(5 + i, to=contracts["anchor"], data=data, **fields)
            hashes.append(client.call("eth_sendRawTransaction", raw))
        yield Chain(client, contracts, [client.receipt(h) for h in hashes])
    finally:
        node.ensure_gone()


def test_the_chain_says_who_it_is(chain: Chain) -> None:
    assert chain.call("eth_chainId") == hex(CHAIN_ID)
    assert chain.call("net_version") == str(CHAIN_ID)
    assert chain.call("eth_syncing") is False
    assert chain.call("eth_accounts") == []
    assert chain.call("net_listening") is True
    assert chain.call("net_peerCount") == "0x0"
    assert chain.call("web3_clientVersion").startswith("ChainMemory/v")
    assert chain.call("web3_sha3", "0x68656c6c6f") == "0x" + keccak(b"hello").hex()
    assert {"eth", "net", "web3", "clique", "debug", "txpool", "rpc"} <= set(chain.call("rpc_modules"))


def test_a_blocks_hash_and_seal_can_be_checked_from_its_json_alone(chain: Chain) -> None:
    block = chain.call("eth_getBlockByNumber", "latest", False)

    def raw(name: str) -> bytes:
        return bytes.fromhex(block[name][2:])

    def number(name: str) -> bytes:
        return bytes(rlp.sedes.big_endian_int.serialize(int(block[name], 16)))

    fields = [raw(n) for n in ("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot")]
    fields += [raw("receiptsRoot"), raw("logsBloom")]
    fields += [number(n) for n in ("difficulty", "number", "gasLimit", "gasUsed", "timestamp")]
    fields += [raw("extraData"), raw("mixHash"), raw("nonce"), number("baseFeePerGas")]
    assert "0x" + keccak(rlp.encode(fields)).hex() == block["hash"]
    assert chain.call("debug_getRawHeader", block["number"]) == "0x" + rlp.encode(fields).hex()
    fields[12] = raw("extraData")[:-65]
    seal = Signature(raw("extraData")[-65:])
    signer = seal.recover_public_key_from_msg_hash(keccak(rlp.encode(fields))).to_address()
    assert chain.call("clique_getSigners") == [signer] == [chain.call("clique_getSigner", block["number"])]


def test_blocks_are_found_by_number_hash_and_tag(chain: Chain) -> None:
    block = chain.call("eth_getBlockByNumber", chain.anchors[0]["blockNumber"], False)
    assert chain.call("eth_getBlockByHash", block["hash"], False) == block
    assert chain.anchors[0]["transactionHash"] in block["transactions"]
    assert block["uncles"] == []
    full = chain.call("eth_getBlockByNumber", block["number"], True)
    assert [tx["hash"] for tx in full["transactions"]] == block["transactions"]
    raw = chain.call("debug_getRawBlock", block["hash"])
    assert int(block["size"], 16) == (len(raw) - 2) // 2
    for tag in ("latest", "safe", "finalized"):
        assert chain.call("eth_getBlockByNumber", tag, False)["number"] == chain.call("eth_blockNumber")
    genesis = chain.call("eth_getBlockByNumber", "earliest", False)
    assert genesis["number"] == "0x0"
    assert int(block["totalDifficulty"], 16) == 1 + 2 * int(block["number"], 16)
    assert chain.call("eth_getBlockByNumber", "0xffff", False) is None
    assert chain.call("eth_getBlockByHash", UNKNOWN, True) is None
    count = hex(len(block["transactions"]))
    assert chain.call("eth_getBlockTransactionCountByNumber", block["number"]) == count
    assert chain.call("eth_getBlockTransactionCountByHash", block["hash"]) == count
    assert chain.call("eth_getUncleCountByBlockNumber", block["number"]) == "0x0"
    assert chain.call("eth_getUncleCountByBlockHash", UNKNOWN) is None
    assert chain.call("eth_getUncleByBlockHashAndIndex", block["hash"], "0x0") is None
    header = chain.call("eth_getHeaderByNumber", block["number"])
    assert header["hash"] == block["hash"]
    assert "transactions" not in header


def test_transactions_of_every_type_are_shown_as_sent(chain: Chain) -> None:
    for i, kind in enumerate((2, 0, 1, 2)):
        receipt = chain.anchors[i]
        shown = chain.call("eth_getTransactionByHash", receipt["transactionHash"])
        assert shown["type"] == receipt["type"] == hex(kind)
        assert shown["from"] == SENDER
        assert shown["to"] == chain.contracts["anchor"]
        assert shown["nonce"] == hex(5 + i)
        assert shown["input"] == f"{word(i)}{i + 100:064x}"
        assert shown["chainId"] == hex(CHAIN_ID)
        assert ("maxFeePerGas" in shown) == (kind == 2)
        assert ("accessList" in shown) == (kind > 0)
        block = chain.call("eth_getBlockByHash", shown["blockHash"], False)
        base = int(block["baseFeePerGas"], 16)
        paid = base + 10**9 if kind == 2 else 10**10
        assert int(shown["gasPrice"], 16) == int(receipt["effectiveGasPrice"], 16) == paid
        place = shown["transactionIndex"]
        assert chain.call("eth_getTransactionByBlockHashAndIndex", shown["blockHash"], place) == shown
        assert chain.call("eth_getTransactionByBlockNumberAndIndex", shown["blockNumber"], place) == shown
        raw = chain.call("eth_getRawTransactionByHash", shown["hash"])
        assert "0x" + keccak(bytes.fromhex(raw[2:])).hex() == shown["hash"]
        assert chain.call("debug_getRawTransaction", shown["hash"]) == raw
    assert chain.call("eth_getTransactionByHash", UNKNOWN) is None
    assert chain.call("eth_getTransactionReceipt", UNKNOWN) is None
    assert chain.call("eth_getTransactionByBlockNumberAndIndex", "latest", "0xfff") is None
    assert chain.error("debug_getRawTransaction", UNKNOWN).message == "transaction not found"


def test_receipts_tell_gas_logs_and_status(chain: Chain) -> None:
    for i, receipt in enumerate(chain.anchors):
        assert receipt["status"] == "0x1"
        assert receipt["contractAddress"] is None
        (log,) = receipt["logs"]
        assert log["address"] == chain.contracts["anchor"]
        assert log["topics"] == ["0x" + "aa" * 32, word(i), "0x" + "00" * 12 + SENDER[2:]]
        assert log["data"] == word(i + 100)
        assert (log["blockHash"], log["transactionHash"]) == (
            receipt["blockHash"],
            receipt["transactionHash"],
        )
        together = chain.call("eth_getBlockReceipts", receipt["blockNumber"])
        assert receipt in together
        assert together == chain.call("eth_getBlockReceipts", {"blockHash": receipt["blockHash"]})
        used = [int(one["gasUsed"], 16) for one in together]
        assert [int(one["cumulativeGasUsed"], 16) for one in together] == [
            sum(used[: k + 1]) for k in range(len(used))
        ]
    assert chain.call("eth_getBlockReceipts", "0xffff") is None
    raw = chain.call("debug_getRawReceipts", chain.anchors[0]["blockNumber"])
    assert len(raw) == len(chain.call("eth_getBlockReceipts", chain.anchors[0]["blockNumber"]))


def test_state_is_read_at_any_block(chain: Chain) -> None:
    contract, number = chain.contracts["anchor"], chain.anchors[0]["blockNumber"]
    before = hex(int(number, 16) - 1)
    assert chain.call("eth_getStorageAt", contract, "0x0", "latest") == word(100)
    assert chain.call("eth_getStorageAt", contract, word(0), before) == word(0)
    assert chain.call(
        "eth_getStorageAt", contract, "0x0", {"blockHash": chain.anchors[0]["blockHash"]}
    ) == word(100)
    assert chain.call("eth_getCode", contract, "latest") == "0x" + ANCHOR.hex()
    assert chain.call("eth_getCode", contract, "earliest") == "0x"
    assert chain.call("eth_getBalance", NOBODY, "latest") == "0x0"
    assert int(chain.call("eth_getBalance", USER.address, "earliest"), 16) == 10**27
    assert int(chain.call("eth_getBalance", USER.address, "latest"), 16) < 10**27
    assert chain.call("eth_getTransactionCount", USER.address, "latest") == "0x9"
    assert chain.call("eth_getTransactionCount", USER.address, "earliest") == "0x0"
    assert chain.error("eth_getBalance", USER.address, "0xffff").message == "header not found"
    missing = chain.error("eth_getBalance", USER.address, {"blockHash": UNKNOWN})
    assert missing.message == "header for hash not found"


def test_calls_run_in_the_context_of_their_block(chain: Chain) -> None:
    def context(tag: str, **fields: str) -> list[int]:
        output = chain.call("eth_call", {"to": chain.contracts["context"], **fields}, tag)
        return [int(output[2 + 64 * i : 66 + 64 * i], 16) for i in range(7)]

    block = chain.call("eth_getBlockByNumber", "latest", False)
    number, when, sealer, base_fee, chain_id, caller, price = context("latest")
    assert (number, when) == (int(block["number"], 16), int(block["timestamp"], 16))
    assert sealer == int(chain.call("clique_getSigners")[0], 16)
    assert chain_id == CHAIN_ID
    assert (caller, price, base_fee) == (0, 0, 0)
    _, _, _, base_fee, _, caller, price = context("latest", **{"from": USER.address, "gasPrice": hex(10**10)})
    assert base_fee == int(block["baseFeePerGas"], 16)
    assert (caller, price) == (int(USER.address, 16), 10**10)
    assert context("pending")[0] == number + 1
    assert context("pending")[1] == when + 1


def test_calls_write_nothing_and_return_what_would_be(chain: Chain) -> None:
    contract = chain.contracts["anchor"]
    assert chain.call("eth_call", {"to": contract, "input": f"{word(99)}{7:064x}"}) == word(7)
    assert chain.call("eth_getStorageAt", contract, hex(99), "latest") == word(0)
    pretended = {contract: {"code": "0x" + CONTEXT.hex(), "balance": "0x1"}}
    assert len(chain.call("eth_call", {"to": contract}, "latest", pretended)) == 2 + 64 * 7
    spare = {NOBODY: {"code": "0x" + ANCHOR.hex(), "stateDiff": {word(1): word(2)}}}
    assert chain.call("eth_call", {"to": NOBODY, "data": f"{word(1)}{3:064x}"}, "latest", spare) == word(3)


def test_a_failing_call_says_why(chain: Chain) -> None:
    failure = chain.error("eth_call", {"to": chain.contracts["revert"]})
    assert (failure.code, failure.message) == (3, "execution reverted: no!")
    assert failure.data.startswith("0x08c379a0")
    assert chain.error("eth_estimateGas", {"to": chain.contracts["revert"]}).code == 3
    assert chain.error("eth_call", {"data": "0xfe"}).message == "invalid opcode"
    poor = chain.error("eth_call", {"from": NOBODY, "to": USER.address, "value": "0x1"})
    assert "insufficient funds for gas * price + value" in poor.message
    cheap = chain.error("eth_call", {"from": SENDER, "to": SENDER, "gasPrice": "0x1"})
    assert "max fee per gas less than block base fee" in cheap.message
    little = chain.error("eth_call", {"to": chain.contracts["anchor"], "gas": "0x10"})
    assert "intrinsic gas too low" in little.message
    short = chain.error("eth_call", {"to": chain.contracts["anchor"], "data": word(1), "gas": hex(22_500)})
    assert short.message == "out of gas"
    other = chain.error("eth_call", {"to": SENDER, "chainId": "0x1"})
    assert other.message == f"chainId does not match node's (have=1, want={CHAIN_ID})"


def test_estimates_are_exact(chain: Chain) -> None:
    assert chain.call("eth_estimateGas", {"from": SENDER, "to": NOBODY, "value": "0x1"}) == hex(21_000)
    fresh = {"from": SENDER, "to": chain.contracts["anchor"], "data": f"{word(500)}{7:064x}"}
    estimate = int(chain.call("eth_estimateGas", fresh), 16)
    assert chain.call("eth_call", {**fresh, "gas": hex(estimate)}) == word(7)
    assert chain.error("eth_call", {**fresh, "gas": hex(estimate - 1)}).message == "out of gas"
    again = {
        **fresh,
        "data": chain.call("eth_getTransactionByHash", chain.anchors[0]["transactionHash"])["input"],
    }
    assert int(chain.call("eth_estimateGas", again, "latest"), 16) < estimate
    deep = {"to": chain.contracts["recurse"], "gas": hex(200_000)}
    assert 21_000 < int(chain.call("eth_estimateGas", deep), 16) <= 200_000
    refused = chain.error("eth_estimateGas", {**fresh, "gas": hex(30_000)})
    assert "gas required exceeds allowance (30000)" in refused.message


def test_a_call_that_never_ends_is_ended(chain: Chain) -> None:
    assert (
        chain.error("eth_call", {"to": chain.contracts["spin"]}).message == "execution aborted (timeout = 5s)"
    )
    pairings = {"to": "0x" + "00" * 19 + "08", "data": "0x" + "00" * 192 * 100}
    assert "timeout" in chain.error("eth_call", pairings).message
    assert chain.call("eth_chainId") == hex(CHAIN_ID)


def test_proofs_lead_from_the_state_root_to_the_value(chain: Chain) -> None:
    contract = chain.contracts["anchor"]
    proof = chain.call("eth_getProof", contract, ["0x2", word(77)], "latest")
    root = bytes.fromhex(chain.call("eth_getBlockByNumber", "latest", False)["stateRoot"][2:])

    def check(root: bytes, key: bytes, nodes: list[str]) -> bytes:
        decoded = [rlp.decode(bytes.fromhex(node[2:])) for node in nodes]
        return bytes(HexaryTrie.get_from_proof(root, keccak(key), decoded))

    account = rlp.decode(check(root, bytes.fromhex(contract[2:]), proof["accountProof"]))
    assert account[2].hex() == proof["storageHash"][2:]
    assert account[3] == keccak(ANCHOR) == bytes.fromhex(proof["codeHash"][2:])
    there, absent = proof["storageProof"]
    assert (there["key"], there["value"]) == ("0x2", hex(102))
    stored = check(account[2], (2).to_bytes(32, "big"), there["proof"])
    assert int.from_bytes(rlp.decode(stored), "big") == 102
    assert absent["value"] == "0x0"
    assert check(account[2], (77).to_bytes(32, "big"), absent["proof"]) == b""
    nobody = chain.call("eth_getProof", NOBODY, [], "latest")
    assert check(root, bytes.fromhex(NOBODY[2:]), nobody["accountProof"]) == b""
    assert (nobody["balance"], nobody["nonce"]) == ("0x0", "0x0")


def test_logs_are_found_by_range_address_and_topics(chain: Chain) -> None:
    contract, everything = chain.contracts["anchor"], {"fromBlock": "0x0", "toBlock": "latest"}
    all_logs = [receipt["logs"][0] for receipt in chain.anchors]

    def logs(**criteria: Any) -> list[Any]:
        found = chain.call("eth_getLogs", {**everything, **criteria})
        assert isinstance(found, list)
        return found

    assert logs() == logs(address=contract) == logs(address=[contract, NOBODY]) == all_logs
    assert logs(address=NOBODY) == []
    assert logs(topics=["0x" + "aa" * 32]) == all_logs
    assert logs(topics=[None, word(2)]) == [all_logs[2]]
    assert logs(topics=[None, [word(1), word(3)]]) == [all_logs[1], all_logs[3]]
    assert logs(topics=[None, None, "0x" + "00" * 12 + SENDER[2:]]) == all_logs
    assert logs(topics=[[], [], []]) == all_logs
    assert logs(topics=[None] * 4) == []  # these logs have three topics
    assert logs(topics=["0x" + "bb" * 32]) == []
    first = chain.anchors[0]["blockNumber"]
    assert all_logs[0] in logs(fromBlock=first, toBlock=first)
    assert logs(fromBlock=hex(int(chain.anchors[-1]["blockNumber"], 16) + 1)) == []
    assert all_logs[0] in chain.call("eth_getLogs", {"blockHash": chain.anchors[0]["blockHash"]})
    upside_down = chain.error("eth_getLogs", {"fromBlock": "0x2", "toBlock": "0x1"})
    assert (upside_down.code, upside_down.message) == (-32000, "invalid block range params")
    assert chain.error("eth_getLogs", {"blockHash": UNKNOWN}).message == "unknown block"


def test_fees_have_a_history(chain: Chain) -> None:
    head = int(chain.call("eth_blockNumber"), 16)
    history = chain.call("eth_feeHistory", "0x3", "latest", [0, 50, 100])
    assert history["oldestBlock"] == hex(head - 2)
    assert len(history["baseFeePerGas"]) == 4
    assert len(history["gasUsedRatio"]) == 3
    shown = chain.call("eth_getBlockByNumber", hex(head), False)
    assert history["baseFeePerGas"][2] == shown["baseFeePerGas"]
    assert history["gasUsedRatio"][2] == int(shown["gasUsed"], 16) / int(shown["gasLimit"], 16)
    assert len(history["reward"]) == 3
    assert len(chain.call("eth_feeHistory", 1000, "latest", [])["gasUsedRatio"]) == head + 1
    assert chain.call("eth_feeHistory", "0x0", "latest")["gasUsedRatio"] is None
    assert "percentile" in chain.error("eth_feeHistory", "0x1", "latest", [50, 10]).message
    assert int(chain.call("eth_gasPrice"), 16) == int(history["baseFeePerGas"][3], 16) + 10**9
    assert chain.call("eth_maxPriorityFeePerGas") == hex(10**9)


def test_clique_answers_as_geth_does(chain: Chain) -> None:
    snapshot = chain.call("clique_getSnapshot")
    head = chain.call("eth_getBlockByNumber", "latest", False)
    (signer,) = chain.call("clique_getSigners", "latest")
    assert snapshot["hash"] == head["hash"]
    assert snapshot["signers"] == {signer: {}}
    assert (snapshot["votes"], snapshot["tally"]) == ([], {})
    assert chain.call("clique_getSnapshotAtHash", head["hash"]) == snapshot
    assert chain.call("clique_getSnapshot", "earliest")["votes"] is None  # as at every checkpoint
    assert chain.call("clique_getSignersAtHash", head["hash"]) == [signer]
    assert chain.call("clique_getSigners", "earliest") == [signer]
    assert chain.call("clique_proposals") == {}
    status = chain.call("clique_status")
    assert status["inturnPercent"] == 100
    assert status["sealerActivity"] == {signer: status["numBlocks"]}
    assert chain.error("clique_getSigners", "0xffff").message == "unknown block"
    assert "no signer" in chain.error("clique_getSigner", "0x0").message


def test_voting_over_rpc_is_off_unless_allowed(chain: Chain) -> None:
    for method, params in (("clique_propose", [NOBODY, True]), ("clique_discard", [NOBODY])):
        assert "switched off" in chain.error(method, *params).message
    assert chain.call("clique_proposals") == {}


def test_requests_are_answered_by_the_book(chain: Chain) -> None:
    def post(body: str) -> Any:
        status, content = chain.client.post(body.encode())
        assert status == 200
        return json.loads(content) if content else None

    def code(body: str) -> int:
        return int(post(body)["error"]["code"])

    assert code("{") == -32700
    assert code("[]") == -32600
    assert code("3") == -32600
    assert code('{"id":1,"method":"eth_chainId"}') == -32600
    assert code('{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}') == -32600
    assert code('{"jsonrpc":"2.0","id":1,"method":5}') == -32600
    assert code('{"jsonrpc":"2.0","id":1,"method":"eth_nothing"}') == -32601
    assert code('{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":{}}') == -32602
    assert code('{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[1]}') == -32602
    assert code('{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":[]}') == -32602
    assert post('{"jsonrpc":"2.0","id":"x","method":"eth_chainId"}')["id"] == "x"
    assert post('{"jsonrpc":"2.0","id":null,"method":"eth_chainId","params":null}')["id"] is None
    assert post('{"jsonrpc":"2.0","method":"eth_chainId"}') is None  # a notification
    batch = post(
        '[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","method":"eth_chainId"},7,'
        '{"jsonrpc":"2.0","id":2,"method":"nope"}]'
    )
    assert [reply.get("id") for reply in batch] == [1, None, 2]
    assert [reply.get("error", {}).get("code") for reply in batch] == [None, -32600, -32601]
    assert post('[{"jsonrpc":"2.0","method":"eth_chainId"}]') is None
    one = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
    assert len(post(f"[{','.join([one] * 1000)}]")) == 1000
    assert post(f"[{','.join([one] * 1001)}]")["error"]["message"] == "batch too large"
    assert chain.error("eth_getBalance", "0x12", "latest").message == (
        "invalid argument 0: hex string has length 2, want 40 for common.Address"
    )


def test_filters_tell_what_is_new(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "chain", alloc=[USER.address])
    try:
        client = node.start()
        deployed = client.call("eth_sendRawTransaction", sign(0, to=None, data=creation(ANCHOR), gas=300_000))
        contract = client.receipt(deployed)["contractAddress"]
        blocks, waiting = client.call("eth_newBlockFilter"), client.call("eth_newPendingTransactionFilter")
        mine = client.call("eth_newFilter", {"address": contract, "topics": [None, word(1)]})
        assert client.call("eth_getFilterChanges", mine) == []

        sent = [
            client.call("eth_sendRawTransaction", sign(1 + i, to=contract, data=f"{word(i)}{5:064x}"))
            for i in range(2)
        ]
        assert client.call("eth_getFilterChanges", waiting) == sent
        receipts = [client.receipt(tx_hash) for tx_hash in sent]
        hashes = {receipt["blockHash"] for receipt in receipts}
        assert set(client.call("eth_getFilterChanges", blocks)) == hashes
        assert client.call("eth_getFilterChanges", mine) == receipts[1]["logs"]
        assert client.call("eth_getFilterChanges", mine) == []
        assert client.call("eth_getFilterChanges", waiting) == []
        client.call("eth_newFilter", {"fromBlock": "0x0"})
        past = client.call("eth_newFilter", {"fromBlock": "0x0", "address": contract})
        assert len(client.call("eth_getFilterLogs", past)) == 2
        assert client.call("eth_uninstallFilter", mine) is True
        assert client.call("eth_uninstallFilter", mine) is False
        with pytest.raises(RpcFailure, match="filter not found"):
            client.call("eth_getFilterChanges", mine)

        # The pending view counts what waits, here for a missing nonce.
        gap = client.call("eth_sendRawTransaction", sign(9, to=contract))
        assert client.call("eth_getTransactionByHash", gap)["blockNumber"] is None
        assert client.call("txpool_status") == {"pending": "0x0", "queued": "0x1"}
        pending = client.call("eth_getBlockByNumber", "pending", False)
        head = client.call("eth_getBlockByNumber", "latest", False)
        assert pending["hash"] is None
        assert pending["parentHash"] == head["hash"]
        assert pending["transactions"] == [gap]
        assert client.call("eth_getBlockTransactionCountByNumber", "pending") == "0x1"
        assert client.call("eth_getTransactionCount", USER.address, "pending") == "0x3"
        sent = [client.call("eth_sendRawTransaction", sign(nonce, to=contract)) for nonce in range(3, 9)]
        assert client.call("eth_getTransactionCount", USER.address, "pending") == "0xa"
        wait_for(lambda: client.call("eth_getTransactionReceipt", gap), 30, "the gap's end")
    finally:
        node.ensure_gone()
