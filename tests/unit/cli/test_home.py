"""The home: private, one server at a time, and never somebody else's folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from chainmemory.cli.home import HomeLock, RunNote, address, prepare_home, running_url
from chainmemory.errors import ConfigurationError
from chainmemory.settings import Settings


@pytest.fixture(autouse=True)
def _keep_the_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_is_private(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    prepare_home(home)
    assert mode(home) == mode(home / "logs") == mode(home / "chain") == 0o700
    (home / "made-later").touch()
    assert mode(home / "made-later") == 0o600


def test_a_home_and_keys_that_others_can_read_are_tightened(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "master.key").touch(mode=0o644)
    (home / "signer.json").touch(mode=0o640)
    prepare_home(home)
    assert mode(home) == 0o700
    assert mode(home / "master.key") == mode(home / "signer.json") == 0o600


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir(mode=0o755)
    (folder / "letter.txt").touch()
    with pytest.raises(ConfigurationError, match="holds other things"):
        prepare_home(folder)
    assert mode(folder) == 0o755
    assert [entry.name for entry in folder.iterdir()] == ["letter.txt"]


def test_a_file_in_place_of_the_home_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(ConfigurationError, match="can't be used"):
        prepare_home(tmp_path / "home")


def test_a_full_disk_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = os.statvfs(tmp_path)
    monkeypatch.setattr("chainmemory.store_file.LEAST_ROOM_BYTES", disk.f_blocks * disk.f_frsize + 1)
    with pytest.raises(ConfigurationError, match=r"The disk that the home .* is on is full; make room"):
        prepare_home(tmp_path / "home")


def test_a_key_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "elsewhere").touch(mode=0o644)
    (home / "master.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is a link"):
        prepare_home(home)
    assert mode(tmp_path / "elsewhere") == 0o644


def test_a_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match="another user"):
        prepare_home(home)


def test_a_home_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    prepare_home(home)
    home.chmod(0o500)
    # In a process without root's right to write everywhere (CAP_DAC_OVERRIDE), should this be root's.
    code = (
        "import ctypes, os, sys\n"
        "ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'chainmemory.cli', 'serve', '--home', sys.argv[1], "
        "'--port', '0'])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(home)], capture_output=True, text=True, timeout=60, check=False
    )
    home.chmod(0o700)
    assert (ran.returncode, f"Nothing can be written to the home {home}" in ran.stderr) == (2, True)


def test_a_second_server_on_a_home_is_refused_with_the_first_ones_place(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path)
    lock = HomeLock.take(settings)
    RunNote(os.getpid(), "http://127.0.0.1:1234", None).write(settings)
    with pytest.raises(
        ConfigurationError, match=rf"already runs .*process {os.getpid()}, http://127.0.0.1:1234"
    ):
        HomeLock.take(settings)
    lock.release()
    HomeLock.take(settings).release()


def test_the_lock_lasts_as_long_as_a_child_that_inherited_it(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path, grace_s=0.1)
    lock = HomeLock.take(settings)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], pass_fds=[lock.fd], stdin=subprocess.PIPE
    )
    lock.release()
    with pytest.raises(ConfigurationError, match="already runs"):
        HomeLock.take(settings)
    child.communicate()
    HomeLock.take(settings).release()


def test_a_server_waits_for_the_children_of_a_killed_one(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path)
    lock = HomeLock.take(settings)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    RunNote(dead.pid, "http://127.0.0.1:1234", None).write(settings)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"], pass_fds=[lock.fd])
    lock.release()
    HomeLock.take(settings).release()
    assert child.wait() == 0


def test_the_running_servers_address_comes_from_its_note(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path, port=4321)
    assert running_url(settings) == "http://127.0.0.1:4321"
    RunNote(os.getpid(), "http://127.0.0.1:1234", None).write(settings)
    assert running_url(settings) == "http://127.0.0.1:1234"
    (tmp_path / "run.json").write_text("{")
    assert running_url(settings) == "http://127.0.0.1:4321"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("localhost", "http://localhost:80"),
    ],
)
def test_an_address_that_reaches_the_server(host: str, url: str) -> None:
    assert address(host, 80) == url
