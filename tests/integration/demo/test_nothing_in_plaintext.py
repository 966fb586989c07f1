"""What a user says is nowhere on disk in plaintext: not in the store, its log, the chain or the logs."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from chainmemory.client import Client
from chainmemory.errors import ChainMemoryError
from tests.support.server import Server, eventually

# One word for each place where a user can say something.
PLACES = (
    "content",
    "tag",
    "decision",
    "focus",
    "rejected",
    "generated",
    "refused",
    "batch",
    "idem",
    "vision",
    "archived",
    "label",
    "milestone",
)


def canary(place: str) -> str:
    return f"Canary{place.capitalize()}Zq7"


def disguises(word: str) -> dict[str, bytes]:
    """The forms in which a careless program might have written the word down."""
    plain = word.encode()
    return {
        "plain": plain,
        "lower case": plain.lower(),
        "hex": plain.hex().encode(),
        "UTF-16": word.encode("utf-16-le"),
        # A text's base64 depends on where it begins; the ends depend on what is around it.
        **{f"base64, shifted by {n}": base64.b64encode(b"x" * n + plain)[4:-4] for n in range(3)},
    }


def say_everything(client: Client) -> None:
    client.save(
        canary("content"),
        project="secret",
        tags=[canary("tag")],
        subject={"type": "person", "id": "someone"},
    )
    client.save_batch([{"content": canary("batch")}])
    client.post("/v1/memory", {"content": canary("idem")}, idempotency_key="one")
    client.post("/v1/memory", {"content": canary("idem")}, idempotency_key="one")
    client._send("PUT", "/v1/memories/1/tags", body={"tags": [canary("archived")]})
    client.post("/v1/keys/members", {"label": canary("label"), "scope": "read"})
    client.apply_ops(
        "secret",
        [
            {"op": "add_decision", "title": canary("decision"), "statement": "x", "evidence_memory_ids": [1]},
            {"op": "add_milestone", "title": canary("milestone")},
            {"op": "set_focus", "focus": canary("focus"), "evidence_memory_ids": [2]},
            {"op": "set_vision", "vision": canary("vision")},
            {"op": "set_phase", "phase": 5, "note": canary("rejected")},
        ],
        generated_by=canary("generated"),
    )
    for body in ({"content": ["x"], "kind": 5, "note": canary("refused")}, {"category": canary("refused")}):
        with pytest.raises(ChainMemoryError):
            client.post("/v1/memory", body)


def test_the_disguises_are_recognised() -> None:
    for word in map(canary, PLACES):
        for shift in range(3):
            hidden = base64.b64encode(b"x" * shift + word.encode() + b"more text")
            assert any(form in hidden for form in disguises(word).values())


def test_nothing_a_user_said_is_on_disk(server: Server, client: Client) -> None:
    say_everything(client)
    eventually(lambda: client.anchor("secret")["anchor"]["status"] == "anchored", "the state is anchored")
    eventually(lambda: client.memory(3)["chain_sync"] == "anchored", "the memories are anchored")
    assert client.get("/v1/memories/search", q=canary("content"))["memories"]
    found = [
        (path.name, place, how)
        for path in files(server.home)
        for content in [path.read_bytes()]
        for place in PLACES
        for how, form in disguises(canary(place)).items()
        if form in content
    ]
    assert found == []


def test_no_key_is_in_a_log_or_in_the_store(server: Server, client: Client) -> None:
    client.profile()
    assert client.api_key
    secrets = {"the API key": client.api_key.encode()}
    for name in ("master.key", "signer.password", "chain/authority.password"):
        secrets[name] = (server.home / name).read_bytes().strip()[-64:]
    holders = {"master.key", "signer.password", "authority.password", "client.json"}
    found = [
        (path.name, what)
        for path in files(server.home)
        if path.name not in holders
        for what, secret in secrets.items()
        if secret in path.read_bytes()
    ]
    assert found == []


def test_every_log_line_is_json_with_an_action(server: Server) -> None:
    logs = list((server.home / "logs").glob("*.log"))
    assert {log.stem for log in logs} == {"serve", "chain", "api", "worker"}
    for log in logs:
        for line in log.read_text().splitlines():
            assert json.loads(line)["action"], line


def files(home: Path) -> list[Path]:
    return [path for path in [*home.rglob("*"), home.with_name(home.name + ".output")] if path.is_file()]
