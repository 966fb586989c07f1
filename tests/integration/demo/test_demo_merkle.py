"""The whole story in Merkle mode, checked by plain JSON-RPC as in direct mode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from chainmemory.cli.check import check_on_chain
from chainmemory.cli.witness import Witness
from chainmemory.client import Client
from chainmemory.errors import IntegrityError
from tests.support.git_repos import small_project
from tests.support.server import Server, cli


@pytest.fixture(scope="module")
def rooted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("rooted")
    server = Server(folder / "home", CHAINMEMORY_ANCHOR_MODE="merkle").start()
    repo = small_project(folder / "parser")
    ran = cli(server.home, "demo", str(repo.path))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "VERIFIED: 2 versions" in ran.stdout
    yield server
    server.end()


@pytest.fixture
def anchor(rooted: Server) -> dict[str, Any]:
    with Client(rooted.note()["url"]) as anybody:
        found: dict[str, Any] = anybody.verify("parser")
    return found


def test_anybodys_check_compares_each_version_with_its_root(rooted: Server) -> None:
    ran = cli(rooted.home, "verify", "parser", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["compared"]) == (0, 2)


LIES: dict[str, dict[str, Any]] = {
    "another hash": {"state_hash": "0x" + "ab" * 32},
    "another version": {"version": 2**63},
    "another root": {"root": "0x" + "ab" * 32},
    "another place": {"index": 7},
    "another size": {"size": 1_000},
    "another path": {"path": ["0x" + "ab" * 32]},
    "no proof at all": {"path": None},
    "a place that is no number": {"index": "first"},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_proof_that_was_changed_proves_nothing(rooted: Server, anchor: dict[str, Any], lie: str) -> None:
    newest = anchor["anchors"][0]
    change = LIES[lie]
    state_hash, version = change.get("state_hash", newest["state_hash"]), change.get("version", 2)
    state = (anchor["project_id"], version, state_hash)
    proof = {**newest["proof"], **{key: value for key, value in change.items() if key in newest["proof"]}}
    with Witness(rooted.note()["chain_url"]) as witness, pytest.raises(IntegrityError):
        check_on_chain(witness, anchor["chain"]["contract"], state, newest["tx_hash"], proof)


def test_a_root_in_another_transaction_proves_nothing(rooted: Server, anchor: dict[str, Any]) -> None:
    newest = anchor["anchors"][0]
    state = (anchor["project_id"], newest["version"], newest["state_hash"])
    with Witness(rooted.note()["chain_url"]) as witness:
        contract = anchor["chain"]["contract"]
        check_on_chain(witness, contract, state, newest["tx_hash"], newest["proof"])
        with Client(rooted.note()["url"]) as anybody:
            other = anybody.get("/v1/chain")["head"]["number"]
        deploying = witness._ask("eth_getBlockByNumber", "0x1", False)["transactions"][0]
        assert other > 1
        with pytest.raises(IntegrityError, match="didn't anchor the root"):
            check_on_chain(witness, contract, state, deploying, newest["proof"])
