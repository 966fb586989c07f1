"""One answer of eth_getLogs is bounded; the refusal says which blocks would fit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainmemory.node.config import NodeConfig
from chainmemory.node.database import open_connection
from chainmemory.node.formats import contract_address
from chainmemory.node.rpc import dispatch, eth_logs
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.dispatch import answer
from chainmemory.node.rpc.errors import RpcError
from chainmemory.node.rpc.filters import Filters
from tests.support.clique_chains import ChainFile, authority_keys, make_genesis
from tests.support.evm_code import ANCHOR, creation
from tests.support.node_process import sign

KEYS = authority_keys(1)
BLOCKS, EACH = 4, 3
"""Blocks with logs (2 to 5), and logs in each."""
DATA_BYTES = 32
ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) SELECT max(i) FROM n"
)


class Logs:
    """A chain with a few logs in each block, asked as the node is asked."""

    def __init__(self, folder: Path) -> None:
        chain = ChainFile(folder / "chain.sqlite", make_genesis(KEYS))
        chain.offer(sign(0, to=None, data=creation(ANCHOR), gas=300_000))
        self.contract = "0x" + contract_address(chain.seal(KEYS[0]).transactions[0]).hex()
        nonce = 1
        for _ in range(BLOCKS):
            chain.offer(
                *(sign(nonce + i, to=self.contract, data=f"0x{nonce + i:064x}{7:064x}") for i in range(EACH))
            )
            nonce += EACH
            assert len(chain.seal(KEYS[0]).transactions) == EACH
        self.chain = chain
        self.context = Context(
            open_connection(chain.path, read_only=True),
            chain.store.genesis,
            NodeConfig(data_dir=folder, port=1),
            self._nothing,
            self._nothing,
            Filters(),
        )

    @staticmethod
    def _nothing(*_: Any) -> Any:
        raise AssertionError("reading logs writes nothing")

    def ask(self, method: str, *params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        reply = json.loads(answer(self.context, json.dumps(request).encode(), float("inf")))
        assert isinstance(reply, dict)
        return reply

    def get(self, first: int, last: int) -> dict[str, Any]:
        return self.ask("eth_getLogs", {"fromBlock": hex(first), "toBlock": hex(last)})

    def close(self) -> None:
        self.context.connection.close()
        self.chain.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logs]:
    made = Logs(tmp_path_factory.mktemp("logs"))
    yield made
    made.close()


def test_the_bounds_are_those_of_the_documents() -> None:
    assert (eth_logs.MOST_LOGS, eth_logs.MOST_LOG_BYTES) == (10_000, 10 * 1024 * 1024)


def test_as_many_as_the_bound_are_answered_and_one_more_is_refused(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eth_logs, "MOST_LOGS", 2 * EACH)
    assert len(logs.get(2, 3)["result"]) == 2 * EACH
    error = logs.get(2, 5)["error"]
    assert error["code"] == -32005
    assert error["message"].startswith("query returned more than 6 results")
    assert error["data"] == {"from": "0x2", "to": "0x3", "limit": 6}
    assert len(logs.get(int(error["data"]["from"], 16), int(error["data"]["to"], 16))["result"]) == 2 * EACH


def test_the_bytes_of_an_answer_are_bounded_too(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(len(log["data"]) // 2 - 1 for log in logs.get(2, 2)["result"])
    assert size == EACH * DATA_BYTES
    monkeypatch.setattr(eth_logs, "MOST_LOG_BYTES", 3 * size)
    assert len(logs.get(2, 4)["result"]) == 3 * EACH
    assert logs.get(2, 5)["error"]["data"]["to"] == "0x4"


def test_a_filter_answers_within_the_same_bound(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    made = logs.ask("eth_newFilter", {"fromBlock": "0x0", "address": logs.contract})["result"]
    assert len(logs.ask("eth_getFilterLogs", made)["result"]) == BLOCKS * EACH
    monkeypatch.setattr(eth_logs, "MOST_LOGS", EACH)
    assert logs.ask("eth_getFilterLogs", made)["error"]["data"]["to"] == "0x2"


def test_alternatives_in_a_query_are_bounded(logs: Logs) -> None:
    many = [f"0x{i:064x}" for i in range(eth_logs.MOST_ALTERNATIVES + 1)]
    assert "at most 1000 topics" in logs.ask("eth_getLogs", {"topics": [many]})["error"]["message"]
    assert logs.ask("eth_getLogs", {"topics": [many[:-1]]})["result"] == []
    addresses = [topic[:42] for topic in many]
    assert "at most 1000 addresses" in logs.ask("eth_getLogs", {"address": addresses})["error"]["message"]


def test_a_search_that_takes_too_long_ends(logs: Logs) -> None:
    began = time.monotonic()
    logs.context.deadline = began + 0.1
    with pytest.raises(RpcError, match="timed out") as refused:
        dispatch._guarded("eth_getLogs", lambda: logs.context.connection.execute(ENDLESS).fetchone())
    assert refused.value.code == -32002
    assert time.monotonic() - began < 5
    assert logs.ask("eth_chainId")["result"]  # the connection is as good as before
