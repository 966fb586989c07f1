"""The compiled contracts as the package carries them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from eth_hash.auto import keccak

from chainmemory.chain.artifacts import CHECKOUT, MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.errors import ConfigurationError

ROOT = Path(__file__).parents[3]
NAMES = [STATE_ANCHOR, MEMORY_REGISTRY]


@pytest.mark.parametrize("name", NAMES)
def test_an_artifact_is_what_the_compiler_wrote(name: str) -> None:
    artifact, kept = load_artifact(name), json.loads((CHECKOUT / f"{name}.json").read_text())
    assert artifact.name == name
    assert artifact.abi == kept["abi"]
    assert "0x" + artifact.bytecode.hex() == kept["bytecode"]
    assert artifact.deployed_bytecode in artifact.bytecode
    assert artifact.code_hash == "0x" + keccak(bytes.fromhex(kept["deployedBytecode"][2:])).hex()


@pytest.mark.parametrize("name", NAMES)
def test_an_artifact_s_sources_are_the_committed_ones(name: str) -> None:
    """A source changed without compiling is seen without a compiler."""
    sources = json.loads((CHECKOUT / f"{name}.json").read_text())["sources"]
    ours = {key: digest for key, digest in sources.items() if key.startswith("src/")}
    assert f"src/{name}.sol" in ours
    for key, digest in ours.items():
        assert "0x" + keccak((ROOT / "contracts" / key).read_bytes()).hex() == digest, key


@pytest.mark.parametrize("name", NAMES)
def test_an_artifact_says_how_it_was_compiled_and_nothing_of_the_machine(name: str) -> None:
    text = (CHECKOUT / f"{name}.json").read_text()
    kept = json.loads(text)
    assert kept["compiler"].startswith(
        json.loads((ROOT / "contracts/package.json").read_text())["devDependencies"]["solc"]
    )
    assert kept["settings"]["evmVersion"] == "paris"
    assert kept["settings"]["optimizer"]["enabled"] is True
    assert set(kept["sources"]) == set(json.loads(kept["metadata"])["sources"])
    assert all(re.match(r"(src|@openzeppelin/contracts)/[A-Za-z0-9/]+\.sol$", key) for key in kept["sources"])
    assert str(ROOT) not in text


def test_a_contract_that_is_not_there_is_a_fault_of_the_installation() -> None:
    with pytest.raises(ConfigurationError, match="no compiled contract named Nothing"):
        load_artifact("Nothing")


def test_a_wheel_carries_the_artifacts(tmp_path: Path) -> None:
    """What users install has no contracts/ folder beside it."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    script = (
        "from chainmemory.chain import artifacts\n"
        "for name in (artifacts.STATE_ANCHOR, artifacts.MEMORY_REGISTRY):\n"
        "    print(artifacts.__file__, artifacts.load_artifact(name).code_hash)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    module = tmp_path / "installed" / "chainmemory" / "chain" / "artifacts.py"
    assert shown.splitlines() == [f"{module} {load_artifact(name).code_hash}" for name in NAMES]
