"""py-evm's chain bound to one genesis: blocks by number and hash, and a state after any of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainmemory.node.clique import Clique, CliqueContext, wins_tie
from chainmemory.node.evm import (
    GENESIS_CHAIN_GAPS,
    Address,
    AtomicDatabaseAPI,
    BlockAPI,
    BlockHeaderAPI,
    BlockNumber,
    BlockPersistResult,
    Chain,
    ChainDB,
    DatabaseAPI,
    ExecutionContext,
    GapChange,
    Hash32,
    SchemaV1,
    StateAPI,
)
from chainmemory.node.genesis import Genesis
from chainmemory.node.vm import CliqueState, CliqueVM


class CliqueChainDB(ChainDB):
    """Block storage for a chain that is only ever extended block by block, so it has no gaps to track.

    py-evm's tracking of gaps breaks when a heavier but shorter branch takes over.
    """

    @classmethod
    def _update_header_chain_gaps(
        cls,
        db: DatabaseAPI,  # noqa: ARG003
        persisted_header: BlockHeaderAPI,  # noqa: ARG003
        base_gaps: Any = None,  # noqa: ARG003
    ) -> Any:
        return GapChange.NoChange, GENESIS_CHAIN_GAPS

    @classmethod
    def _update_chain_gaps(
        cls,
        db: DatabaseAPI,  # noqa: ARG003
        persisted_block: BlockAPI,  # noqa: ARG003
        base_gaps: Any = None,  # noqa: ARG003
    ) -> Any:
        return GapChange.NoChange, GENESIS_CHAIN_GAPS

    @classmethod
    def _decanonicalize_descendant_orphans(
        cls,
        db: DatabaseAPI,
        header: BlockHeaderAPI,
        checkpoints: tuple[Hash32, ...],  # noqa: ARG003
    ) -> None:
        number = BlockNumber(header.block_number + 1)
        while (key := SchemaV1.make_block_number_to_hash_lookup_key(number)) in db:
            del db[key]
            number = BlockNumber(number + 1)

    @classmethod
    def _persist_header_chain(
        cls, db: DatabaseAPI, headers: Iterable[BlockHeaderAPI], genesis_parent_hash: Hash32
    ) -> tuple[tuple[BlockHeaderAPI, ...], tuple[BlockHeaderAPI, ...]]:
        """Store headers; the heaviest chain becomes the canonical one, and of equal ones `wins_tie`'s."""
        given = tuple(headers)
        changed = super()._persist_header_chain(db, given, genesis_parent_hash)
        if changed != ((), ()) or not given:
            return changed
        new, head = given[-1], cls._get_canonical_head(db)
        if cls._get_score(db, new.hash) == cls._get_score(db, head.hash) and wins_tie(new, head):
            return cls._set_as_canonical_chain_head(db, new, genesis_parent_hash)
        return changed

    def forget_transaction(self, transaction_hash: bytes) -> None:
        """Drop the lookup of a transaction whose block is no longer canonical."""
        self._remove_transaction_from_canonical_chain(self.db, Hash32(transaction_hash))


class CliqueChain(Chain):
    """A py-evm chain whose every block follows `CliqueVM`; `chain_class` binds it to one genesis."""

    chaindb_class = CliqueChainDB
    chaindb: CliqueChainDB
    consensus_context: CliqueContext
    period = 1

    def persist_block(self, block: BlockAPI, perform_validation: bool = True) -> BlockPersistResult:
        """Validate and store an executed block.

        Which blocks became canonical is `BlockStore`'s business; py-evm would read them all again here.
        """
        if perform_validation:
            self.validate_block(block)
        self.chaindb.persist_block(block)
        return BlockPersistResult(block, (), ())

    def state_after(
        self,
        header: BlockHeaderAPI,
        *,
        base_fee: int = 0,
        pending: bool = False,
        state_class: type[StateAPI] = CliqueState,
    ) -> StateAPI:
        """Return a scratch state on top of `header`'s, in that block's own context (or the next one's).

        A base fee of 0 lets a call run without a price.
        """
        number, hashes = header.block_number, self._previous_hashes(header, including=pending)
        context = ExecutionContext(
            coinbase=Address(Clique.get_fee_recipient(header)),
            timestamp=header.timestamp + (self.period if pending else 0),
            block_number=BlockNumber(number + 1) if pending else number,
            difficulty=header.difficulty,
            mix_hash=header.mix_hash,
            gas_limit=header.gas_limit,
            prev_hashes=hashes,
            chain_id=self.chain_id,
            base_fee_per_gas=base_fee,
        )
        return state_class(self.chaindb.db, context, header.state_root)

    def _previous_hashes(self, header: BlockHeaderAPI, *, including: bool) -> Iterable[Hash32]:
        return CliqueVM.get_prev_hashes(header.hash if including else header.parent_hash, self.chaindb) or ()


def chain_class(genesis: Genesis) -> type[CliqueChain]:
    """Return the chain type with the genesis' chain id, period and epoch bound in."""
    context = type("Context", (CliqueContext,), {"epoch": genesis.epoch})
    vm = type("GenesisVM", (CliqueVM,), {"period": genesis.period})
    members: dict[str, Any] = {
        "chain_id": genesis.chain_id,
        "vm_configuration": ((0, vm),),
        "consensus_context_class": context,
        "period": genesis.period,
    }
    return type("GenesisChain", (CliqueChain,), members)


def create_genesis(database: AtomicDatabaseAPI, genesis: Genesis) -> CliqueChain:
    """Write block 0 into an empty database."""
    accounts: Any = {
        Address(address): {"balance": wei, "nonce": 0, "code": b"", "storage": {}}
        for address, wei in genesis.balances
    }
    parameters: Any = {
        "difficulty": 1,
        "timestamp": genesis.timestamp,
        "gas_limit": genesis.gas_limit,
        "nonce": bytes(8),
        "mix_hash": bytes(32),
        "coinbase": bytes(20),
        "extra_data": genesis.extra_data,
        "base_fee_per_gas": genesis.base_fee,
    }
    chain = chain_class(genesis).from_genesis(database, parameters, accounts)
    assert isinstance(chain, CliqueChain)
    return chain
