"""Run nodes as real processes, and talk to them by plain JSON-RPC."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import to_checksum_address

CHAIN_ID = 20250
USER: LocalAccount = Account.from_key("0x" + "42" * 32)
JSON = {"Content-Type": "application/json"}


class RpcFailure(Exception):
    """The node answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data")


class Client:
    """A JSON-RPC client over one kept-alive connection."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def post(self, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Send a body; return status and answer."""
        try:
            self.connection.request("POST", "/", body, {**JSON, **(headers or {})})
            response = self.connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self.connection.close()
            raise

    def call(self, method: str, *params: Any) -> Any:
        """Return a method's result, or raise RpcFailure."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        reply = json.loads(self.post(json.dumps(request).encode())[1])
        if "error" in reply:
            raise RpcFailure(reply["error"])
        return reply["result"]

    def batch(self, calls: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        """Return the replies to a batch."""
        body = [{"jsonrpc": "2.0", "id": i, "method": m, "params": p} for i, (m, p) in enumerate(calls)]
        replies = json.loads(self.post(json.dumps(body).encode())[1])
        assert isinstance(replies, list)
        return replies

    def receipt(self, tx_hash: str, timeout: float = 30) -> Any:
        """Wait for a transaction's receipt."""
        return wait_for(lambda: self.call("eth_getTransactionReceipt", tx_hash), timeout, "a receipt")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def wait_for(probe: Callable[[], Any], timeout: float = 30, what: str = "it") -> Any:
    """Return the probe's first true result."""
    end = time.monotonic() + timeout
    while not (result := probe()):
        assert time.monotonic() < end, f"waited {timeout} s for {what}"
        time.sleep(0.02)
    return result


class NodeProcess:
    """A node in a process of its own."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        port: int = 0,
        alloc: Sequence[str] = (),
        module: str = "chainmemory.node",
    ) -> None:
        self.folder = folder
        self.module = module
        self.arguments = [*arguments, *(word for address in alloc for word in ("--alloc", address))]
        self.port = port
        self.log = folder.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[Client] = []

    def start(self, wait: bool = True) -> Client:
        """Start it; unless told otherwise wait until its RPC answers."""
        self._ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", self.module, "--data-dir", str(self.folder)]
        command += ["--port", str(self.port), "--ready-file", str(self._ready), *self.arguments]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=Path(__file__).parents[2], start_new_session=True
            )
        return self.wait() if wait else Client(self.port)

    def wait(self) -> Client:
        """Wait until its RPC answers."""
        wait_for(lambda: self._ready.exists() or self._died(), 60, "the node's start")
        self.port = int(self._ready.read_text().rsplit(":", 1)[1])
        self._clients.append(Client(self.port))
        return self._clients[-1]

    @property
    def _ready(self) -> Path:
        return self.folder.with_suffix(".ready")

    def _died(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the node ended with {self.process.returncode}: {self.log.read_text()}")
        return False

    def kill(self) -> None:
        """SIGKILL its RPC process, as a crash would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM it; return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(20)

    def ensure_gone(self) -> None:
        """Kill whatever is left of it, and close the clients it was given with."""
        for client in self._clients:
            client.close()
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def sign(nonce: int, *, key: LocalAccount = USER, **fields: Any) -> str:
    """Return a signed raw transaction, dynamic fee unless `gasPrice` is given."""
    transaction: dict[str, Any] = {"nonce": nonce, "chainId": CHAIN_ID, "gas": 100_000, "value": 0}
    transaction |= {"to": "0x" + "11" * 20}
    if "gasPrice" not in fields:
        transaction |= {"maxFeePerGas": 10**10, "maxPriorityFeePerGas": 10**9}
    transaction |= fields
    if transaction["to"] is not None:
        transaction["to"] = to_checksum_address(transaction["to"])
    if transaction["to"] is None:
        del transaction["to"]
    return "0x" + bytes(key.sign_transaction(transaction).raw_transaction).hex()
