"""What newcomers stumbled over: each is told in words that lead on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory import __version__
from tests.support.served import Served, serving
from tests.support.server import cli


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


def test_the_version_is_an_option_too(tmp_path: Path) -> None:
    assert cli(tmp_path, "--version").stdout == f"chainmemory {__version__}\n"
    assert cli(tmp_path, "version").stdout == f"{__version__}\n"


def test_keys_are_added_listed_and_revoked(served: Served, tmp_path: Path) -> None:
    url = {"CHAINMEMORY_URL": f"http://127.0.0.1:{served.port}"}
    home = tmp_path / "home"
    assert cli(home, "keys", "create", **url).returncode == 0
    added = json.loads(cli(home, "keys", "add", "a bot", "--scope", "read", "--json", **url).stdout)
    [owner, bot] = cli(home, "keys", "list", **url).stdout.splitlines()
    assert owner.split()[1::2][:1] == ["owner"]
    assert bot.split()[:2] == [added["key_id"], "read"]
    assert bot.endswith("a bot")
    assert added["api_key"] not in bot
    ran = cli(home, "keys", "revoke", added["key_id"], **url)
    assert (ran.returncode, ran.stdout) == (0, f"{added['key_id']} is revoked.\n")
    keys = json.loads(cli(home, "keys", "list", "--json", **url).stdout)["keys"]
    assert [bool(key["revoked_at"]) for key in keys] == [False, True]
    ran = cli(home, "keys", "revoke", owner.split()[0], **url)
    assert (ran.returncode, "last owner key" in ran.stderr) == (2, True)
    assert cli(home, "keys", "revoke", "key_0000", **url).returncode == 2


def test_a_refused_key_says_where_it_came_from(served: Served, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{served.port}"
    ran = cli(tmp_path, "memories", CHAINMEMORY_URL=url, CHAINMEMORY_API_KEY="aic_wrong")
    assert (ran.returncode, "the variable CHAINMEMORY_API_KEY" in ran.stderr) == (2, True)
    kept = {"url": url, "account_id": "ab" * 16, "api_key": "aic_wrong"}
    (tmp_path / "client.json").write_text(json.dumps(kept))
    ran = cli(tmp_path, "memories", CHAINMEMORY_URL=url)
    assert (ran.returncode, str(tmp_path / "client.json") in ran.stderr) == (2, True)
    assert "aic_wrong" not in ran.stderr
    told = json.loads(cli(tmp_path, "status", "--json", CHAINMEMORY_URL=url).stdout)["account"]
    assert str(tmp_path / "client.json") in told["error"]
    (tmp_path / "client.json").unlink()
    assert json.loads(cli(tmp_path, "status", "--json", CHAINMEMORY_URL=url).stdout)["account"] is None


def test_the_key_of_a_stopped_home_goes_to_nobody_at_the_default_port(served: Served, tmp_path: Path) -> None:
    kept = {"url": "http://127.0.0.1:9", "account_id": "ab" * 16, "api_key": "aic_wrong"}
    (tmp_path / "client.json").write_text(json.dumps(kept))
    ran = cli(tmp_path, "save", "a secret")
    assert (ran.returncode, f"No server runs on the home {tmp_path}" in ran.stderr) == (2, True)
    assert "CHAINMEMORY_PORT" in ran.stderr
    ran = cli(tmp_path, "save", "a secret", CHAINMEMORY_PORT=str(served.port))  # so it was sent
    assert (ran.returncode, str(tmp_path / "client.json") in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("url", "place"),
    [("http://127.0.0.1:9", "http://127.0.0.1:9"), ("https://127.0.0.1", "https://127.0.0.1:443")],
)
def test_no_server_names_the_port_it_tried_and_how_to_start(tmp_path: Path, url: str, place: str) -> None:
    ran = cli(tmp_path, "memories", CHAINMEMORY_URL=url, CHAINMEMORY_API_KEY="aic_x")
    assert ran.returncode == 2
    assert f"No ChainMemory server answers at {place} " in ran.stderr
    assert "chainmemory serve" in ran.stderr


@pytest.mark.parametrize("option", ["--port", "--chain-port"])
def test_a_taken_port_leaves_nothing_behind_in_a_new_home(tmp_path: Path, option: str) -> None:
    home = tmp_path / "new"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = ["--port", port] if option == "--port" else ["--port", "0", "--chain-port", port]
        ran = cli(home, "serve", *ports)
    assert (ran.returncode, f"Port {port} on 127.0.0.1" in ran.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
