"""ethers 6 as a client of the node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.evm_code import ANCHOR, REVERT_WITH_TEXT, creation
from tests.support.node_process import CHAIN_ID, USER, NodeProcess

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def test_ethers_deploys_sends_listens_and_fails_as_it_should(ethers: Path, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "chain", alloc=[USER.address])
    try:
        url = f"http://127.0.0.1:{node.start().port}/"
        command = ["node", "client.mjs", url, "0x" + bytes(USER.key).hex()]
        command += ["0x" + creation(code).hex() for code in (ANCHOR, REVERT_WITH_TEXT)]
        done = subprocess.run(command, cwd=ethers, capture_output=True, text=True, timeout=300)
    finally:
        node.ensure_gone()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "chainId": CHAIN_ID,
        "deployed": True,
        "statuses": [1, 1, 1],
        "heard": [11, 12, 13],
        "logs": [12],
        "storage": 13,
        "called": 8,
        "nonce": 4,
        "block": True,
        "confirmations": True,
        "feeData": True,
        "revert": ["CALL_EXCEPTION", "no!"],
        "nonceTooLow": "NONCE_EXPIRED",
    }
