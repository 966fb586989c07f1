"""The engine of one process beside those of others: opened, keyed, and never behind for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.engine import accounts, callers, memory_read, memory_save
from chainmemory.engine.callers import Caller
from chainmemory.engine.runtime import Engine
from chainmemory.errors import ConfigurationError, Unauthorized
from chainmemory.settings import Settings
from chainmemory.vault import master
from tests.support.databases import ENGINES, fresh_database_url


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    with fresh_database_url(request.param, tmp_path, migrated=True) as url:
        yield Settings.load(home=tmp_path, database_url=url)


def _owner(engine: Engine) -> tuple[Caller, str]:
    made = accounts.create_account(engine)
    return Caller(made["account_id"], made["key_id"], "owner"), made["api_key"]


def test_what_one_process_saves_another_reads(settings: Settings) -> None:
    here, there = Engine.open(settings), Engine.open(settings)
    caller, _ = _owner(here)
    memory_save.save(here, caller, None, memory_save.SAVE.check({"content": "said here"}))
    memory_save.save(there, caller, None, memory_save.SAVE.check({"content": "said there"}))
    for engine in (here, there):
        texts = [memory_read.one(engine, caller, n, decrypted=True)["summary"] for n in (1, 2)]
        assert texts == ["said here", "said there"]
    here.close()
    there.close()


def test_a_key_revoked_by_another_process_is_believed_for_a_moment_at_most(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Engine.open(settings), Engine.open(settings)
    caller, _ = _owner(here)
    member = accounts.add_member(here, caller, label="x", scope="read")
    assert there.callers.authenticate(member["api_key"]).scope == "read"
    assert there.callers.known(member["api_key"]) is not None
    accounts.revoke_key(here, caller, member["key_id"])
    with pytest.raises(Unauthorized):
        here.callers.authenticate(member["api_key"])
    now = callers.time.monotonic()
    monkeypatch.setattr(callers.time, "monotonic", lambda: now + callers.KNOWN_FOR_S + 0.1)
    assert there.callers.known(member["api_key"]) is None
    with pytest.raises(Unauthorized):
        there.callers.authenticate(member["api_key"])
    monkeypatch.undo()
    here.close()
    there.close()


def test_revoking_here_counts_at_once(settings: Settings) -> None:
    engine = Engine.open(settings)
    caller, _ = _owner(engine)
    member = accounts.add_member(engine, caller, label="x", scope="read")
    engine.callers.authenticate(member["api_key"])
    accounts.revoke_key(engine, caller, member["key_id"])
    assert engine.callers.known(member["api_key"]) is None
    engine.close()


def _with_variable(settings: Settings, *keys: str) -> Settings:
    given = Settings.load(home=settings.home, master_key=",".join(keys))
    return settings.model_copy(update={"master_key": given.master_key})


def _with_file(settings: Settings, *keys: str) -> Settings:
    lines = [f"{master.key_id(bytes.fromhex(key))} {key}\n" for key in keys]
    file = settings.home / "master.key"
    file.touch(0o600)
    file.write_text("".join(lines))
    return settings


def test_a_store_with_accounts_does_not_open_under_a_new_master_key(settings: Settings) -> None:
    engine = Engine.open(settings)
    caller, _ = _owner(engine)
    engine.close()
    key = settings.home / "master.key"
    kept = key.read_bytes()
    key.unlink()
    with pytest.raises(ConfigurationError, match="master key"):
        Engine.open(settings)
    assert not key.exists()
    key_id, hexed = kept.decode().split()
    other = "ab" * 32
    for wrong, place in (
        (lambda: _with_variable(settings, other), "CHAINMEMORY_MASTER_KEY"),
        (lambda: _with_file(settings, other, "cd" * 32), r"\S+/master\.key"),
    ):
        with pytest.raises(
            ConfigurationError, match=f"master key {key_id}, which isn't in {place}"
        ) as refused:
            Engine.open(wrong())
        assert refused.value.code == "master_key_missing"
    for right in (
        lambda: _with_variable(settings, hexed),
        lambda: _with_variable(settings, hexed, other),
        lambda: _with_file(settings, hexed, other),
    ):
        engine = Engine.open(right())
        assert engine.vault(caller.account_id).account_id == caller.account_id
        engine.close()


def test_only_so_many_vaults_are_kept(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from chainmemory.engine import runtime

    monkeypatch.setattr(runtime, "MOST_VAULTS", 2)
    engine = Engine.open(settings)
    ids = [_owner(engine)[0].account_id for _ in range(3)]
    vaults = [engine.vault(account_id) for account_id in ids]
    assert engine.vault(ids[2]) is vaults[2]
    assert engine.vault(ids[0]) is not vaults[0]
    engine.close()
