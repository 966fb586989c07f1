"""Other nodes than ours: those that lack a method, bound a query, lie, answer nonsense, or nothing at all."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.engine.explorer import MOST_VISITS
from chainmemory.engine.explorer.memo import Memo
from chainmemory.engine.explorer.reader import Reader
from chainmemory.engine.explorer.scan import FIRST, MAX_QUERIES, Pace, look_back
from tests.support.api import running_api
from tests.support.chains import SIGNER_KEY, Door, error, result
from tests.support.explorer import SECRETS, World, explorer_on

pytestmark = pytest.mark.usefixtures("forgetful")

Request = dict[str, Any]
TOPIC = "0x" + "77" * 32


def lacks(*methods: str) -> Callable[[Request], tuple[int, bytes] | None]:
    """A node that doesn't offer these methods."""

    def behave(request: Request) -> tuple[int, bytes] | None:
        if request["method"] in methods:
            return error(request, f"the method {request['method']} does not exist/is not available", -32601)
        return None

    return behave


def changed(
    world: World, method: str, change: Callable[[Any, Request], Any]
) -> Callable[[Request], tuple[int, bytes] | None]:
    """A node that changes its answers to one method."""

    def behave(request: Request) -> tuple[int, bytes] | None:
        if request["method"] != method:
            return None
        return result(request, change(world.ask(request["method"], *request["params"]), request))

    return behave


def headers(**fields: str) -> Callable[[Any, Request], Any]:
    return lambda block, request: {**block, **fields} if block else block


def test_a_node_that_does_not_name_its_signers(world: World) -> None:
    world.door.behave = lacks("clique_getSigners")
    page = world.text("/explorer/block/1")
    assert "✓ Sealed by an authority" in page
    assert "that the genesis block lists; the node doesn’t say who may sign now" in page
    assert "these are the signers that the genesis block lists" in world.text("/explorer")


def test_a_node_without_block_receipts(world: World) -> None:
    world.door.behave = lacks("eth_getBlockReceipts")
    assert "not told" in world.text("/explorer/block/1")


def test_a_node_without_logs_still_shows_what_the_contract_holds(world: World) -> None:
    world.door.behave = lacks("eth_getLogs")
    page = world.text("/explorer/project/payments")
    assert "✓ The contract agrees" in page
    assert "The node doesn’t answer eth_getLogs" in page
    memory = world.text(f"/explorer/memory/{world.memories[0]['event_hash']}")
    assert "The node doesn’t answer eth_getLogs" in memory
    assert "trust the chain" not in memory.lower()
    assert "The node doesn’t answer eth_getLogs" in world.text(
        f"/explorer/address/{world.addresses[STATE_ANCHOR]}"
    )
    assert world.page("/explorer").status_code == 200


def test_a_node_that_bounds_a_query_to_three_blocks(world: World) -> None:
    """As free plans of RPC providers do: found all the same, in small windows."""
    asked: list[int] = []

    def behave(request: Request) -> tuple[int, bytes] | None:
        if request["method"] != "eth_getLogs":
            return None
        query = request["params"][0]
        width = int(query["toBlock"], 16) - int(query["fromBlock"], 16) + 1
        asked.append(width)
        return error(request, "query exceeds max block range 3", -32005) if width > 3 else None

    world.door.behave = behave
    page = world.text(f"/explorer/address/{world.addresses[STATE_ANCHOR]}")
    seen = set(re.findall(r"/explorer/tx/0x[0-9a-f]{64}", page))
    for _ in range(20):
        more = re.search(r'rel="next" href="([^"]+)"', page)
        if more is None:
            break
        asked.clear()
        page = world.text(more[1])
        assert len(asked) <= MAX_QUERIES
        seen |= set(re.findall(r"/explorer/tx/0x[0-9a-f]{64}", page))
    world.door.behave = lambda request: None
    address = world.addresses[STATE_ANCHOR]
    logs = world.ask("eth_getLogs", {"address": address, "fromBlock": "0x0", "toBlock": "latest"})
    assert seen == {f"/explorer/tx/{log['transactionHash']}" for log in logs}


def test_a_lying_node_is_found_out_by_the_seal(world: World) -> None:
    world.door.behave = changed(world, "eth_getBlockByNumber", headers(gasUsed="0x7"))
    page = world.text("/explorer/block/1")
    assert "✗ The seal is broken" in page
    assert "✓ recomputed" not in page


def test_a_block_that_no_signer_sealed_is_named(world: World) -> None:
    world.door.behave = changed(world, "clique_getSigners", lambda signers, request: ["0x" + "12" * 20])
    page = world.text("/explorer/block/1")
    assert "✗ Sealed by a stranger" in page
    assert "✓ Sealed" not in page


def test_a_chain_without_clique_says_so(world: World) -> None:
    plain = headers(difficulty="0x0", extraData="0x", mixHash="0x" + "ab" * 32)
    world.door.behave = changed(world, "eth_getBlockByNumber", plain)
    page = world.text("/explorer/block/1")
    assert "No seal to check" in page
    assert "made by, as it says" in page
    world.door.behave = lambda request: (
        lacks("clique_getSigners")(request) or changed(world, "eth_getBlockByNumber", plain)(request)
    )
    home = world.text("/explorer")
    assert "carry no Clique seal" in home
    assert "no seal" in home


def test_times_that_no_calendar_has_are_numbers(world: World) -> None:
    world.door.behave = changed(world, "eth_getBlockByNumber", headers(timestamp="0x" + "f" * 64))
    assert "which is no date" in world.text("/explorer/block/1")
    assert "no time" in world.text("/explorer/blocks")


def test_a_hash_that_differs_on_the_chain_is_named(world: World) -> None:
    def lie(answer: Any, request: Request) -> Any:
        # stateHashesOf answers a list; change its last hash.
        return answer[:-64] + "5" * 64 if len(answer) > 2 + 64 * 5 else answer

    world.door.behave = changed(world, "eth_call", lie)
    page = world.text("/explorer/project/payments")
    assert "✗ Differs" in page
    assert "Trust the contract, not this server" in page
    assert "0x" + "5" * 64 in page


def test_an_event_that_is_not_where_the_server_says_is_named(world: World) -> None:
    world.door.behave = changed(world, "eth_getLogs", lambda logs, request: [])
    page = world.text("/explorer/project/payments")
    assert "where this server says" in page
    memory = world.text(f"/explorer/memory/{world.memories[0]['event_hash']}")
    assert "✗ Not on the chain" in memory


def test_a_batch_whose_logged_hashes_give_another_root_is_named(world: World) -> None:
    def drop_one(receipt: Any, request: Request) -> Any:
        logs = [
            {**log, "topics": [*log["topics"][:3], TOPIC]} if at == 5 else log
            for at, log in enumerate(receipt["logs"])
        ]
        return {**receipt, "logs": logs}

    world.door.behave = changed(world, "eth_getTransactionReceipt", drop_one)
    assert "✗ Recorded, but its batch’s root is wrong" in world.text(
        f"/explorer/memory/{world.memories[0]['event_hash']}"
    )


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"<html>it works!</html>"),
        (200, b""),
        (200, b"[]"),
        (200, b'{"jsonrpc":"2.0","id":1}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":[]}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":"0x"}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":7}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":null}'),
        (200, b'{"jsonrpc":"2.0","id":1,"error":"no"}'),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":{"a":1}}}'),
        (200, b"\xff\xfe"),
        (401, b"unauthorized"),
        (429, b"slow down"),
        (500, b"<html>crash</html>"),
    ],
    ids=range(15),
)
def test_a_node_that_answers_nonsense_is_a_503_page(world: World, answer: tuple[int, bytes]) -> None:
    world.door.behave = lambda request: answer
    for path in (
        "/explorer",
        "/explorer/block/1",
        "/explorer/project/payments",
        "/explorer/search?q=payments",
    ):
        page = world.page(path)
        assert page.status_code == 503, f"{path}: {page.status_code}"
        assert "The chain can’t be reached" in page.text
        assert page.headers["retry-after"] == "5"
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert not [secret for secret in SECRETS if secret in page.text]


NONSENSE = [None, 7, "0x" + "f" * 1_000, [], {"hash": "0x12"}]
BLOCK, TX, PROJECT, MEMORY, ADDRESS, SEARCH = "block", "tx", "project", "memory", "address", "search"
USED = {
    "clique_getSigners": [BLOCK, ADDRESS],
    "eth_call": [PROJECT, MEMORY, TX, SEARCH],
    "eth_chainId": ["home"],
    "eth_getBalance": [ADDRESS],
    "eth_getBlockByHash": [SEARCH],
    "eth_getBlockByNumber": ["home", BLOCK, PROJECT],
    "eth_getBlockReceipts": [BLOCK],
    "eth_getCode": [ADDRESS],
    "eth_getLogs": ["home", PROJECT, MEMORY, ADDRESS],
    "eth_getTransactionByHash": [TX, SEARCH],
    "eth_getTransactionCount": [ADDRESS],
    "eth_getTransactionReceipt": [TX, MEMORY],
}


@pytest.mark.parametrize("method", USED)
def test_nonsense_from_any_one_method_is_never_a_crash(world: World, method: str) -> None:
    paths = {
        "home": "/explorer",
        BLOCK: "/explorer/block/1",
        TX: f"/explorer/tx/{world.hostile['may not write']}",
        PROJECT: "/explorer/project/payments",
        MEMORY: f"/explorer/memory/{world.memories[0]['event_hash']}",
        ADDRESS: f"/explorer/address/{world.addresses[STATE_ANCHOR]}",
        SEARCH: "/explorer/search?q=0x" + "12" * 32,
    }
    engine = world.app.site.engine
    used = False
    for value in NONSENSE:
        world.door.behave = lambda request, value=value: (
            result(request, value) if request["method"] == method else None
        )
        for page in USED[method]:
            engine.explorer._memo = Memo()
            world.door.requests.clear()
            status = world.page(paths[page]).status_code
            assert status in (200, 404, 503), f"{method} says {value!r}: {page} is {status}"
            used |= method in world.door.requests
    assert used, f"no page used {method}"


def test_a_block_that_the_chain_left_says_so(world: World) -> None:
    """After a reorganisation a node may keep a block by its hash that is no longer on the chain."""
    left = world.ask("eth_getBlockByNumber", "0x2", False)["hash"]
    world.door.behave = changed(world, "eth_getBlockByNumber", headers(hash="0x" + "12" * 32))
    page = world.text(f"/explorer/block/{left}")
    assert "✗ Not on the chain" in page
    assert "✓ Sealed by an authority" in page


def test_a_server_without_contracts_names_others_by_their_code(world: World, tmp_path: Path) -> None:
    """Nothing deployed here: what lies on the chain is still read, and said to be somebody else's."""
    anchor = world.http.get("/v1/verify/payments").json()["anchors"][0]
    with explorer_on(world.rpc, tmp_path / "other", Signer.from_key(SIGNER_KEY)) as other:
        assert "No contracts are deployed on this chain yet." in other.text("/explorer")
        page = other.text(f"/explorer/tx/{anchor['tx_hash']}")
        assert "ProjectStateAnchor of another deployment" in page
        assert "<code>StateAnchored</code>" in page
        address = other.text(f"/explorer/address/{world.addresses[STATE_ANCHOR]}")
        assert "The same code, another deployment" in address
        assert "✓ This deployment" not in address
        for path in (f"project/{world.project_id}", f"memory/{world.memories[0]['event_hash']}"):
            assert other.page(f"/explorer/{path}").status_code == 404


def test_a_server_that_knows_only_the_contracts_finds_everything_on_the_chain(
    world: World, tmp_path: Path
) -> None:
    """An empty store: anchors and memories are found by looking back through the logs alone."""
    given = {
        "anchor_address": world.addresses[STATE_ANCHOR],
        "registry_address": world.addresses[MEMORY_REGISTRY],
    }
    memory = world.memories[5]["event_hash"]
    with explorer_on(world.rpc, tmp_path / "other", Signer.from_key(SIGNER_KEY), **given) as other:
        project = other.text(f"/explorer/project/{world.project_id}")
        assert "On the chain alone" in project
        assert "doesn’t know it" in project
        assert project.count("/explorer/tx/0x") == 25
        for query, kind in ((world.project_id, "project"), (memory, "memory")):
            found = other.page("/explorer/search", q=query)
            assert found.headers["location"] == f"/explorer/{kind}/{query}"
        assert "✓ The root holds." in other.text(f"/explorer/memory/{memory}")
        gone = other.page(f"/explorer/memory/{memory}", until="0")
        assert gone.status_code == 404
        assert "up to block 0" in gone.text


def test_a_slow_node_does_not_hold_up_every_page(world: World) -> None:
    """So many pages read the chain at once; the next ones are told to come back, at once."""
    goes_on = threading.Event()

    def slowly(request: Request) -> tuple[int, bytes] | None:
        if request["method"] == "eth_getBlockByNumber":
            goes_on.wait(20)
        return None

    world.door.behave = slowly

    def load(number: int) -> tuple[int, str]:
        answer = world.http.get(f"/explorer/block/{number}")
        return answer.status_code, answer.text

    with ThreadPoolExecutor(MOST_VISITS + 3) as pool:
        loading = [pool.submit(load, number) for number in range(1, MOST_VISITS + 4)]
        try:
            # While the node still thinks: those that may wait for it do, the others have their answer.
            busy = [one.result() for one in itertools.islice(as_completed(loading, timeout=20), 3)]
            assert all(status == 503 and "Busy" in text for status, text in busy)
            assert world.http.get("/healthz").status_code == 200
        finally:
            goes_on.set()


def test_without_any_node_the_page_says_so(tmp_path: Path) -> None:
    with running_api(tmp_path, rpc_url="http://127.0.0.1:9/hunter22") as api:
        page = api.http.get("/explorer/project/payments")
        assert page.status_code == 503
        assert "The chain can’t be reached" in page.text
        assert "hunter22" not in page.text
        assert "127.0.0.1" not in page.text


def test_too_many_requests_are_refused_by_a_page(tmp_path: Path) -> None:
    with running_api(
        tmp_path, rpc_url="http://127.0.0.1:9/", public_rate_burst=2, public_rate_per_minute=1
    ) as api:
        pages = [api.http.get("/explorer") for _ in range(3)]
        assert [page.status_code for page in pages] == [503, 503, 429]
        assert "Too many pages at once" in pages[2].text
        assert int(pages[2].headers["retry-after"]) > 1
        assert pages[2].headers["content-type"] == "text/html; charset=utf-8"


def test_a_look_back_over_a_long_chain_asks_a_bounded_number_of_times() -> None:
    """Ten million blocks without a log: so many queries and no more, and a place to go on from."""
    door = Door("http://127.0.0.1:9/")
    widths: list[int] = []

    def behave(request: Request) -> tuple[int, bytes]:
        query = request["params"][0]
        widths.append(int(query["toBlock"], 16) - int(query["fromBlock"], 16) + 1)
        return result(request, [])

    door.behave = behave
    with ThreadPoolExecutor(1) as pool:
        reader = Reader(Gateway(door.url), pool, Memo())
        pace = Pace()
        scan = look_back(reader, pace, "0x" + "ab" * 20, [TOPIC], top=10_000_000, floor=0, want=1)
    door.close()
    assert len(widths) == MAX_QUERIES
    assert widths[0] == FIRST
    assert scan.next == 10_000_000 - sum(widths)
    assert (scan.complete, scan.refused, scan.last) == (False, False, 10_000_000)
    assert pace.width > FIRST
