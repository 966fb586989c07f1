"""Chains for the worker's tests: eth-tester in this process, a real node behind a door that can misbehave."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from eth.vm.forks import LondonVM
from eth_tester import EthereumTester, PyEVMBackend
from web3 import EthereumTesterProvider
from web3.types import RPCEndpoint, RPCResponse

from chainmemory.anchoring.options import Options
from chainmemory.anchoring.retry import RetryPolicy
from chainmemory.chain.deploy import Deployment, deploy
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from tests.support.node_process import NodeProcess
from tests.support.onchain import OnChain

SIGNER_KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
OTHER_KEY = bytes.fromhex("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d")

# Everything at once, and retries without waiting: what takes time in a deployment takes none in a test.
QUICK = Options(
    memory_wait_s=0,
    state_wait_s=0,
    head_wait_s=0,
    confirmations=1,
    payload=True,
    deploys=True,
    poll_s=0.05,
    resend_s=0.2,
    missing_s=0.2,
    recheck_s=60,
    lease_s=5,
    retry=RetryPolicy(first_s=0.05, cap_s=0.2),
)


# What a node does with a call: an answer of its own (or an exception to raise), or None to do as it should.
NodeMood = Callable[[str, Any], RPCResponse | Exception | None]


class MoodyProvider(EthereumTesterProvider):
    """eth-tester's provider, with moods: `mood` may answer first, `afterwards` once the call was done."""

    def __init__(self, tester: EthereumTester) -> None:
        super().__init__(tester)
        self.in_good_mood()

    def in_good_mood(self) -> None:
        self.mood: NodeMood = lambda method, params: None
        self.afterwards: NodeMood = lambda method, params: None

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        own = self.mood(method, params)
        if own is None:
            answer = super().make_request(method, params)
            own = self.afterwards(method, params) or answer
        if isinstance(own, Exception):
            raise own
        return own


def refusal(message: str) -> RPCResponse:
    """Return a node's error."""
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": message}}


class TesterChain:
    """A London chain in this process; blocks are made at once, or by `mine` after `hold_blocks`."""

    __test__ = False

    def __init__(self, *, funded: bool = True) -> None:
        self.tester = EthereumTester(PyEVMBackend(vm_configuration=((0, LondonVM),)))
        self.node = MoodyProvider(self.tester)
        self.gateway = Gateway.over(self.node)
        self.signer = Signer.from_key(SIGNER_KEY)
        self.deployment: Deployment | None = None
        if funded:
            self.fund(self.signer.address)

    @classmethod
    def with_contracts(cls) -> TesterChain:
        """Return a chain on which both contracts are deployed already; `options` name them."""
        chain = cls()
        chain.deployment = deploy(chain.gateway, chain.signer, policy=FeePolicy(QUICK.max_fee))
        return chain

    @property
    def options(self) -> Options:
        if self.deployment is None:
            return QUICK
        return replace(
            QUICK,
            deploys=False,
            anchor_address=self.deployment.anchors.address,
            registry_address=self.deployment.registry.address,
        )

    @property
    def seen(self) -> OnChain:
        """What the contracts hold."""
        assert self.deployment is not None
        return OnChain(self.gateway, self.deployment)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Take back whatever happens on the chain meanwhile."""
        before = self.tester.take_snapshot()
        try:
            yield
        finally:
            self.node.in_good_mood()
            self.tester.enable_auto_mine_transactions()
            self.tester.revert_to_snapshot(before)

    def fund(self, address: str, wei: int = 10**21) -> None:
        self.tester.send_transaction(
            {"from": self.tester.get_accounts()[0], "to": address, "value": wei, "gas": 21_000}
        )

    def hold_blocks(self) -> None:
        self.tester.disable_auto_mine_transactions()

    def mine(self, count: int = 1) -> None:
        self.tester.mine_blocks(count)


@contextmanager
def embedded_node(folder: Path, *arguments: str, alloc: tuple[str, ...] = ()) -> Iterator[NodeProcess]:
    """Run the embedded node in a process of its own, with the test's signers funded."""
    signers = tuple(Signer.from_key(key).address for key in (SIGNER_KEY, OTHER_KEY))
    node = NodeProcess(folder, *arguments, alloc=(*signers, *alloc))
    node.start().close()
    try:
        yield node
    finally:
        node.ensure_gone()


# What a door does with a request: answer something itself (status, body), or pass it on (None).
Behaviour = Callable[[dict[str, Any]], tuple[int, bytes] | None]


class Door:
    """A door to a node that behaves as the test says: slow, in HTML, or with another answer."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.behave: Behaviour = lambda request: None
        self.requests: list[str] = []
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = door.answer(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://user:hunter22@127.0.0.1:{self._server.server_port}/secret-path?key=topsecret"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, body: bytes) -> tuple[int, bytes]:
        request = json.loads(body)
        self.requests.append(request["method"])
        own = self.behave(request)
        if own is not None:
            return own
        passed_on = urllib.request.Request(self.target, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(passed_on, timeout=20) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 502, b"<html>bad gateway</html>"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def result(request: dict[str, Any], value: Any) -> tuple[int, bytes]:
    """Return a JSON-RPC answer."""
    return 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()


def error(request: dict[str, Any], message: str, code: int = -32000) -> tuple[int, bytes]:
    """Return a JSON-RPC error."""
    problem = {"code": code, "message": message}
    return 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": problem}).encode()
