"""Chain, API and worker started alone, as under another process manager; the contracts' commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainmemory.client import Client
from chainmemory.errors import ChainMemoryError
from tests.support.networks import free_port
from tests.support.server import PATIENCE_S, ROOT, cli, environment, eventually


class Alone:
    """Processes on one home, each started by its own command."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, self.chain_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.chain_url = f"http://127.0.0.1:{self.chain_port}"
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        places = {"CHAINMEMORY_PORT": str(self.port), "CHAINMEMORY_CHAIN_PORT": str(self.chain_port)}
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "chainmemory.cli", name],
            env=environment(self.home, **places),
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def readyz(self) -> int:
        for name, process in self.processes.items():
            assert process.poll() is None, f"the {name} ended: {process.communicate()[1]}"
        try:
            with Client(self.url) as client:
                return int(client.ready()["status_code"])
        except ChainMemoryError:
            return 0


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    alone = Alone(tmp_path_factory.mktemp("alone") / "home")
    yield alone
    for process in alone.processes.values():
        process.kill()
        process.communicate()


def test_each_alone_makes_the_server_ready_and_sigterm_ends_each(alone: Alone) -> None:
    alone.start("api")
    eventually(lambda: alone.readyz() == 503, "the API answers, and isn't ready alone")
    alone.start("chain")
    alone.start("worker")
    eventually(lambda: alone.readyz() == 200, "the three together are ready")
    for name in ("api", "worker"):
        alone.processes[name].send_signal(signal.SIGTERM)
        _, log = alone.processes[name].communicate(timeout=PATIENCE_S)
        assert alone.processes[name].returncode == 0, log
        lines = [json.loads(line) for line in log.splitlines()]
        assert lines[0]["action"] == "process.start"
        assert all(line["action"] for line in lines)


def test_contracts_are_deployed_checked_and_opened_to_others(alone: Alone, tmp_path: Path) -> None:
    keys = (
        "--keystore",
        str(alone.home / "signer.json"),
        "--password-file",
        str(alone.home / "signer.password"),
    )
    home = tmp_path / "home"
    ran = cli(home, "contracts", "deploy", "--rpc", alone.chain_url, *keys, "--json")
    assert ran.returncode == 0, ran.stderr
    deployed = json.loads(ran.stdout)
    settings = (home / "settings.toml").read_text()
    for name in ("ProjectStateAnchor", "MemoryRegistry"):
        assert deployed[name]["address"] in settings
    assert f'rpc_url = "{alone.chain_url}"' in settings
    assert "expected_chain_id = 20250" in settings

    ran = cli(home, "contracts", "verify")
    assert (ran.returncode, ran.stdout.count("the published code")) == (0, 2)
    registry = deployed["MemoryRegistry"]["address"]
    ran = cli(home, "contracts", "verify", "--anchor", registry)
    assert (ran.returncode, "isn't ProjectStateAnchor" in ran.stderr) == (1, True)
    ran = cli(home, "contracts", "verify", "--anchor", "0x" + "11" * 20)
    assert (ran.returncode, "There is no contract" in ran.stderr) == (1, True)
    ran = cli(home, "contracts", "verify", CHAINMEMORY_EXPECTED_CHAIN_ID="1")
    assert (ran.returncode, "This is chain 20250, not 1" in ran.stderr) == (1, True)

    ran = cli(home, "contracts", "grant", "0x" + "22" * 20)
    assert (ran.returncode, "may write to both contracts" in ran.stdout) == (0, True), ran.stderr


def test_refusals_of_the_contracts_commands(alone: Alone, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    keystore = ("--keystore", str(alone.home / "signer.json"))
    rpc = ("--rpc", alone.chain_url)
    for arguments, told in (
        ((*keystore, *rpc, "--password-file", str(tmp_path / "wrong")), "can't be opened"),
        ((*keystore, *rpc), "--password-file"),
        ((*keystore, "--password-file", str(alone.home / "signer.password")), "--rpc"),
        (
            (
                *keystore,
                "--password-file",
                str(alone.home / "signer.password"),
                "--rpc",
                "http://127.0.0.1:9",
            ),
            "127.0.0.1:9",
        ),
        (("--keystore", "/no/such/file", "--password-file", str(tmp_path / "wrong"), *rpc), "can't be read"),
    ):
        ran = cli(tmp_path / "home", "contracts", "deploy", *arguments)
        assert ran.returncode == 2
        assert told in ran.stderr
        assert not (tmp_path / "home" / "settings.toml").exists()
    ran = cli(tmp_path / "home", "contracts", "verify", *rpc)
    assert (ran.returncode, "name no contracts" in ran.stderr) == (2, True)


def test_the_chain_is_exported_while_it_runs(alone: Alone, tmp_path: Path) -> None:
    ran = cli(alone.home, "chain", "export", str(tmp_path / "blocks.rlp"))
    assert ran.returncode == 0, ran.stderr
    assert "blocks with" in ran.stdout
    assert (tmp_path / "blocks.rlp").stat().st_size > 1000
    assert json.loads((tmp_path / "genesis.json").read_text())["config"]["chainId"] == 20250
    ran = cli(tmp_path / "nothing", "chain", "export", str(tmp_path / "x.rlp"))
    assert (ran.returncode, "holds no chain" in ran.stderr) == (2, True)


def test_a_second_chain_on_the_home_is_refused(alone: Alone) -> None:
    assert alone.processes["chain"].poll() is None
    second = subprocess.run(
        [sys.executable, "-m", "chainmemory.cli", "chain", "--chain-port", str(free_port())],
        env=environment(alone.home),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE_S,
    )
    assert second.returncode == 2
    assert "Another node is running" in second.stderr
