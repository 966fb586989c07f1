"""EthereumJS as a judge: it validates the consensus of an exported chain and executes it again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from chainmemory.node.formats import decode_block, encode_block
from tests.support.judging import Judged, split_rlp

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def judge(folder: Path, genesis: Path, chain: Path) -> subprocess.CompletedProcess[str]:
    command = ["node", "judge.mjs", str(genesis), str(chain)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=800)


def test_ethereumjs_accepts_the_consensus_and_finds_the_same_roots(ethereumjs: Path, judged: Judged) -> None:
    done = judge(ethereumjs, judged.exported.genesis, judged.file)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "head": judged.exported.head_hash,
        "stateRoot": judged.state_root,
        "blocks": judged.exported.blocks,
        "transactions": judged.exported.transactions,
        "signers": judged.signers,
    }


def test_ethereumjs_refuses_a_forged_seal(ethereumjs: Path, judged: Judged, tmp_path: Path) -> None:
    blocks = split_rlp(judged.file.read_bytes())[:20]
    block = decode_block(blocks[10])
    blocks[10] = encode_block(block.copy(header=block.header.copy(state_root=bytes(32))))
    forged = tmp_path / "forged.rlp"
    forged.write_bytes(b"".join(blocks))
    done = judge(ethereumjs, judged.exported.genesis, forged)
    assert done.returncode != 0
    assert "clique" in done.stderr.lower() or "signer" in done.stderr.lower()
