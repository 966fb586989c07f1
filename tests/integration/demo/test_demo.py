"""The whole story on a real repository, and every way in which it may turn out to be untrue."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chainmemory.cli.check import Checker
from chainmemory.cli.witness import Witness
from chainmemory.client import Client
from chainmemory.errors import IntegrityError
from tests.support.git_repos import Repo, small_project
from tests.support.liar import Change, lying
from tests.support.server import Server, cli, run_cli


@pytest.fixture(scope="module")
def told(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository whose story has been told, and verified, as project `parser`."""
    repo = small_project(tmp_path_factory.mktemp("told") / "parser")
    ran = cli(server.home, "demo", str(repo.path))
    assert (ran.returncode, ran.stderr) == (0, "")
    return repo


def account_of(server: Server) -> Client:
    """Return a client with the account kept in the home."""
    return Client(server.note()["url"], json.loads((server.home / "client.json").read_text())["api_key"])


def test_the_story_is_told_and_verified(server: Server, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "new-project")
    ran = run_cli(server.home, "demo", cwd=repo.path)
    assert (ran.returncode, ran.stderr) == (0, "")
    for said in (
        "1/4  Remember: one memory for each of 7 commits of new-project",
        "saved 7 memories, encrypted",
        "2/4  Consolidate",
        "version 2, state hash 0x",
        "3/4  Anchor",
        "anchored in block",
        "4/4  Verify",
        "the code is the published one",
        "2 versions: hash recomputed and found in the contract",
        "VERIFIED: 2 versions",
        "/verify/new-project",
    ):
        assert said in ran.stdout
    assert (
        json.loads(cli(server.home, "state", "new-project", "--json").stdout)["state"]["phase"]
        == "after v1.0"
    )


def test_told_again_nothing_is_saved_twice(server: Server, told: Repo) -> None:
    before = json.loads(cli(server.home, "state", "parser", "--json").stdout)
    ran = cli(server.home, "demo", str(told.path))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "saved 0 memories, encrypted; 7 were there already" in ran.stdout
    assert json.loads(cli(server.home, "state", "parser", "--json").stdout) == before


def test_a_repository_without_commits_tells_nothing(server: Server, tmp_path: Path) -> None:
    ran = cli(server.home, "demo", str(Repo(tmp_path / "empty").path))
    assert ran.returncode == 2
    assert "has no commits yet" in ran.stderr


def on_method(method: str, change: Callable[[Any], Any]) -> Change:
    """Change the result of one RPC method."""

    def lie(_: str, asked: Any, answer: Any) -> Any:
        return {**answer, "result": change(answer["result"])} if asked["method"] == method else answer

    return lie


def in_receipts(change: Callable[[Any], None]) -> Change:
    """Change each event of each transaction."""

    def in_all(receipt: Any) -> Any:
        for log in receipt["logs"]:
            change(log)
        return receipt

    return on_method("eth_getTransactionReceipt", in_all)


def other(hexadecimal: str) -> str:
    """The same with its last digit changed."""
    return hexadecimal[:-1] + ("0" if hexadecimal[-1] != "0" else "1")


RECEIPT = "eth_getTransactionReceipt"
CHAIN_LIES: dict[str, tuple[Change, str]] = {
    "another hash in the contract": (on_method("eth_call", other), "in the contract should be"),
    "no hash in the contract": (
        on_method("eth_call", lambda _: "0x" + "00" * 32),
        "in the contract should be",
    ),
    "no contract": (on_method("eth_getCode", lambda _: "0x"), "contract's code should be"),
    "another contract": (on_method("eth_getCode", other), "contract's code should be"),
    "another chain": (on_method("eth_chainId", lambda _: "0x1"), "chain's id should be"),
    "no transaction": (on_method(RECEIPT, lambda _: None), "has no transaction"),
    "a failed transaction": (on_method(RECEIPT, lambda found: {**found, "status": "0x0"}), "failed on"),
    "no events": (on_method(RECEIPT, lambda found: {**found, "logs": []}), "didn't anchor"),
    "events of another contract": (
        in_receipts(lambda log: log.update(address=other(log["address"]))),
        "didn't anchor",
    ),
    "another hash in a state's event": (
        in_receipts(lambda log: log.update(data="0x" + "11" * 96)),
        "didn't anchor",
    ),
    "another number, or hash, in a memory's event": (
        in_receipts(lambda log: log["topics"].append(other(log["topics"].pop()))),
        "should be|didn't anchor",
    ),
}


@pytest.mark.parametrize("lie", CHAIN_LIES)
def test_a_chain_that_says_otherwise_fails_the_check(server: Server, told: Repo, lie: str) -> None:
    change, said = CHAIN_LIES[lie]
    with (
        account_of(server) as client,
        lying(server.note()["chain_url"], change) as rpc,
        Witness(rpc) as witness,
        pytest.raises(IntegrityError, match=said),
    ):
        Checker(client, witness, "parser", lambda _: None).run()


def test_a_failed_check_is_loud(server: Server, told: Repo) -> None:
    with lying(server.note()["chain_url"], on_method("eth_call", other)) as rpc:
        ran = cli(server.home, "demo", str(told.path), "--rpc", rpc)
    assert ran.returncode == 1
    assert "VERIFICATION FAILED. MISMATCH: version 2 in the contract should be 0x" in ran.stderr
    assert "VERIFIED" not in ran.stdout


def test_a_chain_that_cannot_be_asked_is_no_verdict(server: Server, told: Repo) -> None:
    ran = cli(server.home, "demo", str(told.path), "--rpc", "http://127.0.0.1:9")
    assert ran.returncode == 2
    assert "can't be asked" in ran.stderr
    assert "VERIFIED" not in ran.stdout


def changing(ending: str, change: Callable[[Any], object]) -> Change:
    """Change the answers of routes whose path ends so."""

    def lie(path: str, _: Any, answer: Any) -> Any:
        if path.split("?")[0].endswith(ending):
            change(answer)
        return answer

    return lie


ELSE = "0x" + "11" * 32
SERVER_LIES: dict[str, Change] = {
    "a changed state": changing("/state", lambda answer: answer["state"].update(phase="finished")),
    "a changed hash": changing("/state", lambda answer: answer.update(state_hash=ELSE)),
    "a changed root": changing(
        "/state", lambda answer: answer["state"]["decisions"][0].update(evidence_root=ELSE)
    ),
    "fewer event hashes": changing("/dec_0001", lambda answer: answer["evidence"].clear()),
    "another event hash": changing("/dec_0001", lambda answer: answer["evidence"][0].update(event_hash=ELSE)),
    "another proof": changing(
        "/dec_0001", lambda answer: answer["evidence"][0]["proof"].update(size=2, path=[ELSE])
    ),
    "another text": changing("/decrypted", lambda answer: answer.update(summary="Nobody said this.")),
    "no text any more": changing("/decrypted", lambda answer: answer.update(summary=None)),
    "another author": changing("/decrypted", lambda answer: answer["header"].update(provenance=None)),
    "another date": changing("/decrypted", lambda answer: answer["header"].update(occurred_at="2001")),
    "another transaction": changing("/proof", lambda answer: answer.update(chain_tx=ELSE)),
}


@pytest.mark.parametrize("lie", SERVER_LIES)
def test_a_server_that_says_otherwise_fails_the_check(server: Server, told: Repo, lie: str) -> None:
    with (
        account_of(server) as client,
        lying(server.note()["url"], SERVER_LIES[lie]) as url,
        Client(url, client.api_key) as lied_to,
        Witness(server.note()["chain_url"]) as witness,
        pytest.raises(IntegrityError),
    ):
        Checker(lied_to, witness, "parser", lambda _: None).run()


def test_a_row_changed_in_the_store_fails_the_verification(server: Server, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "tampered")
    assert cli(server.home, "demo", str(repo.path)).returncode == 0
    with sqlite3.connect(server.home / "store.sqlite", timeout=30) as store:
        where = "project = 'tampered' AND header LIKE ?"
        values = (f'%"commit":"{repo.tip}"%',)
        [(before,)] = store.execute(f"SELECT header FROM memories WHERE {where}", values).fetchall()
        after = before.replace("Ann <ann@example.org>", "Eve <eve@example.org>")
        assert after != before
        store.execute(f"UPDATE memories SET header = ? WHERE {where}", (after, *values))
    ran = cli(server.home, "demo", str(repo.path))
    assert ran.returncode == 1
    assert "VERIFIED" not in ran.stdout


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memories SET content_blob = zeroblob(length(content_blob)) "
        "WHERE project = :slug AND number = "
        "(SELECT min(number) FROM citations JOIN projects USING (project_id) WHERE slug = :slug)",
        "UPDATE state_versions SET state_hash = '0x' || printf('%064d', 7) "
        "WHERE version = 1 AND project_id = (SELECT project_id FROM projects WHERE slug = :slug)",
    ],
    ids=["content", "state hash"],
)
def test_a_changed_content_or_hash_is_told_as_a_failed_verification(
    server: Server, tmp_path: Path, change: str, request: pytest.FixtureRequest
) -> None:
    slug = request.node.callspec.id.replace(" ", "-")
    repo = small_project(tmp_path / slug)
    assert cli(server.home, "demo", str(repo.path)).returncode == 0
    with sqlite3.connect(server.home / "store.sqlite", timeout=30) as store:
        assert store.execute(change, {"slug": slug}).rowcount == 1
    ran = cli(server.home, "demo", str(repo.path))
    assert (ran.returncode, "VERIFICATION FAILED" in ran.stderr) == (1, True), ran.stderr
    assert "VERIFIED" not in ran.stdout
