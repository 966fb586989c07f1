"""The one door to a node: any EVM chain by JSON-RPC, through web3, with its errors sorted (failures.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from chainmemory.chain.failures import (
    CallReverted,
    ChainUnavailable,
    NodeRefused,
    TransactionRefused,
    classify,
    public_name,
    scrub,
)
from chainmemory.chain.types import Block, FeeMarket, Log, Receipt

if TYPE_CHECKING:
    from web3 import Web3

T = TypeVar("T")
TIMEOUT_S = 10.0
# geth's default tip, used where a node doesn't suggest one.
DEFAULT_TIP = 10**9
# A provider that refuses this many blocks of events refuses for another reason.
LEAST_RANGE = 500
# What fits a signature's v on every client, and a database's integer (EIP-2294).
MAX_CHAIN_ID = 2**63 - 37
BlockTag = int | str


class Gateway:
    """Speaks to one node. Threads may share it. web3 (a second to import) is loaded at the first request.

    Every method raises ChainUnavailable where the node doesn't answer properly. No error holds more of the
    address than its host and port.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._web3: Web3 | None = None
        self.name = public_name(url)

    def __repr__(self) -> str:
        return f"Gateway({self.name})"

    @classmethod
    def over(cls, provider: Any) -> Gateway:
        """Speak through a ready web3 provider, such as eth-tester's in-process one."""
        gateway = cls("tester://in-process")
        gateway._web3 = _web3_over(provider)
        return gateway

    # -- the chain --------------------------------------------------------------------------------

    def chain_id(self) -> int:
        chain_id = self._ask("eth_chainId", lambda w3: int(w3.eth.chain_id))
        if not 0 < chain_id <= MAX_CHAIN_ID:
            raise ChainUnavailable(
                f"The node at {self.name} answered eth_chainId with what is no chain's id."
            )
        return chain_id

    def client_version(self) -> str:
        return self._ask("web3_clientVersion", lambda w3: str(w3.client_version))

    def head(self) -> Block:
        block = self.block("latest")
        if block is None:
            raise ChainUnavailable(f"The node at {self.name} has no newest block.")
        return block

    def block(self, number_or_hash: BlockTag) -> Block | None:
        """Return a block by number, hash or tag; None where the node has none."""
        from web3.exceptions import BlockNotFound, BlockNumberOutOfRange

        def fetch(w3: Web3) -> Block | None:
            try:
                return _block(w3.eth.get_block(cast(Any, number_or_hash)))
            except (BlockNotFound, BlockNumberOutOfRange):
                return None

        return self._ask("eth_getBlock", fetch)

    def fee_market(self) -> FeeMarket:
        """Return what gas costs now; a chain without EIP-1559 has no base fee and no tip."""

        def fetch(w3: Web3) -> FeeMarket:
            base_fee = w3.eth.get_block("latest").get("baseFeePerGas")
            gas_price = int(w3.eth.gas_price)
            if base_fee is None:
                return FeeMarket(None, 0, gas_price)
            return FeeMarket(int(base_fee), self._tip(w3, gas_price), gas_price)

        return self._ask("eth_gasPrice", fetch)

    def signers(self, block: BlockTag = "latest") -> list[str]:
        """Return the authorities of a Clique or QBFT chain, checksummed; empty on chains without any."""
        from eth_utils.address import to_checksum_address

        tag = hex(block) if isinstance(block, int) else block
        for method in ("clique_getSigners", "qbft_getValidatorsByBlockNumber"):
            answer = self.raw(method, [tag])
            if isinstance(answer, list):
                return [to_checksum_address(address) for address in answer]
        return []

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """Return the result of any JSON-RPC method as the node words it.

        Raises NodeRefused with the node's error code where it answers with an error, so that a reader can
        tell "there is none" (None) from "it won't say".
        """

        def fetch(w3: Web3) -> Any:
            answer: Mapping[str, Any] = w3.provider.make_request(cast(Any, method), list(params))
            problem = answer.get("error")
            if problem is not None:
                code = problem.get("code") if isinstance(problem, Mapping) else None
                said = str(problem.get("message") if isinstance(problem, Mapping) else problem)
                words = scrub(said, self._url)
                raise NodeRefused(
                    f"The node at {self.name} refused {method}: {words}",
                    code if isinstance(code, int) else 0,
                    _bytes_in(problem),
                    words,
                )
            return answer["result"]

        return self._ask(method, fetch)

    def raw(self, method: str, params: Sequence[Any]) -> Any:
        """Return the result of any JSON-RPC method as the node words it, None where it doesn't offer it."""

        def fetch(w3: Web3) -> Any:
            answer: Mapping[str, Any] = w3.provider.make_request(cast(Any, method), list(params))
            if "result" not in answer and "error" not in answer:
                raise ValueError("neither result nor error")
            return answer.get("result")

        try:
            return self._ask(method, fetch)
        except NotImplementedError:
            return None

    # -- accounts and contracts -------------------------------------------------------------------

    def nonce(self, address: str, tag: str = "latest") -> int:
        """Return how many transactions of this account are in blocks (`pending`: and in the node's pool)."""
        return self._ask(
            "eth_getTransactionCount",
            lambda w3: int(w3.eth.get_transaction_count(cast(Any, address), cast(Any, tag))),
        )

    def balance(self, address: str) -> int:
        return self._ask("eth_getBalance", lambda w3: int(w3.eth.get_balance(cast(Any, address))))

    def code(self, address: str, block: BlockTag = "latest") -> bytes:
        return self._ask(
            "eth_getCode", lambda w3: bytes(w3.eth.get_code(cast(Any, address), cast(Any, block)))
        )

    def call(self, to: str, data: bytes, *, block: BlockTag = "latest", sender: str | None = None) -> bytes:
        """Run a read-only call. Raises CallReverted where the contract refuses it."""
        transaction: dict[str, Any] = {"to": to, "data": "0x" + data.hex()}
        if sender is not None:
            transaction["from"] = sender
        return self._ask("eth_call", lambda w3: bytes(w3.eth.call(cast(Any, transaction), cast(Any, block))))

    def logs(
        self,
        address: str,
        topics: Sequence[str | Sequence[str] | None],
        *,
        from_block: int,
        to_block: BlockTag = "latest",
    ) -> list[Log]:
        """Return a contract's events by topics (None matches any, a list matches one of them).

        Many providers refuse long ranges; a refused one is asked for in halves, down to LEAST_RANGE blocks.
        """
        query = {"address": address, "topics": list(topics), "fromBlock": from_block, "toBlock": to_block}
        try:
            return self._ask(
                "eth_getLogs", lambda w3: [_log(entry) for entry in w3.eth.get_logs(cast(Any, query))]
            )
        except NodeRefused:
            last = to_block if isinstance(to_block, int) else self.head().number
            if last - from_block < LEAST_RANGE:
                raise
            middle = (from_block + last) // 2
            return [
                *self.logs(address, topics, from_block=from_block, to_block=middle),
                *self.logs(address, topics, from_block=middle + 1, to_block=last),
            ]

    # -- transactions -----------------------------------------------------------------------------

    def send_raw(self, raw: bytes) -> str:
        """Hand a signed transaction to the node and return its hash.

        Raises TransactionRefused where the node says why it doesn't want it.
        """
        return self._ask(
            "eth_sendRawTransaction", lambda w3: _hex(w3.eth.send_raw_transaction(raw)), sending=True
        )

    def receipt(self, tx_hash: str) -> Receipt | None:
        """Return what became of a transaction; None while it's in no block (or isn't known at all)."""
        from web3.exceptions import TransactionIndexingInProgress, TransactionNotFound

        def fetch(w3: Web3) -> Receipt | None:
            try:
                return _receipt(w3.eth.get_transaction_receipt(cast(Any, tx_hash)))
            except (TransactionNotFound, TransactionIndexingInProgress):
                return None

        return self._ask("eth_getTransactionReceipt", fetch)

    def knows(self, tx_hash: str) -> bool:
        """Say whether the node has the transaction, in a block or in its pool."""
        from web3.exceptions import TransactionNotFound

        def fetch(w3: Web3) -> bool:
            try:
                return w3.eth.get_transaction(cast(Any, tx_hash)) is not None
            except TransactionNotFound:
                return False

        return self._ask("eth_getTransactionByHash", fetch)

    # -- underneath -------------------------------------------------------------------------------

    def _ask(self, method: str, fetch: Callable[[Web3], T], *, sending: bool = False) -> T:
        with self._sorted_errors(method, sending=sending):
            return fetch(self._connected())

    def _connected(self) -> Web3:
        with self._lock:
            if self._web3 is None:
                from web3 import HTTPProvider

                # Retrying is the worker's business: it knows what is safe to send again.
                provider = HTTPProvider(
                    self._url,
                    request_kwargs={"timeout": self._timeout_s},
                    exception_retry_configuration=None,
                )
                self._web3 = _web3_over(provider)
            return self._web3

    @contextmanager
    def _sorted_errors(self, method: str, *, sending: bool) -> Iterator[None]:
        """Turn what web3, requests and eth-tester raise into our errors, without the address."""
        import requests
        from eth_utils.exceptions import ValidationError
        from web3.exceptions import ContractLogicError, Web3Exception, Web3RPCError

        try:
            yield
        except ContractLogicError as error:
            raise CallReverted(self._said(error) or "The call reverted.", _revert_data(error)) from None
        except requests.Timeout:
            raise ChainUnavailable(f"The node at {self.name} didn't answer {method} in time.") from None
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else "an error"
            raise ChainUnavailable(f"The node at {self.name} answered {method} with HTTP {status}.") from None
        except requests.RequestException as error:
            raise ChainUnavailable(
                f"The node at {self.name} can't be reached ({type(error).__name__})."
            ) from None
        except Web3RPCError as error:
            raise self._refused(method, error, sending) from None
        except ValidationError as error:
            raise self._refused(method, error, sending) from None
        except (Web3Exception, ValueError, TypeError, KeyError, AttributeError) as error:
            if _is_from_tester(error):
                raise self._refused(method, error, sending) from None
            raise ChainUnavailable(
                f"The node at {self.name} answered {method} with something that isn't JSON-RPC."
            ) from None
        except Exception as error:
            if _is_from_tester(error):
                raise self._refused(method, error, sending) from None
            raise

    def _refused(self, method: str, error: Exception, sending: bool) -> Exception:
        said = self._said(error)
        if sending:
            return TransactionRefused(classify(said), said)
        if "revert" in said.lower():
            return CallReverted(said, _revert_data(error))
        return NodeRefused(f"The node at {self.name} refused {method}: {said}", _rpc_code(error))

    def _said(self, error: Exception) -> str:
        answer = getattr(error, "rpc_response", None) or {}
        problem = answer.get("error") if isinstance(answer, Mapping) else None
        words = problem.get("message") if isinstance(problem, Mapping) else None
        return scrub(str(words or getattr(error, "message", None) or error), self._url)

    def _tip(self, w3: Web3, gas_price: int) -> int:
        from web3.exceptions import Web3Exception

        try:
            return int(w3.eth.max_priority_fee)
        except (Web3Exception, NotImplementedError):
            return min(DEFAULT_TIP, gas_price)


def _web3_over(provider: Any) -> Web3:
    from web3 import Web3
    from web3.middleware import ExtraDataToPOAMiddleware

    w3 = Web3(provider)
    # Clique and QBFT headers carry seals in extraData, which web3 refuses by default; harmless elsewhere.
    w3.middleware_onion.inject(ExtraDataToPOAMiddleware, layer=0)
    return w3


def _is_from_tester(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("eth_tester", "eth")


def _rpc_code(error: Exception) -> int:
    answer = getattr(error, "rpc_response", None) or {}
    problem = answer.get("error") if isinstance(answer, Mapping) else None
    code = problem.get("code") if isinstance(problem, Mapping) else None
    return code if isinstance(code, int) else 0


def _revert_data(error: Exception) -> bytes:
    data = getattr(error, "data", None)
    if data is None:
        answer = getattr(error, "rpc_response", None) or {}
        problem = answer.get("error") if isinstance(answer, Mapping) else None
        data = problem.get("data") if isinstance(problem, Mapping) else None
    return _bytes_in(data)


def _bytes_in(data: Any) -> bytes:
    """Return the bytes that an error's `data` holds, at whichever depth a client puts them."""
    for _ in range(2):
        if isinstance(data, Mapping):
            data = data.get("data")
    if isinstance(data, str) and data.startswith("0x"):
        try:
            return bytes.fromhex(data[2:])
        except ValueError:
            return b""
    return data if isinstance(data, bytes) else b""


def _block(block: Mapping[str, Any]) -> Block:
    base_fee = block.get("baseFeePerGas")
    return Block(
        number=int(block["number"]),
        hash=_hex(block["hash"]),
        parent_hash=_hex(block["parentHash"]),
        timestamp=int(block["timestamp"]),
        gas_limit=int(block["gasLimit"]),
        base_fee=None if base_fee is None else int(base_fee),
    )


def _receipt(receipt: Mapping[str, Any]) -> Receipt:
    created = receipt.get("contractAddress")
    return Receipt(
        tx_hash=_hex(receipt["transactionHash"]),
        succeeded=int(receipt["status"]) == 1,
        block_number=int(receipt["blockNumber"]),
        block_hash=_hex(receipt["blockHash"]),
        gas_used=int(receipt["gasUsed"]),
        contract_address=str(created) if created else None,
        logs=tuple(_log(entry) for entry in receipt["logs"]),
    )


def _log(entry: Mapping[str, Any]) -> Log:
    return Log(
        address=str(entry["address"]),
        topics=tuple(_hex(topic) for topic in entry["topics"]),
        data=bytes(entry["data"]),
        block_number=int(entry["blockNumber"]),
        block_hash=_hex(entry["blockHash"]),
        tx_hash=_hex(entry["transactionHash"]),
        index=int(entry["logIndex"]),
    )


def _hex(value: bytes) -> str:
    return "0x" + bytes(value).hex()
