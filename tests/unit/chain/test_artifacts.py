"""The compiled contracts as the package carries them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("name", NAMES)
def test_all_that_can_be_called_logged_or_refused_is_documented_for_users(name: str) -> None:
    """NatSpec: a notice for each, and a word on each parameter and answer."""
    kept = json.loads((CHECKOUT / f"{name}.json").read_text())
    output = json.loads(kept["metadata"])["output"]
    user, dev = output["userdoc"], output["devdoc"]
    assert user["notice"]
    assert dev["title"]
    checked = 0
    for item in kept["abi"]:
        section = {"function": "methods", "constructor": "methods", "error": "errors", "event": "events"}
        place, signature = section[item["type"]], signature_of(item)
        if item.get("name") in INHERITED:
            continue
        notice = user[place].get(signature)
        assert notice, f"{signature} has no notice"
        details = dev[place].get(signature, {})
        details = details[0] if isinstance(details, list) else details
        given = {one["name"] for one in item["inputs"]}
        assert set(details.get("params", {})) == given, f"{signature} doesn't explain its parameters"
        if item["type"] == "function" and item["outputs"] and item["stateMutability"] != "view":
            assert details.get("returns"), f"{signature} doesn't explain its answer"
        checked += 1
    assert checked > 15


INHERITED = {
    *("AccessControlBadConfirmation", "AccessControlUnauthorizedAccount", "DEFAULT_ADMIN_ROLE"),
    *("RoleAdminChanged", "RoleGranted", "RoleRevoked", "getRoleAdmin", "grantRole", "hasRole"),
    *("renounceRole", "revokeRole", "supportsInterface"),
}
"""OpenZeppelin's own, documented there."""


def signature_of(item: dict[str, Any]) -> str:
    if item["type"] == "constructor":
        return "constructor"

    def kind(part: dict[str, Any]) -> str:
        if not part["type"].startswith("tuple"):
            return str(part["type"])
        return "(" + ",".join(kind(one) for one in part["components"]) + ")" + part["type"][5:]

    return item["name"] + "(" + ",".join(kind(part) for part in item["inputs"]) + ")"


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
