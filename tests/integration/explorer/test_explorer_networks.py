"""The explorer on other nodes than ours: anvil, which seals nothing, and geth with three Clique signers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.chain.artifacts import STATE_ANCHOR
from chainmemory.chain.seal import read_seal
from tests.support.explorer import World, explorer_on, remember_little
from tests.support.networks import Anvil, GethClique, Network

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(
    params=[pytest.param(Anvil, marks=pytest.mark.node), pytest.param(GethClique, marks=pytest.mark.geth)],
    ids=["anvil", "geth"],
)
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Network]:
    made: Network = request.param(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


def words(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def test_every_page_reads_another_node(network: Network, tmp_path: Path) -> None:
    with explorer_on(network.gateway, tmp_path / "home", network.signer) as world:
        remember_little(world)
        anchor = world.http.get("/v1/verify/payments").json()["anchors"][0]
        block = world.text(f"/explorer/block/{anchor['block_number']}")
        _check_seal(world, network, block, anchor["block_number"])
        assert "✓ recomputed from the header" in block
        assert "anchorBatch" in words(block)
        assert "✓ succeeded" in words(block)

        transaction = words(world.text(f"/explorer/tx/{anchor['tx_hash']}"))
        assert "Call: anchorBatch" in transaction
        assert "StateAnchored" in transaction
        project = words(world.text("/explorer/project/payments"))
        assert "✓ The contract agrees" in project
        assert f"block {anchor['block_number']}" in project.replace(",", "")
        memory = words(world.text(f"/explorer/memory/{world.memories[1]['event_hash']}"))
        assert "✓ Recorded" in memory
        assert "✓ The root holds." in memory
        contract = words(world.text(f"/explorer/address/{world.addresses[STATE_ANCHOR]}"))
        assert "This deployment’s contract" in contract
        assert "StateAnchored" in contract

        home = words(world.text("/explorer"))
        assert f"{network.signers or 'no'} signers" in home or "carry no Clique seal" in home
        for path in ("/explorer/block/999999999", "/explorer/tx/0x" + "12" * 32, "/explorer/search?q=nobody"):
            assert world.page(path).status_code == 404


def _check_seal(world: World, network: Network, page: str, number: int) -> None:
    told = world.ask("eth_getBlockByNumber", hex(number), False)
    if not network.signers:
        assert "No seal to check" in page
        return
    assert "✓ Sealed by an authority" in page
    assert f"one of the {network.signers} signers that the node names" in words(page)
    assert read_seal(told).signer in page
    genesis = words(world.text("/explorer/block/0"))
    assert f"It lists {network.signers} signers" in genesis
