"""Putting the two contracts on a chain, and checking that what lies at an address really is one of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from chainmemory.chain.abi import abi_of, submitter_role
from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.chain.failures import ChainUnavailable, CodeMismatch
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.chain.types import Receipt
from chainmemory.errors import ConfigurationError

CONTRACTS = (STATE_ANCHOR, MEMORY_REGISTRY)
GRANT_GAS = 120_000


@dataclass(frozen=True, slots=True)
class DeployedContract:
    """One contract on a chain; `code_hash` is keccak-256 of the code found at the address."""

    name: str
    address: str
    block_number: int
    tx_hash: str
    code_hash: str


@dataclass(frozen=True, slots=True)
class Deployment:
    """Both contracts of a deployment, on one chain."""

    chain_id: int
    anchors: DeployedContract
    registry: DeployedContract

    @property
    def first_block(self) -> int:
        """No event of either contract is in an earlier block."""
        return min(self.anchors.block_number, self.registry.block_number)

    def addresses(self) -> dict[str, str]:
        return {self.anchors.name: self.anchors.address, self.registry.name: self.registry.address}


def creation_code(name: str, *, admin: str, submitter: str) -> bytes:
    """Return the data of the transaction that creates a contract; `submitter` is its first one."""
    artifact = load_artifact(name)
    return artifact.bytecode + abi_of(name).encode_constructor(admin, submitter)


def creation_gas(name: str) -> int:
    """Bound the gas of creating a contract: code deposit, calldata (EIP-7623's floor) and first slots."""
    artifact = load_artifact(name)
    return 300_000 + 200 * len(artifact.deployed_bytecode) + 40 * len(artifact.bytecode)


def check_code(gateway: Gateway, name: str, address: str) -> str:
    """Check that the code at an address is exactly the compiled contract's, and return its hash (hex32).

    The contracts have no immutables, so the deployed bytes are the compiler's. Raises CodeMismatch.
    """
    artifact, found = load_artifact(name), gateway.code(address)
    if not found:
        raise CodeMismatch(
            f"There is no contract at {address}, where {name} should be: a wrong address, "
            "or a chain that was reset."
        )
    if found != artifact.deployed_bytecode:
        raise CodeMismatch(
            f"The code at {address} isn't {name} as this version compiles it "
            f"({len(found)} bytes instead of {len(artifact.deployed_bytecode)}, or others)."
        )
    return artifact.code_hash


def check_created(gateway: Gateway, name: str, receipt: Receipt) -> DeployedContract:
    """Check a deploying transaction by its status, its code and its events (chain-notes, trap 8).

    Raises CodeMismatch where it failed or left something else.
    """
    if not receipt.succeeded or receipt.contract_address is None:
        raise CodeMismatch(f"Deploying {name} failed in transaction {receipt.tx_hash}.")
    code_hash = check_code(gateway, name, receipt.contract_address)
    abi = abi_of(name)
    events = [event.name for log in receipt.logs if (event := abi.event(log)) is not None]
    if "RoleGranted" not in events:
        raise CodeMismatch(f"Deploying {name} in transaction {receipt.tx_hash} granted no role.")
    return DeployedContract(name, receipt.contract_address, receipt.block_number, receipt.tx_hash, code_hash)


def deploy(
    gateway: Gateway,
    signer: Signer,
    *,
    policy: FeePolicy,
    admin: str | None = None,
    submitter: str | None = None,
    wait_s: float = 120,
) -> Deployment:
    """Deploy both contracts and check them; `admin` and `submitter` are the signer unless given.

    Raises ChainUnavailable (also where no receipt comes within `wait_s`), TransactionRefused, CodeMismatch.
    """
    admin, submitter = admin or signer.address, submitter or signer.address
    contracts = {
        name: check_created(
            gateway,
            name,
            _send(
                gateway,
                signer,
                None,
                creation_code(name, admin=admin, submitter=submitter),
                creation_gas(name),
                policy,
                wait_s,
            ),
        )
        for name in CONTRACTS
    }
    return Deployment(gateway.chain_id(), contracts[STATE_ANCHOR], contracts[MEMORY_REGISTRY])


def grant(
    gateway: Gateway,
    signer: Signer,
    deployment: Deployment,
    submitter: str,
    *,
    policy: FeePolicy,
    wait_s: float = 120,
) -> list[str]:
    """Make an address a submitter of both contracts and return the transactions' hashes.

    The signer must be their admin. Raises as `deploy`; ConfigurationError where a transaction failed.
    """
    hashes = []
    for contract in (deployment.anchors, deployment.registry):
        abi = abi_of(contract.name)
        data = abi.encode("grantRole", submitter_role(), submitter)
        receipt = _send(gateway, signer, contract.address, data, GRANT_GAS, policy, wait_s)
        if not receipt.succeeded:
            raise ConfigurationError(
                f"{signer.address} can't grant roles on {contract.name} at {contract.address}: "
                "it isn't the contract's admin."
            )
        hashes.append(receipt.tx_hash)
    return hashes


def _send(
    gateway: Gateway,
    signer: Signer,
    to: str | None,
    data: bytes,
    gas: int,
    policy: FeePolicy,
    wait_s: float,
) -> Receipt:
    signed = signer.sign(
        chain_id=gateway.chain_id(),
        nonce=gateway.nonce(signer.address, "pending"),
        to=to,
        data=data,
        gas_limit=gas,
        fees=policy.quote(gateway.fee_market()),
    )
    gateway.send_raw(signed.raw)
    return wait_for(lambda: gateway.receipt(signed.hash), wait_s, f"transaction {signed.hash}")


def wait_for(ask: Callable[[], Receipt | None], wait_s: float, what: str) -> Receipt:
    """Ask again until there is a receipt. Raises ChainUnavailable after `wait_s` seconds."""
    deadline = time.monotonic() + wait_s
    while (receipt := ask()) is None:
        if time.monotonic() >= deadline:
            raise ChainUnavailable(f"No block took {what} within {wait_s:g} s.")
        time.sleep(0.05)
    return receipt
