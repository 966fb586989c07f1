"""What the contracts hold, read by the bindings, and a hand to write past the worker."""

from __future__ import annotations

from chainmemory.chain.anchor_contract import StateAnchors, StateItem
from chainmemory.chain.deploy import Deployment, wait_for
from chainmemory.chain.fees import GWEI, FeePolicy
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.registry import MemoryOnChain, MemoryRegistry, Payload
from chainmemory.chain.signer import Signer
from chainmemory.protocol.identity import account_ref, ledger_id
from chainmemory.store.database import Database
from chainmemory.store.outbox_rows import OutboxRow


class OnChain:
    """Both contracts of a deployment, for assertions."""

    def __init__(self, gateway: Gateway, deployment: Deployment) -> None:
        self.gateway = gateway
        self.anchors = StateAnchors(gateway, deployment.anchors.address)
        self.registry = MemoryRegistry(gateway, deployment.registry.address)

    def state_hashes(self, project_id: str, count: int) -> list[str]:
        return self.anchors.state_hashes_of(project_id, 1, count)

    def memory_hashes(self, account_id: str, count: int) -> list[str | None]:
        found = [
            self.registry.find(account_ref(account_id), number, from_block=0)
            for number in range(1, count + 1)
        ]
        return [memory and memory.event_hash for memory in found]

    def memory(self, event_hash: str) -> MemoryOnChain | None:
        return self.registry.find_hash(event_hash, from_block=0)

    def payload_of(self, event_hash: str) -> Payload | None:
        found = self.memory(event_hash)
        assert found is not None
        return found.payload

    def batch_root(self, account_id: str, first: int) -> str:
        return self.registry.root_of(account_ref(account_id), first)

    def latest_head(self, account_id: str) -> tuple[int, str]:
        seq, entry_hash = self.anchors.latest_head(ledger_id(account_id))
        return seq, entry_hash.removeprefix("0x")

    def event_is_at(self, row: OutboxRow) -> bool:
        """Say whether the row's transaction and block are where its event really is."""
        if row.kind == "memory":
            found = self.registry.find(account_ref(row.subject), row.position, from_block=0)
            assert found is not None
            return (found.tx_hash, found.block_number, found.block_hash) == (
                row.tx_hash,
                row.block_number,
                row.block_hash,
            )
        if row.kind == "state":
            event = self.anchors.state_event(row.subject, row.position, from_block=0)
        else:
            event = self.anchors.head_event(ledger_id(row.subject), row.position, from_block=0)
        assert event is not None
        log = event.log
        return (log.tx_hash, log.block_number, log.block_hash) == (
            row.tx_hash,
            row.block_number,
            row.block_hash,
        )

    def events(self, name: str) -> int:
        """Count a contract's events by name."""
        for contract in (self.anchors, self.registry):
            try:
                topic = contract.abi.topic(name)
            except KeyError:
                continue
            return len(self.gateway.logs(contract.address, [topic], from_block=0))
        raise KeyError(name)

    def skipped(self) -> list[str]:
        """Name the elements any call skipped, one for each."""
        names = ("StateSkipped", "HeadSkipped", "MemorySkipped", "PayloadSkipped")
        return [name for name in names for _ in range(self.events(name))]

    def anchor(self, signer: Signer, project_id: str, version: int, state_hash: str) -> str:
        """Anchor a state past the worker, and return the transaction's hash."""
        data = self.anchors.encode_states([StateItem(project_id, version, state_hash)])
        return self.send(signer, self.anchors.address, data)

    def send(self, signer: Signer, to: str, data: bytes) -> str:
        """Send a transaction past the worker, wait for its block, and return its hash."""
        signed = signer.sign(
            chain_id=self.gateway.chain_id(),
            nonce=self.gateway.nonce(signer.address),
            to=to,
            data=data,
            gas_limit=300_000,
            fees=FeePolicy(200 * GWEI).quote(self.gateway.fee_market()),
        )
        self.gateway.send_raw(signed.raw)
        assert wait_for(lambda: self.gateway.receipt(signed.hash), 20, "the receipt").succeeded
        return signed.hash

    @staticmethod
    def forget(db: Database, account_id: str, number: int) -> None:
        """Forget a memory as the engine will: blob and seed are gone, the row says so."""
        from sqlalchemy import update

        from chainmemory.store.tables import memories

        with db.write() as tx:
            tx.memories._session.execute(
                update(memories)
                .where(memories.c.account_id == account_id, memories.c.number == number)
                .values(forgotten=True, content_blob=None, wrapped_seed=None)
            )
