"""geth 1.13 as a judge: it imports what we exported, and we import what it sealed."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from eth_keyfile import create_keyfile_json

from chainmemory.node.formats import decode_block, encode_block
from tests.support.clique_chains import address, authority_keys, make_genesis
from tests.support.evm_code import ANCHOR, CONTEXT, REVERT_WITH_TEXT, creation
from tests.support.judging import Judged, split_rlp
from tests.support.node_process import USER, Client, NodeProcess, RpcFailure, sign, wait_for
from tests.support.same_calls import same_calls, waiting_in_both

pytestmark = [pytest.mark.geth, pytest.mark.timeout(900)]
EPOCH = 5
OFFLINE = ["--nodiscover", "--maxpeers", "0", "--port", "0", "--authrpc.port", "0", "--ipcdisable"]


def run(geth: str, data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [geth, "--datadir", str(data), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def ask(geth: str, data: Path, expression: str) -> Any:
    """Evaluate JavaScript in geth's console over a data folder, offline."""
    script = f"console.log('ANSWER' + JSON.stringify({expression}))"
    done = run(geth, data, *OFFLINE, "--networkid", "20250", "--exec", script, "console")
    assert "ANSWER" in done.stdout, done.stdout + done.stderr
    return json.loads(done.stdout.split("ANSWER")[1].splitlines()[0])


def test_geth_reaches_the_same_head(geth: str, judged: Judged, tmp_path: Path) -> None:
    data = tmp_path / "geth"
    for arguments in (
        ["init", str(judged.exported.genesis)],
        ["--gcmode", "archive", "--syncmode", "full", "import", str(judged.file)],
    ):
        done = run(geth, data, *arguments)
        assert done.returncode == 0, done.stderr
    seen = ask(
        geth,
        data,
        "[eth.getBlock('latest').hash, eth.getBlock('latest').stateRoot, eth.blockNumber, "
        f"clique.getSigners(), eth.getStorageAt('{judged.contract}', 42)]",
    )
    head, blocks = judged.exported.head_hash, judged.exported.blocks
    assert seen == [head, judged.state_root, blocks - 1, judged.signers, judged.slot_42]
    assert judged.exported.transactions >= 1_000


def test_geth_stops_at_a_forged_block(geth: str, judged: Judged, tmp_path: Path) -> None:
    """The judge is awake: another state root under the same seal ends its import there."""
    blocks = split_rlp(judged.file.read_bytes())[:61]
    block = decode_block(blocks[60])
    blocks[60] = encode_block(block.copy(header=block.header.copy(state_root=bytes(32))))
    forged, data = tmp_path / "forged.rlp", tmp_path / "geth"
    forged.write_bytes(b"".join(blocks))
    assert run(geth, data, "init", str(judged.exported.genesis)).returncode == 0
    done = run(geth, data, "--gcmode", "archive", "--syncmode", "full", "import", str(forged))
    assert "unauthorized signer" in done.stderr
    assert ask(geth, data, "eth.blockNumber") == 59


def test_our_node_follows_a_geth_that_seals(geth: str, tmp_path: Path) -> None:
    (key,) = authority_keys(1)
    data, password, genesis = tmp_path / "geth", tmp_path / "password", tmp_path / "genesis.json"
    genesis.write_text(make_genesis([key], epoch=EPOCH, age=10).dump())
    password.write_text("secret")
    assert run(geth, data, "init", str(genesis)).returncode == 0
    document = create_keyfile_json(key.to_bytes(), b"secret", kdf="scrypt", iterations=2)
    (data / "keystore").mkdir(exist_ok=True)
    (data / "keystore" / "UTC--key").write_text(json.dumps(document))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    signer, url = "0x" + address(key).hex(), f"http://127.0.0.1:{port}"
    command = [geth, "--datadir", str(data), *OFFLINE, "--networkid", "20250", "--verbosity", "2"]
    command += ["--http", "--http.port", str(port), "--http.api", "eth,net,web3,clique,debug", "--mine"]
    command += ["--miner.etherbase", signer, "--unlock", signer, "--password", str(password)]
    command += ["--allow-insecure-unlock"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    node = NodeProcess(tmp_path / "ours", "--no-seal", "--genesis", str(genesis), "--peer", url)
    try:
        theirs = Client(port)
        wait_for(lambda: _answers(theirs), 60, "geth")
        ours = node.start()
        hashes = [ours.call("eth_sendRawTransaction", sign(i, value=i)) for i in range(5)]
        for tx_hash in hashes:  # passed on to geth, sealed there, pulled back
            receipt = ours.receipt(tx_hash, 60)
            assert receipt["status"] == "0x1"
            assert receipt == {**theirs.call("eth_getTransactionReceipt", tx_hash)}
        differences: list[Any] = []
        deploy = [creation(code) for code in (ANCHOR, REVERT_WITH_TEXT, CONTEXT)]
        sent = [
            ours.call("eth_sendRawTransaction", sign(5 + i, to=None, data=code, gas=300_000))
            for i, code in enumerate(deploy)
        ]
        contracts = [ours.receipt(tx_hash, 60)["contractAddress"] for tx_hash in sent]
        anchor = sign(8, to=contracts[0], data=f"0x{1:064x}{9:064x}")
        receipt = ours.receipt(ours.call("eth_sendRawTransaction", anchor), 60)
        for client in (ours, theirs):
            with contextlib.suppress(RpcFailure):  # ours may have passed it on by then
                client.call("eth_sendRawTransaction", waiting_in_both())
        for method, *params in same_calls(contracts, receipt):
            answers = [outcome(client, method, params) for client in (ours, theirs)]
            if answers[0] != answers[1]:
                differences.append((method, params, answers))
        assert differences == []
        sealed = int(receipt["blockNumber"], 16)
        number = sealed + EPOCH - sealed % EPOCH
        wait_for(lambda: int(ours.call("eth_blockNumber"), 16) > number, 60, "what follows a checkpoint")
        assert ours.call("eth_getBlockByNumber", hex(number), True) == theirs.call(
            "eth_getBlockByNumber", hex(number), True
        )
        assert ours.call("clique_getSigner", hex(number)) == signer
        for method in ("clique_getSnapshot", "clique_getSigners"):
            for at in (number, number + 1):
                assert ours.call(method, hex(at)) == theirs.call(method, hex(at))
        proof = ("eth_getProof", USER.address, ["0x" + "00" * 32], hex(number))
        assert ours.call(*proof) == theirs.call(*proof)
        for kind in ("debug_getRawBlock", "debug_getRawHeader", "debug_getRawReceipts"):
            assert ours.call(kind, hex(number)) == theirs.call(kind, hex(number))
    finally:
        node.ensure_gone()
        process.terminate()
        process.wait(30)


def outcome(client: Client, method: str, params: list[Any]) -> Any:
    try:
        return client.call(method, *params)
    except RpcFailure as failure:
        return failure.code, failure.message, failure.data


def _answers(client: Client) -> bool:
    try:
        return bool(client.call("eth_chainId"))
    except OSError:
        return False
