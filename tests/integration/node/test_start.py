"""Starting: what a first start makes, what a later one needs, and what is refused in a sentence."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.errors import ConfigurationError
from chainmemory.node import NodeConfig
from chainmemory.node.__main__ import main
from chainmemory.node.export import export_chain
from chainmemory.node.genesis import read_genesis
from chainmemory.node.keystore import create_authority
from chainmemory.node.preparation import _first_genesis, locked, prepare
from tests.support.node_process import USER, NodeProcess, sign, wait_for

ROOT = Path(__file__).resolve().parents[3]


def config(folder: Path, **changes: object) -> NodeConfig:
    return NodeConfig(**{"data_dir": folder, "port": 0, "alloc": [USER.address], **changes})  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "chain"
    made.mkdir()
    return made


def refusal(folder: Path, *arguments: str) -> str:
    """Start a node that must refuse; return what it says."""
    command = [sys.executable, "-m", "chainmemory.node", "--data-dir", str(folder), "--port", "0", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_first_start_makes_key_genesis_and_chain_for_one_authority(folder: Path) -> None:
    genesis, key = prepare(config(folder))
    assert key is not None
    assert genesis.signers == (key.public_key.to_canonical_address(),)
    assert genesis.balances == ((bytes.fromhex(USER.address[2:]), 10**27),)
    assert read_genesis(folder / "genesis.json") == genesis
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert {modes[name] for name in ("authority.json", "authority.password", "chain.sqlite")} == {0o600}
    assert prepare(config(folder)) == (genesis, key)  # and the next start finds them


@pytest.mark.parametrize("crashed_after", ["password", "keystore", "genesis"])
def test_a_first_start_that_was_interrupted_is_completed(folder: Path, crashed_after: str) -> None:
    if crashed_after == "password":
        (folder / "authority.password").write_text("0" * 64 + "\n")
    else:
        key = create_authority(folder / "authority.json", folder / "authority.password")
    if crashed_after == "genesis":
        (folder / "genesis.json").write_text(_first_genesis(config(folder), key).dump())
    genesis, loaded = prepare(config(folder))
    assert loaded is not None
    assert genesis.signers == (loaded.public_key.to_canonical_address(),)
    assert prepare(config(folder)) == (genesis, loaded)


def test_another_chain_in_the_folder_is_not_touched(folder: Path, tmp_path: Path) -> None:
    genesis, _ = prepare(config(folder))
    with pytest.raises(ConfigurationError, match="holds chain 20250, not 7"):
        prepare(config(folder, chain_id=7))
    other = json.loads(genesis.dump())
    other["timestamp"] = "0x1"
    (tmp_path / "other.json").write_text(json.dumps(other))
    with pytest.raises(ConfigurationError, match="another genesis"):
        prepare(config(folder, genesis=tmp_path / "other.json"))


def test_a_lost_key_is_not_silently_replaced(folder: Path) -> None:
    prepare(config(folder))
    (folder / "authority.json").unlink()
    with pytest.raises(ConfigurationError, match=r"keystore .* can't be read"):
        prepare(config(folder))


def test_a_file_of_another_version_is_refused(folder: Path) -> None:
    prepare(config(folder))
    with sqlite3.connect(folder / "chain.sqlite") as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(ConfigurationError, match="schema version 99"):
        prepare(config(folder))


def test_a_file_that_is_no_chain_is_refused(folder: Path) -> None:
    (folder / "chain.sqlite").write_bytes(b"not a database at all" * 100)
    create_authority(folder / "authority.json", folder / "authority.password")
    with pytest.raises(ConfigurationError, match=r"can't be opened as a chain.*restore it from a backup"):
        prepare(config(folder))


def test_a_chain_that_was_copied_read_only_is_made_writable_with_what_lies_beside_it(folder: Path) -> None:
    prepare(config(folder))
    file = folder / "chain.sqlite"
    file.chmod(0o400)
    with contextlib.closing(sqlite3.connect(file)) as reader:
        reader.execute("SELECT count(*) FROM meta").fetchone()  # SQLite makes the two others, as read-only
        prepare(config(folder))
        rights = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("chain.sqlite*")}
    assert rights == dict.fromkeys(("chain.sqlite", "chain.sqlite-wal", "chain.sqlite-shm"), 0o600)


def test_a_chain_with_damaged_pages_is_refused_for_good(folder: Path) -> None:
    prepare(config(folder))
    file = folder / "chain.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as raw:
        [page] = raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'meta'").fetchone()
        [size] = raw.execute("PRAGMA page_size").fetchone()
    with file.open("r+b") as pages:
        pages.seek((page - 1) * size)
        pages.write(b"\xa7" * size)
    with pytest.raises(ConfigurationError, match=r"can't be read .*restore it from a backup"):
        prepare(config(folder))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="can't be used"), locked(tmp_path / "file" / "chain"):
        pytest.fail("there is no such folder")


def test_a_follower_needs_a_genesis(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"needs the genesis\.json"):
        prepare(config(folder, seal=False))


def test_two_nodes_never_share_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainmemory.node.preparation.LOCK_SECONDS", 0.2)
    with locked(folder), pytest.raises(ConfigurationError, match="Another node is running"), locked(folder):
        pytest.fail("the lock was given twice")
    with locked(folder):  # and it is given back
        pass


def test_the_command_line_says_what_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "can't be decrypted" in refusal_with_a_wrong_password(folder)

    def said_here(folder: Path, *arguments: str) -> str:
        """As `refusal` says, without a process of its own."""
        assert main(["--data-dir", str(folder), "--port", "0", *arguments]) == 2
        return capsys.readouterr().err

    assert "period must be at least 1" in said_here(folder, "--period", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"can't listen on 127.0.0.1:{port}" in said_here(folder.with_name("new"), "--port", port)


def refusal_with_a_wrong_password(folder: Path) -> str:
    create_authority(folder / "key", folder / "password")
    (folder / "password").chmod(0o600)
    (folder / "password").write_text("wrong")
    return refusal(folder, "--keystore", str(folder / "key"), "--password-file", str(folder / "password"))


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "chain", alloc=[USER.address])
    yield node
    node.ensure_gone()


def test_a_running_node_keeps_secrets_to_itself_and_can_be_exported(
    authority: NodeProcess, tmp_path: Path
) -> None:
    client = authority.start()
    client.receipt(client.call("eth_sendRawTransaction", sign(0)))
    assert authority.process is not None
    command = Path(f"/proc/{authority.process.pid}/cmdline").read_bytes()
    environment = Path(f"/proc/{authority.process.pid}/environ").read_bytes()
    password = (authority.folder / "authority.password").read_bytes().strip()
    assert password not in command + environment + authority.log.read_bytes()

    exported = export_chain(authority.folder, tmp_path / "out.rlp", tmp_path / "out.json")
    assert (exported.blocks, exported.transactions) == (2, 1)
    assert exported.head_hash == client.call("eth_getBlockByNumber", "latest", False)["hash"]
    (tmp_path / "out.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="genesis of another chain"):
        export_chain(authority.folder, tmp_path / "out.rlp", tmp_path / "out.json")
    with pytest.raises(ConfigurationError, match="holds no chain"):
        export_chain(tmp_path / "nowhere", tmp_path / "out.rlp")
    unwritable = {
        "Not a directory": tmp_path / "out.rlp" / "x",
        "No such file": tmp_path / "nowhere" / "x",
        "Is a directory": tmp_path,
        "No space left": Path("/dev/full"),
    }
    for why, target in unwritable.items():
        genesis = tmp_path / "other.json"
        with pytest.raises(ConfigurationError, match=f"{target} can't be written: {why}"):
            export_chain(authority.folder, target, genesis)
        with pytest.raises(ConfigurationError, match=f"{target} can't be written: {why}"):
            export_chain(authority.folder, tmp_path / "other.rlp", target)
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_a_follower_copies_the_chain_and_passes_transactions_on(
    authority: NodeProcess, tmp_path: Path
) -> None:
    client = authority.start()
    client.receipt(client.call("eth_sendRawTransaction", sign(0)))
    peer = f"http://127.0.0.1:{authority.port}"
    follower = NodeProcess(
        tmp_path / "follower",
        "--no-seal",
        "--genesis",
        str(authority.folder / "genesis.json"),
        "--peer",
        peer,
    )
    try:
        copy = follower.start()
        assert copy.call("net_peerCount") == "0x1"
        wait_for(lambda: copy.call("eth_blockNumber") == "0x1", 20, "the copy")
        tx_hash = copy.call("eth_sendRawTransaction", sign(1))
        assert copy.receipt(tx_hash) == client.call("eth_getTransactionReceipt", tx_hash)
        assert copy.call("txpool_status") == {"pending": "0x0", "queued": "0x0"}
    finally:
        follower.ensure_gone()
