"""Whatever a request holds, the answer is JSON-RPC and never says "internal error"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainmemory.node.admission import Refused, read_transaction
from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.formats import contract_address
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.dispatch import answer
from chainmemory.node.rpc.filters import Filters
from chainmemory.node.rpc.registry import METHODS
from tests.support.clique_chains import ChainFile, authority_keys, make_genesis
from tests.support.evm_code import ANCHOR, creation
from tests.support.node_process import CHAIN_ID, USER, sign

KEYS = authority_keys(1)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    folder = tmp_path_factory.mktemp("dispatch")
    chain = ChainFile(folder / "chain.sqlite", make_genesis(KEYS))
    chain.offer(sign(0, to=None, data=creation(ANCHOR), gas=300_000))
    block = chain.seal(KEYS[0])
    contract = "0x" + contract_address(block.transactions[0]).hex()
    chain.offer(sign(1, to=contract, data="0x" + "01" * 64), sign(2, to=contract))
    chain.seal(KEYS[0])
    chain.offer(sign(9))

    def submit(raw: bytes) -> Future[bytes]:
        future: Future[bytes] = Future()
        future.set_result(read_transaction(raw, CHAIN_ID).hash)
        return future

    def write(_change: Any) -> None:
        raise Refused("not in this test")

    config = NodeConfig(data_dir=folder, port=1, votes_over_rpc=True)
    connection = open_connection(chain.path, read_only=True)
    made = Context(connection, chain.store.genesis, config, submit, write, Filters())
    made.known = [contract, USER.address, "0x" + block.hash.hex(), "0x" + block.transactions[0].hash.hex()]  # type: ignore[attr-defined]
    yield made
    connection.close()
    chain.close()


SPECIAL = [
    "latest",
    "pending",
    "earliest",
    "0x",
    "0x0",
    "0x1",
    "0x2",
    "0x3",
    "0xffffffffffffffff",
    "0x" + "f" * 64,
    "0x" + "0" * 40,
    "0x" + "0" * 63 + "1",
    "0x" + "ab" * 33,
    sign(3),
    -1,
    2**70,
    1.5,
    True,
    None,
    "",
    [],
]
MEMBERS = [
    "from",
    "to",
    "gas",
    "value",
    "data",
    "input",
    "gasPrice",
    "maxFeePerGas",
    "accessList",
    "address",
    "topics",
    "fromBlock",
    "toBlock",
    "blockHash",
    "blockNumber",
    "storageKeys",
    "balance",
    "code",
    "stateDiff",
    "state",
    "nonce",
    "requireCanonical",
    "KNOWN0",
]
VALUES = st.recursive(
    st.sampled_from(SPECIAL) | st.text(max_size=8) | st.integers(0, 3).map(lambda i: f"KNOWN{i}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=6,
)


@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(METHODS)), params=st.lists(VALUES, max_size=4))
def test_any_parameters_get_a_proper_answer(context: Context, name: str, params: list[Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": params})
    for i, known in enumerate(context.known):  # type: ignore[attr-defined]
        body = body.replace(f"KNOWN{i}", known)
    reply = orjson.loads(answer(context, body.encode(), float("inf")))
    assert reply["jsonrpc"] == "2.0"
    if "error" in reply:
        assert reply["error"]["code"] != -32603, (name, params, reply)
        assert reply["error"]["message"]
    else:
        assert "result" in reply


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_get_a_proper_answer(context: Context, body: bytes) -> None:
    reply = answer(context, body, float("inf"))
    for one in [orjson.loads(reply)] if reply[:1] == b"{" else orjson.loads(reply or b"[]"):
        assert one["error"]["code"] in (-32700, -32600)
