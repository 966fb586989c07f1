"""`GET /ledger/verify` and `POST /ledger/seal`: who may, which folder, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from chainmemory.client import Client
from chainmemory.errors import Conflict, NotFound, Unauthorized
from tests.support.served import Served, serving
from tests.support.tenants import make_tenant, record, written

TOKEN = "an admin token of the tests"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("routes")
    (folder / "agents").mkdir()
    (folder / "home").mkdir()
    with serving(folder / "home", agents_dir=folder / "agents", admin_token=TOKEN) as server:
        yield server


@pytest.fixture
def agents(served: Served) -> Path:
    return served.app.site.settings.agents_dir


def verify(served: Served, agent: str, *headers: tuple[str, str]) -> tuple[int, Any]:
    return served.request("GET", f"/ledger/verify?agent_id={quote(agent, safe='')}", headers=headers)


def seal(served: Served, *headers: tuple[str, str], **body: Any) -> tuple[int, Any]:
    return served.request("POST", "/ledger/seal", json.dumps(body).encode(), headers)


def test_verify_and_seal(served: Served, agents: Path) -> None:
    files = make_tenant(agents, "cc", ("m1",))
    files.record("m2").write_bytes(written(record("m2")))
    status, report = verify(served, "cc")
    assert (status, report["sealed"], report["unsealed"]) == (200, 1, ["m2"])
    # This server has no chain to ask, and nothing else is wrong.
    assert (report["ok"], report["anchored_head"]["matches"]) == (None, None)
    status, sealed = seal(served, agent_id="cc")
    assert (status, sealed["sealed"], sealed["report"]["sealed"]) == (200, ["m2"], 2)
    assert seal(served, agent_id="cc")[1]["sealed"] == []
    assert seal(served, agent_id="cc", root=str(agents / ".." / "agents"))[0] == 200


def test_the_client_speaks_to_both(served: Served, agents: Path) -> None:
    make_tenant(agents, "sdk", ("m1",))
    with Client(f"http://127.0.0.1:{served.port}") as client:
        assert client.verify_files("sdk", deep=True)["sealed"] == 1
        assert client.seal_files("sdk")["sealed"] == []
        with pytest.raises(NotFound):
            client.verify_files("nobody")
        with pytest.raises(Conflict, match="another folder"):
            client.seal_files("sdk", root="/")


def test_a_broken_ledger_is_409_with_the_report(served: Served, agents: Path) -> None:
    files = make_tenant(agents, "bad", ("m1", "m2"))
    files.put_lines(files.lines()[1:])
    status, told = seal(served, agent_id="bad")
    assert (status, told["code"]) == (409, "ledger_broken")
    assert told["details"]["report"]["broken_at"] == 1
    assert verify(served, "bad")[1]["ok"] is False


@pytest.mark.parametrize(
    "agent",
    [
        "",
        ".",
        "..",
        "../agents",
        "cc/memory",
        "/etc",
        "..%2f",
        "CC",
        "a b",
        "cc\n",
        ".hidden",
        "-x",
        "x" * 65,
        "ü",
    ],
)
def test_an_agent_is_a_slug(served: Served, agent: str) -> None:
    assert verify(served, agent)[0] == 422
    assert seal(served, agent_id=agent)[0] == 422


def test_an_agent_is_never_a_link(served: Served, agents: Path, tmp_path: Path) -> None:
    files = make_tenant(tmp_path, "outside", ("m1",))
    files.record("m2").write_bytes(written(record("m2")))
    (agents / "link").symlink_to(files.path)
    assert [verify(served, "link")[0], seal(served, agent_id="link")[0]] == [409, 409]
    assert len(files.lines()) == 1


def test_nobody_from_elsewhere_without_the_token(served: Served, agents: Path) -> None:
    make_tenant(agents, "guarded", ("m1",))
    for header in (
        ("origin", "http://evil.example"),
        ("x-forwarded-for", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("via", "1.1 proxy"),
    ):
        assert verify(served, "guarded", header)[0] == 401
        assert seal(served, header, agent_id="guarded")[0] == 401
        assert served.request("POST", "/ledger/anchor", b'{"agent_id":"guarded"}', [header])[0] == 401
        admin = ("authorization", f"Bearer {TOKEN}")
        assert verify(served, "guarded", header, admin)[0] == 200
        assert seal(served, header, admin, agent_id="guarded")[0] == 200
    key = served.new_key()
    assert verify(served, "guarded", ("via", "1.1 proxy"), ("x-api-key", key))[0] == 401


def test_a_server_without_a_folder_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, agents_dir=tmp_path / "none") as server:
        anchored = server.request("POST", "/ledger/anchor", b'{"agent_id":"cc"}')
        for status, told in (verify(server, "cc"), seal(server, agent_id="cc"), anchored):
            assert (status, told["code"]) == (404, "no_agents")


def test_the_client_passes_the_admin_token_on(served: Served, agents: Path) -> None:
    make_tenant(agents, "token", ("m1",))
    with Client(f"http://127.0.0.1:{served.port}") as client:
        client._http.headers["via"] = "1.1 proxy"
        with pytest.raises(Unauthorized):
            client.verify_files("token")
        assert client.verify_files("token", admin_token=TOKEN)["sealed"] == 1


def test_nothing_is_anchored_while_the_chain_cannot_be_asked(served: Served, agents: Path) -> None:
    make_tenant(agents, "waiting", ("m1",))
    status, told = served.request("POST", "/ledger/anchor", b'{"agent_id":"waiting"}')
    assert (status, told["code"]) == (503, "chain_unavailable")
