"""The ring of master keys, in a file or in the environment."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from chainmemory.errors import ConfigurationError, IntegrityError
from chainmemory.vault.master import FILE, VARIABLE, MasterKeyring, key_id, retire, rotate
from chainmemory.vault.ring_lock import LOCK, hold_ring
from tests.support.processes import CONTEXT

ACCOUNT = "ab" * 16
KEY = bytes(range(32))


def test_the_file_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    one = MasterKeyring.load(tmp_path, {})
    two = MasterKeyring.load(tmp_path, {})
    assert one.newest_id == two.newest_id
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    used, blob = one.wrap_account_key(ACCOUNT, KEY)
    assert two.unwrap_account_key(ACCOUNT, used, blob) == KEY


def test_no_file_is_made_for_a_store_that_has_accounts(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no master key.*put .*master\.key back"):
        MasterKeyring.load(tmp_path, {}, create=False)
    assert list(tmp_path.iterdir()) == []


def test_the_variable_comes_first_and_touches_no_file(tmp_path: Path) -> None:
    ring = MasterKeyring.load(tmp_path, {VARIABLE: KEY.hex()})
    assert ring.newest_id == key_id(KEY)
    assert list(tmp_path.iterdir()) == []


def test_the_variable_holds_a_ring(tmp_path: Path) -> None:
    old = MasterKeyring.load(tmp_path, {VARIABLE: KEY.hex()})
    used, blob = old.wrap_account_key(ACCOUNT, b"k" * 32)
    both = MasterKeyring.load(tmp_path, {VARIABLE: f"{KEY.hex()}, {bytes(32).hex()}"})
    assert both.newest_id == key_id(bytes(32))
    assert both.unwrap_account_key(ACCOUNT, used, blob) == b"k" * 32


@pytest.mark.parametrize("value", ["short", "g" * 64, "ab" * 33, f"{'ab' * 32},", f"{'ab' * 32} {'cd' * 32}"])
def test_a_malformed_variable_is_refused_without_being_quoted(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationError, match="64 hex digits") as caught:
        MasterKeyring.load(tmp_path, {VARIABLE: value})
    assert value.strip(",") not in str(caught.value)


def test_a_key_others_may_read_is_refused(tmp_path: Path) -> None:
    MasterKeyring.load(tmp_path, {})
    (tmp_path / FILE).chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        MasterKeyring.load(tmp_path, {})


@pytest.mark.parametrize(
    "text", ["", "\n", "nonsense\n", f"{'0' * 16} {'ab' * 32}\n", f"{'ab' * 32}\n", "é\n"]
)
def test_a_damaged_file_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError):
        MasterKeyring.load(tmp_path, {})
    assert path.read_text() == text


def test_a_file_that_is_no_text_is_told_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(b"\xff" * 82)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match="is damaged; restore the file from a backup"):
        MasterKeyring.load(tmp_path, {})


def test_a_lock_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    with pytest.raises(ConfigurationError, match=r"master\.key\.lock can't be used: Is a directory"):
        hold_ring(tmp_path)


def test_rotation_adds_a_key_and_old_wraps_still_open(tmp_path: Path) -> None:
    old = MasterKeyring.load(tmp_path, {})
    old_id, old_blob = old.wrap_account_key(ACCOUNT, KEY)
    new_id = rotate(tmp_path)
    ring = MasterKeyring.load(tmp_path, {})
    assert ring.newest_id == new_id != old_id
    key = ring.unwrap_account_key(ACCOUNT, old_id, old_blob)
    assert key == KEY
    assert ring.wrap_account_key(ACCOUNT, key)[0] == new_id
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_retired_key_opens_nothing_any_more(tmp_path: Path) -> None:
    old = MasterKeyring.load(tmp_path, {})
    old_id, old_blob = old.wrap_account_key(ACCOUNT, KEY)
    new_id = rotate(tmp_path)
    retire(tmp_path, new_id)
    ring = MasterKeyring.load(tmp_path, {})
    with pytest.raises(IntegrityError, match=old_id) as caught:
        ring.unwrap_account_key(ACCOUNT, old_id, old_blob)
    assert caught.value.code == "master_key_missing"
    with pytest.raises(ConfigurationError):
        retire(tmp_path, old_id)
    assert MasterKeyring.load(tmp_path, {}).newest_id == new_id


def test_a_wrapped_key_belongs_to_one_account_and_one_master_key(tmp_path: Path) -> None:
    ring = MasterKeyring([KEY, bytes(32)])
    used, blob = ring.wrap_account_key(ACCOUNT, b"k" * 32)
    with pytest.raises(IntegrityError):
        ring.unwrap_account_key("cd" * 16, used, blob)
    with pytest.raises(IntegrityError):
        ring.unwrap_account_key(ACCOUNT, key_id(KEY), blob)


def test_a_ring_without_keys_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one key"):
        MasterKeyring([])


def _load_at_once(home: str, gate: object, results: object) -> None:
    gate.wait()  # type: ignore[attr-defined]
    results.put(MasterKeyring.load(Path(home), {}).newest_id)  # type: ignore[attr-defined]


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    gate, results = CONTEXT.Barrier(4), CONTEXT.Queue()
    workers = [CONTEXT.Process(target=_load_at_once, args=(str(tmp_path), gate, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    ids = {results.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert ids == {MasterKeyring.load(tmp_path, {}).newest_id}
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
