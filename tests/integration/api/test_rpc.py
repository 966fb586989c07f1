"""`POST /rpc`: the embedded chain's read methods and eth_sendRawTransaction, bounded, on a real node."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.routes import rpc
from api.routes.rpc import MAX_BATCH
from api.turns import Turns
from chainmemory.node.rpc.dispatch import METHODS, QUICK_BATCH
from tests.support.api import Api, refused, running_api
from tests.support.chains import Door, embedded_node
from tests.support.node_process import CHAIN_ID, USER, sign


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("rpc")
    with (
        embedded_node(folder / "chain", alloc=(USER.address,)) as node,
        running_api(folder, chain_port=node.port) as running,
    ):
        yield running


def _ask(api: Api, method: str, *params: Any, request_id: Any = 1) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": list(params)}
    answer = api.http.post("/rpc", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_reading_works(api: Api) -> None:
    assert _ask(api, "eth_chainId") == {"jsonrpc": "2.0", "id": 1, "result": hex(CHAIN_ID)}
    assert int(_ask(api, "eth_blockNumber", request_id="x")["result"], 16) >= 0
    assert int(_ask(api, "eth_getBalance", USER.address, "latest")["result"], 16) > 0


def test_a_signed_transaction_is_passed_on(api: Api) -> None:
    answer = _ask(api, "eth_sendRawTransaction", sign(0))
    assert answer["result"].startswith("0x")
    again = _ask(api, "eth_sendRawTransaction", "0x1234")
    assert "error" in again


@pytest.mark.parametrize(
    "method",
    [
        "eth_sendTransaction",
        "eth_sign",
        "eth_accounts",
        "personal_unlockAccount",
        "clique_propose",
        "clique_discard",
        "admin_addPeer",
        "debug_traceTransaction",
        "txpool_content",
        "miner_start",
        "nonsense",
        "",
    ],
)
def test_what_is_not_offered_is_not_passed_on(api: Api, method: str) -> None:
    answer = _ask(api, method, request_id=7)
    assert answer["id"] == 7
    assert answer["error"]["code"] == -32601


def test_a_batch_is_answered_and_bounded(api: Api) -> None:
    batch = [{"jsonrpc": "2.0", "id": n, "method": "eth_chainId", "params": []} for n in range(MAX_BATCH)]
    batch[3]["method"] = "eth_sign"
    told = api.http.post("/rpc", json=batch).json()
    by_id = {one["id"]: one for one in told}
    assert len(by_id) == MAX_BATCH
    assert by_id[3]["error"]["code"] == -32601
    assert by_id[4]["result"] == hex(CHAIN_ID)
    for size in (0, MAX_BATCH + 1):
        told = api.http.post("/rpc", json=[batch[0]] * size).json()
        assert told["error"]["code"] == -32600


@pytest.mark.parametrize(
    "body", ["7", '"x"', "null", "[7]", "{}", '{"jsonrpc": "2.0", "id": 1, "method": 5}']
)
def test_what_is_no_request_is_said_so(api: Api, body: str) -> None:
    told = api.http.post("/rpc", content=body).json()
    told = told[0] if isinstance(told, list) else told
    assert (told["id"], told["error"]["code"]) == (None, -32600)


def test_what_is_no_json_is_refused_as_everywhere(api: Api) -> None:
    refused(api.http.post("/rpc", content=b"{"), 422, "invalid_json")
    refused(api.http.post("/rpc", content=b"x" * (2 * 1024 * 1024 + 1)), 413, "too_large")


@pytest.mark.parametrize("method", ["eth_chainId", "nonsense"])
def test_a_notification_is_never_answered(api: Api, method: str) -> None:
    notification = {"jsonrpc": "2.0", "method": method}
    for body in (notification, [notification] * 2):
        answer = api.http.post("/rpc", json=body)
        assert (answer.status_code, answer.content) == (204, b"")
        assert not {"content-type", "content-length"} & answer.headers.keys()
    told = api.http.post("/rpc", json=[notification, {**notification, "id": 5}]).json()
    assert [one["id"] for one in told] == [5]


SPIN = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{"data": "0x5b600056"}]}


def test_calls_without_end_are_few_at_once_and_keep_nobody_from_the_chain(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rpc._HEADERS, "x-rpc-seconds", "1")
    monkeypatch.setattr(api.app.site, "rpc_turns", Turns(2, wait_s=1.5, most_waiting=8))
    answers: list[Any] = []
    batch = [{**SPIN, "id": n} for n in range(MAX_BATCH)]
    threads = [
        threading.Thread(target=lambda body=body: answers.append(api.http.post("/rpc", json=body)))
        for body in [SPIN, batch] * 8
    ]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert "result" in _ask(api, "eth_blockNumber")
        assert api.http.get("/v1/chain").json()["reachable"] is True
    for thread in threads:
        thread.join()
    by_status = Counter(answer.status_code for answer in answers)
    assert by_status[200] + by_status[429] == len(threads)
    assert min(by_status[200], by_status[429]) >= 1
    for answer in answers:
        if answer.status_code == 429:
            assert (
                int(answer.headers["retry-after"])
                == refused(answer, 429, "rate_limited")["details"]["retry_after"]
            )
        else:
            told = answer.json()
            first, *rest = told if isinstance(told, list) else [told]
            assert first["error"]["message"] == "execution aborted (timeout = 1s)"
            assert {one["error"]["code"] for one in rest} <= {-32002}
    assert "result" in _ask(api, "eth_call", {"to": USER.address})  # the turns were given back


def test_a_call_has_less_gas_here_than_the_node_gives(api: Api) -> None:
    gas = {"data": "0x5a60005260206000f3", "gas": hex(30_000_000)}  # returns the gas that is left
    assert rpc.CALL_GAS * 0.9 < int(_ask(api, "eth_call", gas)["result"], 16) < rpc.CALL_GAS
    told = _ask(api, "eth_estimateGas", {"data": "0x63ffffffff51"})["error"]["message"]
    assert told == f"gas required exceeds allowance ({rpc.CALL_GAS})"


def test_what_waits_for_a_turn_is_what_the_node_knows_to_be_slow() -> None:
    slow = {name for name, method in METHODS.items() if method.slow}
    assert slow & rpc.METHODS == rpc.SLOW
    assert QUICK_BATCH == rpc.QUICK_BATCH


def test_the_chain_route_names_signers_and_block_time(api: Api) -> None:
    found = api.http.get("/v1/chain").json()
    assert (found["chain_id"], found["reachable"], len(found["signers"])) == (CHAIN_ID, True, 1)
    assert found["rpc"] == "http://localhost:8420/rpc"


def test_a_node_that_misbehaves_is_unavailable_and_no_500(tmp_path: Path) -> None:
    door = Door("http://127.0.0.1:9")
    port = int(door.url.rsplit(":", 1)[1].split("/")[0])
    try:
        with running_api(tmp_path, chain_port=port) as api:
            body = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}
            for status, said in ((200, b"<html>"), (500, b"{}"), (404, b""), (200, b"\xff\xfe")):
                door.answer = lambda _, status=status, said=said: (status, said)  # type: ignore[method-assign,misc]
                refused(api.http.post("/rpc", json=body), 503, "chain_unavailable")
                assert api.http.get("/v1/chain").json()["reachable"] is False
    finally:
        door.close()
