"""The explorer where states are anchored under Merkle roots."""

from __future__ import annotations

import html
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from tests.support.chains import QUICK, SIGNER_KEY, embedded_node, error, result
from tests.support.explorer import World, explorer_on, remember_little

PAGE = "/explorer/project/payments"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("roots")
    with embedded_node(folder / "chain") as node:
        gateway, signer = Gateway(f"http://127.0.0.1:{node.port}/"), Signer.from_key(SIGNER_KEY)
        with explorer_on(gateway, folder / "home", signer) as made:
            made.worker = AnchorWorker(made.app.site.engine.db, gateway, signer, replace(QUICK, merkle=True))
            remember_little(made)
            yield made


def words(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def test_a_version_under_a_root_is_shown_with_its_root(world: World) -> None:
    with world.app.site.engine.db.read() as tx:
        row = tx.outbox.get("state", world.project_id, 1)
    assert row is not None
    assert row.anchor_id is not None
    text = words(world.text(PAGE))
    assert "✓ Under roots on the chain The one version on this page" in text
    assert f"under the root {row.anchor_id} ✓ leads to it block" in text
    assert row.tx_hash is not None
    assert f'href="/explorer/tx/{row.tx_hash}"' in world.text(PAGE)
    assert "Not anchored yet" not in text
    sent = words(world.text(f"/explorer/tx/{row.tx_hash}"))
    assert "Call: anchorRoot" in sent
    assert "RootAnchored" in sent


def test_the_front_page_lists_the_newest_roots(world: World) -> None:
    with world.app.site.engine.db.read() as tx:
        row = tx.outbox.get("state", world.project_id, 1)
    assert row is not None
    assert row.anchor_id is not None
    text = words(world.text("/explorer"))
    shown = f"{row.anchor_id[:8]}…{row.anchor_id[-6:]}"
    assert re.search(rf"Under Merkle roots Root States Transaction Block Age {shown} 1 state 0x", text)


def test_a_root_that_the_chain_does_not_hold_is_named(world: World) -> None:
    world.door.behave = lambda asked: result(asked, []) if asked["method"] == "eth_getLogs" else None
    try:
        text = words(world.text(PAGE))
    finally:
        world.door.behave = lambda _: None
    assert "✗ Not where this server says 1 of the versions" in text
    assert "✗ no such root there not in block" in text


def test_a_root_that_cannot_be_asked_for_proves_nothing(world: World) -> None:
    world.door.behave = lambda asked: (
        error(asked, "no logs here") if asked["method"] == "eth_getLogs" else None
    )
    try:
        text = words(world.text(PAGE))
    finally:
        world.door.behave = lambda _: None
    assert "its event couldn’t be asked for" in text
    assert "✓" not in text
    assert "✗" not in text


def test_a_hash_changed_in_the_store_leads_to_no_root(world: World) -> None:
    """The tree is made of the hashes that this server names: another hash gives another root."""
    with closing(sqlite3.connect(world.folder.parent / "store.sqlite")) as store:
        (kept,) = store.execute("SELECT hash FROM outbox WHERE kind = 'state'").fetchone()
        change = "UPDATE outbox SET hash = ? WHERE kind = 'state'"
        with store:
            store.execute(change, ("0x" + "66" * 32,))
        try:
            text = words(world.text(PAGE))
        finally:
            with store:
                store.execute(change, (kept,))
    assert "or that the hashes named here don’t lead to" in text
    assert "✗ leads to another root" in text
