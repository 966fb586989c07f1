"""First of all: is it the right chain, and do the contracts lie there? On the embedded one: deploy them.

Deploying is a transaction like any other: stored before it is sent, under the lease. So two workers, or one
that crashed in between, never deploy twice.
"""

from __future__ import annotations

from chainmemory.anchoring.move import move_if_needed
from chainmemory.anchoring.post import Draft, Post
from chainmemory.anchoring.station import DEPLOY, Contracts, Station
from chainmemory.chain.anchor_contract import StateAnchors
from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR
from chainmemory.chain.deploy import (
    CONTRACTS,
    DeployedContract,
    Deployment,
    check_code,
    check_created,
    creation_code,
    creation_gas,
)
from chainmemory.chain.failures import CodeMismatch, WrongChain
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.registry import MemoryRegistry
from chainmemory.chain.types import Receipt
from chainmemory.errors import ConfigurationError, Unavailable
from chainmemory.logging import log
from chainmemory.store.deployments import DeploymentRow
from chainmemory.store.leases import Lease
from chainmemory.store.transactions import CONFIRMED, FAILED, TransactionRow
from chainmemory.store.tx import Tx


class NotDeployed(Unavailable):
    """No contracts are known on this chain yet; someone may deploy them."""

    code = "not_deployed"


class NotSubmitter(Unavailable):
    """The contracts don't let this signer write yet; their admin may grant it."""

    code = "not_submitter"


def check_chain(gateway: Gateway, expected: int | None) -> int:
    """Return the node's chain id. Raises WrongChain where it isn't the expected one (None: any will do)."""
    found = gateway.chain_id()
    if expected is not None and found != expected:
        raise WrongChain(
            f"The node at {gateway.name} serves chain {found}, and this worker anchors on chain {expected}. "
            "Check rpc_url and expected_chain_id."
        )
    return found


def known_deployment(
    tx: Tx, chain_id: int, *, anchor_address: str | None = None, registry_address: str | None = None
) -> Deployment | None:
    """Return where the contracts are on a chain: from the settings where given, else as recorded.

    Addresses alone say nothing of code and block: those fields are empty, and block 0 stands for "from the
    start". Raises ConfigurationError where only one address is given.
    """
    if (anchor_address is None) != (registry_address is None):
        raise ConfigurationError("Give both contract addresses (anchor_address, registry_address), or none.")
    recorded = tx.deployments.of_chain(chain_id)
    given = {STATE_ANCHOR: anchor_address, MEMORY_REGISTRY: registry_address}
    found = {}
    for name in CONTRACTS:
        row, address = recorded.get(name), given[name]
        if row is not None and (address is None or row.address.lower() == address.lower()):
            found[name] = DeployedContract(name, row.address, row.block_number, row.tx_hash, row.code_hash)
        elif address is not None:
            found[name] = DeployedContract(name, _checksummed(address), 0, "", "")
    if len(found) < len(CONTRACTS):
        return None
    return Deployment(chain_id, found[STATE_ANCHOR], found[MEMORY_REGISTRY])


class Setup:
    """Finds, checks and, where told to, deploys the contracts of one station."""

    def __init__(self, station: Station, post: Post) -> None:
        self._station = station
        self._post = post
        self._contracts: Contracts | None = None
        self._checked = 0.0

    def contracts(self, lease: Lease) -> Contracts | None:
        """Return the contracts, checked again now and then; None while they are being deployed.

        Raises CodeMismatch, NotDeployed, and what sending raises.
        """
        station = self._station
        recent = station.clock.steady() - self._checked < station.options.recheck_s
        if self._contracts is not None and recent:
            return self._contracts
        with station.db.read() as tx:
            deployment = known_deployment(
                tx,
                station.chain_id,
                anchor_address=station.options.anchor_address,
                registry_address=station.options.registry_address,
            )
            deploying = {
                row.purpose.removeprefix(DEPLOY)
                for row in station.open_transactions(tx)
                if row.purpose.startswith(DEPLOY)
            }
        if deployment is None:
            self._contracts = None
            self._deploy(lease, deploying)
            return None
        try:
            contracts = self._checked_contracts(deployment)
            if self._contracts is None:
                move_if_needed(station, lease, contracts)
            self._contracts = contracts
        except CodeMismatch:
            self._contracts = None
            if not deploying and not self._deploy_again(lease, deployment):
                raise
        self._checked = station.clock.steady()
        return self._contracts

    def forget(self) -> None:
        """Check everything again at the next occasion (after the node was away)."""
        self._checked = float("-inf")

    def _checked_contracts(self, deployment: Deployment) -> Contracts:
        gateway = self._station.gateway
        for contract in (deployment.anchors, deployment.registry):
            check_code(gateway, contract.name, contract.address)
        return Contracts(
            deployment,
            StateAnchors(gateway, deployment.anchors.address),
            MemoryRegistry(gateway, deployment.registry.address),
        )

    def _deploy(self, lease: Lease, deploying: set[str]) -> None:
        station = self._station
        with station.db.read() as tx:
            recorded = tx.deployments.of_chain(station.chain_id)
        missing = [name for name in CONTRACTS if name not in recorded and name not in deploying]
        if not station.options.deploys or station.options.part.index > 1:
            raise NotDeployed(
                f"No contracts are known on chain {station.chain_id}. Deploy them (chainmemory contracts "
                "deploy) or give their addresses (anchor_address, registry_address)."
            )
        if not missing:
            return
        signer = station.signer.address
        drafts = [
            Draft(
                DEPLOY + name,
                None,
                creation_code(name, admin=signer, submitter=signer),
                creation_gas(name),
            )
            for name in missing
        ]
        nonces = free_nonces(station, station.gateway.nonce(signer), len(drafts))
        fees = station.policy.quote(station.gateway.fee_market())
        self._post.dispatch(lease, drafts, nonces, fees)

    def _deploy_again(self, lease: Lease, deployment: Deployment) -> bool:
        """Send our deploying transactions again where the chain has forgotten them; False if it hasn't.

        The same bytes with the same nonces give the same addresses.
        """
        station = self._station
        with station.db.read() as tx:
            known = [
                tx.transactions.get(contract.tx_hash)
                for contract in (deployment.anchors, deployment.registry)
            ]
        gone = [row for row in known if row is not None and station.gateway.receipt(row.tx_hash) is None]
        with station.db.write() as tx:
            for row in gone:
                tx.worker.reopen(lease, row.tx_hash, now=station.clock.now())
        for row in gone:
            self._post.forget_push(row.tx_hash)
            log.warning(
                "the chain has lost a contract; deploying it again",
                action="worker.deploys_again",
                purpose=row.purpose,
            )
        return bool(gone)


def take_deployment(station: Station, lease: Lease, row: TransactionRow, receipt: Receipt) -> None:
    """Record a contract that a mined transaction created. Raises CodeMismatch where it didn't."""
    name = row.purpose.removeprefix(DEPLOY)
    try:
        created = check_created(station.gateway, name, receipt)
    except CodeMismatch:
        _mark(station, lease, row, receipt, FAILED)
        raise
    with station.db.write() as tx:
        tx.leases.guard(lease)
        tx.deployments.add(
            DeploymentRow(
                station.chain_id,
                name,
                created.address,
                created.block_number,
                created.tx_hash,
                created.code_hash,
                station.clock.now(),
            )
        )
    _mark(station, lease, row, receipt, CONFIRMED)
    station.step("deployed")


def check_submitter(station: Station, contracts: Contracts) -> None:
    """Raise NotSubmitter unless both contracts let the signer write."""
    signer = station.signer.address
    if not contracts.anchors.is_submitter(signer) or not contracts.registry.is_submitter(signer):
        raise NotSubmitter(
            f"The contracts don't let the signer {signer} write. Their admin can change that: "
            f"chainmemory contracts grant {signer}."
        )


def free_nonces(station: Station, used: int, count: int) -> list[int]:
    """Return the lowest `count` nonces from `used` on that we signed nothing for, or gave it up.

    What we signed keeps its nonce even where it was in a block already: a reorganisation may have freed it,
    and then the old bytes are to have it again.
    """
    with station.db.read() as tx:
        taken = tx.worker.nonces_from(station.chain_id, station.signer.address, used)
    return lowest_free(used, taken, count)


def lowest_free(used: int, taken: set[int], count: int) -> list[int]:
    """Return the lowest `count` integers from `used` on that aren't taken. Pure."""
    nonces: list[int] = []
    nonce = used
    while len(nonces) < count:
        if nonce not in taken:
            nonces.append(nonce)
        nonce += 1
    return nonces


def _mark(station: Station, lease: Lease, row: TransactionRow, receipt: Receipt, status: str) -> None:
    with station.db.write() as tx:
        tx.transactions.mark(
            lease,
            row.tx_hash,
            status,
            now=station.clock.now(),
            block_number=receipt.block_number,
            block_hash=receipt.block_hash,
            gas_used=receipt.gas_used,
        )


def _checksummed(address: str) -> str:
    from eth_utils.address import to_checksum_address
    from eth_utils.exceptions import ValidationError

    try:
        return str(to_checksum_address(address))
    except (ValueError, ValidationError):
        raise ConfigurationError("A contract address must be 0x followed by 40 hex digits.") from None
