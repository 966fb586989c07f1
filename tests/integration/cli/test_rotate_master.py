"""Rotating the master key by one command: beside a server, killed anywhere, with the ring in a variable."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from chainmemory.client import Client
from chainmemory.engine.accounts import create_account
from chainmemory.engine.master_rotation import rotate_master_key
from chainmemory.engine.runtime import Engine
from chainmemory.settings import Settings
from chainmemory.store.database import Database
from chainmemory.vault.master import FILE, MasterKeyring
from chainmemory.vault.ring_lock import one_rotation
from tests.support.served import serving
from tests.support.server import cli

ACCOUNTS = 401  # three batches


def account_keys(home: Path) -> dict[str, bytes]:
    """Return every account's key, opened with the ring in the home's file."""
    ring = MasterKeyring.load(home, {}, create=False)
    keys = {}
    with Database.open(home / "store.sqlite") as db, db.read() as tx:
        for row in tx.accounts.not_wrapped_by("none", limit=10_000):
            keys[row.account_id] = ring.unwrap_account_key(row.account_id, row.key_id, row.wrapped_key)
    return keys


def ids_in_use(home: Path) -> list[str]:
    with Database.open(home / "store.sqlite") as db, db.read() as tx:
        return tx.accounts.key_ids()


def ids_in_file(home: Path) -> list[str]:
    return [line.split()[0] for line in (home / FILE).read_text().splitlines()]


def filled(home: Path, count: int) -> Path:
    home.mkdir(mode=0o700)
    engine = Engine.open(Settings.load(home=home))
    for _ in range(count):
        create_account(engine)
    engine.close()
    return home


def killed(work: Callable[[], object]) -> bool:
    """Run `work` in a process of its own; say whether it ended by SIGKILL."""
    if (child := os.fork()) == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def rotate_and_die(home: Path, calls: int) -> None:
    """Rotate, and be killed when the rotation tells of its progress for the `calls`-th time."""
    left = calls

    def advance(_: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = Settings.load(home=home)
    with Database.open(settings.store_url) as db:
        rotate_master_key(settings, db, advance)


def test_killed_at_any_point_both_keys_open_and_a_repeat_finishes(tmp_path: Path) -> None:
    home = filled(tmp_path / "home", ACCOUNTS)
    keys, [old] = account_keys(home), ids_in_file(home)
    (home / f".{FILE}.killed").write_text("left by a rotation that was killed")
    # 1 begins with the new key in the file, 2 to 4 follow a batch each; the next begins the last look.
    for calls in (1, 2, 2, 2, 2):
        assert killed(lambda calls=calls: rotate_and_die(home, calls))  # type: ignore[misc]
        assert account_keys(home) == keys
        assert ids_in_file(home)[0] == old
        assert len(ids_in_file(home)) == 2
        assert not list(home.glob(f".{FILE}.*"))
    new = ids_in_file(home)[1]
    assert ids_in_use(home) == [new]
    ran = cli(home, "keys", "rotate-master", "--json")
    assert (ran.returncode, json.loads(ran.stdout)) == (
        0,
        {"key_id": new, "rewrapped": 0, "dropped": [old], "waiting": []},
    )
    assert ids_in_file(home) == [new]
    assert account_keys(home) == keys
    assert cli(home, "verify", "--all", "--no-chain").returncode == 0


def test_beside_a_server_the_old_key_stays_until_it_has_stopped(tmp_path: Path) -> None:
    home, said = tmp_path / "served", "said before the rotation"
    home.mkdir(mode=0o700)
    with serving(home) as served:
        url = f"http://127.0.0.1:{served.port}"
        with Client(url) as anybody:
            used, unused = (anybody.create_account()["api_key"] for _ in range(2))
        with Client(url, used) as client:
            client.save(said)
        [old] = ids_in_file(home)
        ran = cli(home, "keys", "rotate-master")
        assert (ran.returncode, "2 were wrapped anew" in ran.stdout) == (2, True)
        assert f"{old} stays in {home / FILE}" in ran.stderr
        assert ids_in_use(home) == ids_in_file(home)[1:]
        # The server hasn't read the new key yet: an account made now, one it never opened, one it did.
        with Client(url) as anybody:
            late = anybody.create_account()["api_key"]
        for key in (late, unused, used):
            with Client(url, key) as client:
                client.save("said after it")
        assert set(ids_in_use(home)) == set(ids_in_file(home))
    ran = cli(home, "keys", "rotate-master")
    assert (ran.returncode, "1 were wrapped anew" in ran.stdout) == (0, True)
    assert f"Gone from {home / FILE}: {old}." in ran.stdout
    assert ids_in_file(home) == ids_in_use(home) != [old]
    with serving(home) as served, Client(f"http://127.0.0.1:{served.port}", used) as client:
        summaries = [memory["summary"] for memory in client.memories()["memories"]]
    assert summaries == ["said after it", said]
    assert cli(home, "verify", "--all", "--no-chain").returncode == 0


def test_a_ring_in_the_variable_is_wrapped_by_its_last_key(tmp_path: Path) -> None:
    old, new = "ab" * 32, "cd" * 32
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    settings = Settings.load(home=home, master_key=old)
    engine = Engine.open(settings)
    create_account(engine)
    engine.close()
    ran = cli(home, "keys", "rotate-master", CHAINMEMORY_MASTER_KEY=old)
    assert (ran.returncode, "Put a new one behind it, separated by a comma" in ran.stderr) == (2, True)
    both = f"{old},{new}"
    ran = cli(home, "keys", "rotate-master", CHAINMEMORY_MASTER_KEY=both)
    assert (ran.returncode, "1 were wrapped anew" in ran.stdout) == (0, True)
    assert "take it out of the variable" in ran.stderr
    assert old not in ran.stderr + ran.stdout
    assert cli(home, "verify", "--all", "--no-chain", CHAINMEMORY_MASTER_KEY=new).returncode == 0
    assert cli(home, "verify", "--all", "--no-chain", CHAINMEMORY_MASTER_KEY=old).returncode == 1
    assert not (home / FILE).exists()


def test_two_rotations_at_once_would_lose_a_key(tmp_path: Path) -> None:
    home = filled(tmp_path / "home", 1)
    before = (home / FILE).read_bytes()
    with one_rotation(home):
        ran = cli(home, "keys", "rotate-master")
    assert (ran.returncode, "Another process is rotating" in ran.stderr) == (2, True)
    assert (home / FILE).read_bytes() == before
    ran = cli(tmp_path / "none", "keys", "rotate-master")
    assert (ran.returncode, "There is no store" in ran.stderr) == (2, True)
    assert not (tmp_path / "none").exists()
