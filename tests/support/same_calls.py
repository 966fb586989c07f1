"""JSON-RPC requests, good and bad, that our node and geth answer in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eth_hash.auto import keccak

from tests.support.evm_code import CONTEXT
from tests.support.node_process import USER, sign


def same_calls(contracts: list[str], receipt: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield requests, good and bad, that both must answer in the same words."""
    anchor, revert, context = contracts
    number, block_hash, tx_hash = (receipt[key] for key in ("blockNumber", "blockHash", "transactionHash"))
    user, stranger, unknown, far = USER.address, "0x" + "ee" * 20, f"0x{4:064x}", "0xffffff"
    yield from [[name] for name in ("eth_chainId", "net_version", "eth_syncing", "net_listening", "nothing")]
    yield from [["web3_sha3", value] for value in ("0x00", "0x0", "00", 1)]
    for name in ("0x0", "earliest", far, "0x01", "0x", "1", "", 1, "0xfffffffffffffffff", "0x" + "f" * 16):
        yield ["eth_getBlockByNumber", name, False]
    yield from [["eth_getBlockByHash", name, True] for name in (block_hash, unknown, "0x12", "0x123")]
    for method in ("eth_getHeaderByNumber", "eth_getBlockTransactionCountByNumber", "eth_getBlockReceipts"):
        yield from [[method, number], [method, far]]
    yield from [["eth_getUncleCountByBlockNumber", number], ["eth_getUncleCountByBlockHash", unknown]]
    both = {"blockHash": unknown, "blockNumber": "0x1"}
    for name in (
        number,
        far,
        {"blockHash": block_hash},
        {"blockHash": unknown},
        {"blockNumber": number},
        both,
    ):
        yield ["eth_getBalance", user, name]
    yield from [["eth_getBalance", "0x12", number], ["eth_getBalance"], ["eth_getBalance", user, number, 1]]
    yield from [["eth_getCode", who, number] for who in (anchor, user)]
    yield from [["eth_getStorageAt", anchor, slot, number] for slot in ("0x1", f"0x{1:064x}", "1")]
    yield from [["eth_getTransactionCount", user, tag] for tag in (number, "pending")]
    for method in ("ByHash", "Receipt"):
        yield from [[f"eth_getTransaction{method}", name] for name in (tx_hash, unknown, "0x1")]
    for index in ("0x0", "0x99", "0x00"):
        yield ["eth_getTransactionByBlockNumberAndIndex", number, index]
    span = {"fromBlock": "0x0", "toBlock": number}
    for topics in (
        [],
        [None, f"0x{1:064x}"],
        [["0x" + "aa" * 32, unknown]],
        [None] * 4,
        [None] * 5,
        [unknown],
    ):
        yield ["eth_getLogs", {**span, "topics": topics}]
    for query in ({"fromBlock": "0x2", "toBlock": "0x1"}, {"blockHash": block_hash}, {"blockHash": unknown}):
        yield ["eth_getLogs", query]
    yield ["eth_getLogs", {"blockHash": unknown, "fromBlock": "0x1"}]
    calls: list[dict[str, Any]] = [
        {"to": anchor, "data": f"0x{1:064x}{5:064x}"},
        {"to": revert},
        {"to": context, "from": user},
        {"to": context, "from": user, "gasPrice": hex(10**10)},
        {"from": stranger, "to": user, "value": "0x1"},
        {"from": user, "to": user, "gasPrice": "0x1"},
        {"from": user, "to": user, "value": hex(10**28), "gasPrice": hex(10**10)},
        {"to": anchor, "gas": "0x10"},
        {"to": anchor, "data": f"0x{1:064x}", "gas": hex(22_500)},
        {"to": "0x12"},
        {"to": user, "data": "0x01", "input": "0x02"},
        {"to": "0x" + "00" * 19 + "08", "data": "0x" + "00" * 192},
    ]
    yield from [["eth_call", call, number] for call in calls]
    yield ["eth_call", {"to": anchor}, far]
    yield ["eth_call", {"to": anchor}, number, {anchor: {"code": "0x" + CONTEXT.hex(), "balance": "0x1"}}]
    yield from [
        ["eth_estimateGas", call, number] for call in ({"to": revert}, {"from": user, "to": stranger})
    ]
    yield from [["eth_feeHistory", "0x3", number, [10, 50]], ["eth_feeHistory", 3, number, []]]
    yield ["eth_feeHistory", "0x0", number, []]
    for who, keys in ((anchor, ["0x1", f"0x{2:064x}"]), (stranger, []), (user, ["0x0"])):
        yield ["eth_getProof", who, keys, number]
    for raw in (sign(0), "0x", "0x01", "0x0", sign(9, gas=40_000_000), sign(9, gas=100)):
        yield ["eth_sendRawTransaction", raw]
    yield ["eth_sendRawTransaction", sign(9, maxPriorityFeePerGas=10**11)]
    yield ["eth_sendRawTransaction", sign(9, value=10**28, gas=21_000)]
    yield ["eth_sendRawTransaction", sign(9, data="0x" + "00" * 131_072, gas=10_000_000)]
    # Both have nonce 20 waiting by now (see `waiting_in_both`).
    for fees in ((10**10, 10**9), (10**10 + 1, 10**9 + 1), (10**11, 10**9), (10**10, 10**10)):
        raw = sign(20, maxFeePerGas=fees[0], maxPriorityFeePerGas=fees[1])
        yield ["eth_sendRawTransaction", raw]
    yield ["eth_getTransactionByHash", keccak_of(waiting_in_both())]
    yield from [["clique_getSigners", far], ["clique_getSignersAtHash", unknown], ["clique_proposals"]]
    yield from [["eth_getFilterChanges", "0x1"], ["eth_uninstallFilter", "0x1"], ["eth_nothing"]]


def waiting_in_both() -> str:
    """Return the raw transaction, waiting for earlier nonces, that each node must be given first."""
    return sign(20, maxFeePerGas=10**10, maxPriorityFeePerGas=10**9)


def keccak_of(raw: str) -> str:
    return "0x" + keccak(bytes.fromhex(raw[2:])).hex()
