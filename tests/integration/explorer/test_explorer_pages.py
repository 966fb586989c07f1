"""The explorer's pages over real HTTP, of a real chain with real anchors."""

from __future__ import annotations

import html
import json
import re

import pytest
from eth_utils.address import to_checksum_address

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR
from chainmemory.chain.seal import read_seal
from chainmemory.chain.signer import Signer
from chainmemory.protocol.identity import account_ref
from tests.support.chains import SIGNER_KEY
from tests.support.explorer import SECRETS, VERSIONS, World
from tests.support.node_process import USER

WORKER = Signer.from_key(SIGNER_KEY).address


def authority(world: World) -> str:
    """The node's authority, from its keystore file: nothing that the RPC says."""
    keystore = json.loads((world.folder / "authority.json").read_text())
    return str(to_checksum_address(keystore["address"]))


def words(page: str) -> str:
    """A page's text without its markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def anchoring(world: World) -> str:
    """The transaction that anchored the project's newest version."""
    anchor = world.http.get("/v1/verify/payments").json()["anchors"][0]
    return str(anchor["tx_hash"])


def test_the_front_page_shows_head_signers_and_what_was_witnessed(world: World) -> None:
    page = world.text("/explorer")
    assert f'href="/explorer/block/{world.head}"' in page
    assert "Chain 20250" in page
    assert authority(world) in page
    assert "1 signer" in words(page)
    for address in world.addresses.values():
        assert address in page
    assert 'href="/explorer/project/payments"' in page
    assert f'href="/explorer/project/{world.namesake_id}"' in page
    assert "60, from number 1" in words(page)
    assert f"states in the contract {VERSIONS + 1} " in words(page)


def test_blocks_are_listed_a_page_at_a_time_down_to_the_first(world: World) -> None:
    seen: list[int] = []
    path: str | None = "/explorer/blocks"
    while path is not None:
        page = world.text(path)
        seen += [
            int(found) for found in re.findall(r'class="named strong"><a href="/explorer/block/(\d+)"', page)
        ]
        older = re.search(r'rel="next" href="([^"]+)"', page)
        path = older[1] if older else None
    assert seen == list(range(world.head, -1, -1))


def test_a_list_from_beyond_the_head_starts_at_the_head(world: World) -> None:
    page = world.text("/explorer/blocks", **{"from": "999999999999"})
    assert f'href="/explorer/block/{world.head}"' in page


def test_a_blocks_seal_is_checked_against_the_signers(world: World) -> None:
    page = world.text("/explorer/block/1")
    assert "✓ Sealed by an authority" in page
    assert authority(world) in page
    assert "the one signer that the node names after the block before" in words(page)
    assert "It was its turn, as the block says." in words(page)
    assert "✓ recomputed from the header" in page
    assert "“" not in page.split("<main")[0]
    told = world.ask("eth_getBlockByNumber", "0x1", False)
    assert read_seal(told).signer == authority(world)
    assert told["hash"] in page
    assert words(world.text(f"/explorer/block/{told['hash']}")).count(told["hash"]) >= 1


def test_the_first_block_has_no_seal_and_lists_the_signers(world: World) -> None:
    page = world.text("/explorer/block/0")
    assert "Nobody seals it" in page
    assert authority(world) in page


def test_a_last_slash_leads_to_the_front(world: World) -> None:
    answer = world.page("/explorer/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/explorer")


def test_latest_leads_to_the_head(world: World) -> None:
    answer = world.page("/explorer/block/latest")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/explorer/block/{world.head}"


def test_a_blocks_transactions_are_listed_with_what_they_do(world: World) -> None:
    number = int(world.ask("eth_getTransactionByHash", world.hostile["to nobody"])["blockNumber"], 16)
    text = words(world.text(f"/explorer/block/{number}"))
    assert "sends 0.001000000000000001 ether" in text
    assert "✗ failed" in text
    first = words(world.text("/explorer/block/1"))
    assert "creates ProjectStateAnchor" in first or "creates MemoryRegistry" in first


def test_an_anchoring_transaction_is_decoded(world: World) -> None:
    tx_hash = anchoring(world)
    page = world.text(f"/explorer/tx/{tx_hash}")
    text = words(page)
    assert "✓ Succeeded" in text
    assert "Call: anchorBatch" in text
    assert "anchorBatch((bytes32,uint64,bytes32)[])" in text
    assert f"StateAnchored version {VERSIONS} project" in text
    assert "StateAnchored" in text
    assert f'href="/explorer/project/{world.project_id}"' in page
    assert f'href="/explorer/address/{WORKER}"' in page
    assert world.addresses[STATE_ANCHOR] in page


def test_a_recording_transaction_pages_through_its_events(world: World) -> None:
    memory = world.memories[0]
    page = world.text(f"/explorer/memory/{memory['event_hash']}")
    tx_hash = re.search(r"/explorer/tx/(0x[0-9a-f]{64})", page)
    assert tx_hash is not None
    logs = world.ask("eth_getTransactionReceipt", tx_hash[1])["logs"]
    first = world.text(f"/explorer/tx/{tx_hash[1]}")
    assert f"{len(logs)} events" in first
    assert "60 elements, the first 50 shown" in words(first)
    more = re.search(r'rel="next" href="([^"]+)"', first)
    assert more is not None
    second = world.text(html.unescape(more[1]))
    assert 'start="51"' in second
    named = (
        re.findall(r"<summary><code>(\w+)</code>", first),
        re.findall(r"<summary><code>(\w+)</code>", second),
    )
    assert [len(names) for names in named] == [50, len(logs) - 50]
    assert {*named[0], *named[1]} == {"MemoryRecordedWithPayload", "BatchRecorded"}


def test_a_project_by_name_shows_every_version_as_the_contract_holds_it(world: World) -> None:
    held = world.app.site.engine.chain.contracts().anchors.state_hashes_of(world.project_id, 1, VERSIONS)
    first = world.text("/explorer/project/payments")
    second = world.text(f"/explorer/project/payments?from={VERSIONS - 25}")
    assert "✓ The contract agrees" in first
    assert "All 25 versions" in first
    assert "All 5 versions" in second
    for version, state_hash in enumerate(held, 1):
        page = first if version > VERSIONS - 25 else second
        assert state_hash in page
        assert f'<span class="strong">{version}</span>' in page
    assert f"/explorer/tx/{anchoring(world)}" in first
    assert "its event wasn’t found" not in first + second
    assert 'href="/verify/payments"' in first


def test_a_project_by_id_and_a_namesake_that_has_no_name(world: World) -> None:
    assert "All 25 versions" in world.text(f"/explorer/project/{world.project_id}")
    namesake = words(world.text(f"/explorer/project/{world.namesake_id.upper().replace('0X', '0x')}"))
    assert "The one version on this page" in namesake
    assert "payments" not in namesake


def test_a_memory_is_shown_with_its_batchs_root_recomputed(world: World) -> None:
    for memory in (world.memories[0], world.memories[59]):
        page = world.text(f"/explorer/memory/{memory['event_hash']}")
        text = words(page)
        assert "✓ Recorded" in text
        assert f"number {memory['memory_number']} of that account’s memories" in text
        assert account_ref(world.account_id) in text
        assert "✓ The root holds." in text
        assert "category DECISION" in text
        assert "of 60" in text
        root = world.app.site.engine.chain.contracts().registry.root_of(account_ref(world.account_id), 1)
        assert text.count(root) == 2


def test_addresses_say_what_they_are(world: World) -> None:
    anchors = words(world.text(f"/explorer/address/{world.addresses[STATE_ANCHOR]}"))
    assert "This deployment’s contract" in anchors
    assert "StateAnchored" in anchors
    registry = words(world.text(f"/explorer/address/{world.addresses[MEMORY_REGISTRY].lower()}"))
    assert "BatchRecorded" in registry
    worker = words(world.text(f"/explorer/address/{WORKER}"))
    assert "may write to ProjectStateAnchor and MemoryRegistry" in worker
    sealer = words(world.text(f"/explorer/address/{authority(world)}"))
    assert "may seal blocks of this chain" in sealer
    stranger = words(world.text(f"/explorer/address/{USER.address}"))
    assert "transactions sent" in stranger
    assert "may write" not in stranger


def test_a_search_finds_each_kind_of_thing(world: World) -> None:
    block = world.ask("eth_getBlockByNumber", "0x2", False)
    expected = {
        "2": "/explorer/block/2",
        block["hash"]: f"/explorer/block/{block['hash']}",
        block["hash"][2:].upper(): f"/explorer/block/{block['hash']}",
        anchoring(world): f"/explorer/tx/{anchoring(world)}",
        world.project_id: f"/explorer/project/{world.project_id}",
        " payments ": "/explorer/project/payments",
        "PAYMENTS": "/explorer/project/payments",
        world.memories[7]["event_hash"]: f"/explorer/memory/{world.memories[7]['event_hash']}",
        WORKER.lower(): f"/explorer/address/{WORKER}",
        "": "/explorer",
    }
    for query, place in expected.items():
        answer = world.page("/explorer/search", q=query)
        assert (answer.status_code, answer.headers.get("location")) == (303, place), query
        assert world.page(place).status_code == 200


def test_a_search_that_could_mean_two_things_offers_both(world: World) -> None:
    """A project may be called like a block."""
    key = world.http.post("/v1/keys", headers={"host": "localhost"}).json()["api_key"]
    made = world.http.post("/v1/projects", json={"project_id": "1"}, headers={"x-api-key": key})
    assert made.status_code in (200, 201, 409)
    page = world.text("/explorer/search", q="1")
    assert 'href="/explorer/block/1"' in page
    assert 'href="/explorer/project/1"' in page


@pytest.mark.parametrize(
    "path",
    [
        "/explorer/nope",
        "/explorer/a/b",
        "/explorer/a/b/c",
        "/explorer/a/b/c/d",
        "/explorer/block/99999999",
        "/explorer/block/0x" + "12" * 32,
        "/explorer/block/soup",
        "/explorer/tx/0x" + "12" * 32,
        "/explorer/tx/12",
        "/explorer/project/nobody-has-this",
        "/explorer/project/0x" + "12" * 32,
        "/explorer/memory/0x" + "12" * 32,
        "/explorer/memory/12",
        "/explorer/address/12",
        "/explorer/search?q=nothing-like-it",
        "/explorer/search?q=0x" + "12" * 32,
        "/explorer/search?q=99999999",
        "/explorer/blocks?from=soup",
    ],
)
def test_what_is_not_there_is_a_page_that_says_what_to_do(world: World, path: str) -> None:
    answer = world.page(path)
    assert answer.status_code == 404, answer.text[:300]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "You can search for:" in answer.text
    assert 'action="/explorer/search"' in answer.text


def test_no_page_tells_plaintext_or_where_the_node_is(world: World) -> None:
    paths = [
        "/explorer",
        "/explorer/blocks",
        "/explorer/block/1",
        f"/explorer/tx/{anchoring(world)}",
        *(f"/explorer/tx/{tx_hash}" for tx_hash in world.hostile.values()),
        "/explorer/project/payments",
        f"/explorer/memory/{world.memories[0]['event_hash']}",
        f"/explorer/address/{world.addresses[MEMORY_REGISTRY]}",
        "/explorer/nope",
    ]
    door_port = world.door.url.rsplit(":", 1)[1].split("/")[0]
    for path in paths:
        text = world.page(path).text
        assert "Unsayable" not in text, path
        assert not [secret for secret in (*SECRETS, f":{door_port}") if secret in text], path
        assert world.account_id not in text, path
