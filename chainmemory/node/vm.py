"""py-evm, as far as the node touches it: London's rules under Clique, and the ten or so entry points in use.

What the node's other files need of py-evm comes through here, `clique.py` or `database.py`, so that another
engine would replace these three. Where py-evm accepts what geth refuses, the difference is put
right here (`CliqueState.validate_transaction`, `CliqueVM.validate_header`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth._utils.address import generate_contract_address
from eth._utils.db import get_parent_header
from eth.abc import (
    AtomicDatabaseAPI,
    BlockAPI,
    BlockHeaderAPI,
    BlockPersistResult,
    ComputationAPI,
    DatabaseAPI,
    ReceiptAPI,
    SignedTransactionAPI,
    StateAPI,
)
from eth.chains.base import Chain
from eth.consensus.clique.clique import configure_header
from eth.constants import EMPTY_UNCLE_HASH
from eth.db.chain import ChainDB
from eth.db.chain_gaps import GENESIS_CHAIN_GAPS, GapChange
from eth.db.schema import SchemaV1
from eth.exceptions import HeaderNotFound, OutOfGas, Revert, TransactionNotFound, VMError
from eth.rlp.accounts import Account
from eth.validation import validate_length_lte
from eth.vm.execution_context import ExecutionContext
from eth.vm.forks.london import LondonVM
from eth.vm.forks.london.blocks import LondonBackwardsHeader, LondonBlock, LondonBlockHeader
from eth.vm.forks.london.state import LondonState
from eth.vm.forks.london.transactions import (
    LondonLegacyTransaction,
    LondonTransactionBuilder,
    LondonTypedTransaction,
)
from eth_hash.auto import keccak
from eth_keys.exceptions import BadSignature
from eth_typing import Address, BlockNumber, Hash32
from eth_utils.exceptions import ValidationError
from rlp.sedes import CountableList  # type: ignore[import-untyped]
from trie.hexary import HexaryTrie

from chainmemory.node.clique import Clique, CliqueContext
from chainmemory.node.genesis import Genesis
from chainmemory.node.ordered_trie import list_trie

__all__ = [
    "Account",
    "Address",
    "BlockAPI",
    "BlockHeaderAPI",
    "BlockNumber",
    "CliqueChain",
    "CliqueChainDB",
    "CliqueVM",
    "ComputationAPI",
    "Hash32",
    "HeaderNotFound",
    "LondonBlockHeader",
    "OutOfGas",
    "ReceiptAPI",
    "Revert",
    "SignedTransactionAPI",
    "StateAPI",
    "TransactionNotFound",
    "VMError",
    "ValidationError",
    "base_fee_of",
    "chain_class",
    "contract_address",
    "create_genesis",
    "decode_block",
    "decode_transaction",
    "encode_block",
    "encode_header",
    "keccak",
    "rlp_decode",
    "rlp_decode_integer",
    "trie_proof",
]

# py-evm logs every refused block with all its bytes; our own log says the reason in one line.
for _name in ("eth.db.AtomicDBWriteBatch", "eth.chain.chain.Chain"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

MAX_NONCE = 2**64 - 1


class CliqueState(LondonState):
    """London's state transition with four checks geth makes and py-evm doesn't."""

    def validate_transaction(self, transaction: SignedTransactionAPI) -> None:
        """Refuse (ValidationError) what no other client would execute."""
        check_transaction_chain(transaction, self.execution_context.chain_id)
        if transaction.max_priority_fee_per_gas > transaction.max_fee_per_gas:
            raise ValidationError("max priority fee per gas higher than max fee per gas")
        if transaction.nonce >= MAX_NONCE:
            raise ValidationError("nonce has max value")
        if self.get_code(transaction.sender):
            raise ValidationError("sender not an eoa")  # EIP-3607
        cost = transaction.value + transaction.gas * transaction.max_fee_per_gas
        if self.get_balance(transaction.sender) < cost:
            raise ValidationError("insufficient funds for gas * price + value")
        super().validate_transaction(transaction)


def check_transaction_chain(transaction: SignedTransactionAPI, chain_id: int) -> None:
    """Refuse (ValidationError) a transaction signed for another chain; unprotected legacy ones pass."""
    if transaction.chain_id not in (None, chain_id):
        raise ValidationError(f"invalid chain id for signer: have {transaction.chain_id} want {chain_id}")


class _RecoveredSignature:
    """Checks a signature by recovering its sender, once; py-evm also verifies what it just recovered."""

    sender: Address

    def check_signature_validity(self) -> None:
        """Refuse (ValidationError) a signature that leads to no key."""
        try:
            _ = self.sender
        except BadSignature as error:
            raise ValidationError(f"Bad Signature: {error}") from error


class CliqueLegacyTransaction(_RecoveredSignature, LondonLegacyTransaction):
    """A legacy transaction."""


class CliqueTypedTransaction(_RecoveredSignature, LondonTypedTransaction):
    """A transaction of type 1 or 2."""


class CliqueTransactionBuilder(LondonTransactionBuilder):
    """London's transactions, read as the two types above."""

    legacy_signed = CliqueLegacyTransaction
    typed_transaction = CliqueTypedTransaction


class CliqueBlock(LondonBlock):
    """London's block, whose copies share what isn't replaced: py-evm copies every transaction each time."""

    transaction_builder = CliqueTransactionBuilder
    fields = [  # noqa: RUF012 (rlp wants a list)
        ("header", LondonBlockHeader),
        ("transactions", CountableList(CliqueTransactionBuilder)),
        ("uncles", CountableList(LondonBackwardsHeader)),
    ]

    def copy(self, *args: Any, **fields: Any) -> CliqueBlock:
        """Return a block with some fields replaced."""
        assert not args
        kept = {"header": self.header, "transactions": self.transactions, "uncles": self.uncles}
        return type(self)(**{**kept, **fields})


class CliqueVM(LondonVM):
    """London under Clique: no rewards, the sealer takes the fees, blocks at least a period apart."""

    consensus_class = Clique
    block_class = CliqueBlock
    extra_data_max_bytes = 65535
    configure_header = configure_header
    _state_class = CliqueState
    period = 1

    @staticmethod
    def get_block_reward() -> int:
        """Return 0: Clique creates no coins."""
        return 0

    def _assign_block_rewards(self, block: BlockAPI) -> None:
        # py-evm would touch the vote's subject here and leave an empty account, so another state root than
        # every other client's.
        pass

    @classmethod
    def validate_header(cls, header: BlockHeaderAPI, parent_header: BlockHeaderAPI) -> None:
        """Refuse (ValidationError) a header that can't follow `parent_header`."""
        validate_length_lte(header.extra_data, cls.extra_data_max_bytes, title="BlockHeader.extra_data")
        cls.validate_gas(header, parent_header)
        if header.gas_used > header.gas_limit:
            raise ValidationError(f"gas used {header.gas_used} exceeds the limit {header.gas_limit}")
        if header.block_number != parent_header.block_number + 1:
            raise ValidationError(f"block {header.block_number} doesn't follow {parent_header.block_number}")
        if header.timestamp < parent_header.timestamp + cls.period:
            raise ValidationError(
                f"timestamp {header.timestamp} is less than {cls.period} s after the parent's "
                f"{parent_header.timestamp}"
            )

    def set_block_transactions_and_withdrawals(
        self,
        base_block: BlockAPI,
        new_header: BlockHeaderAPI,
        transactions: Sequence[SignedTransactionAPI],
        receipts: Sequence[ReceiptAPI],
        withdrawals: Any = None,  # noqa: ARG002 (London has none)
    ) -> BlockAPI:
        """Return the block with its transactions and receipts, whose tries wait in the database."""
        transaction_root, transaction_nodes = list_trie([tx.encode() for tx in transactions])
        receipt_root, receipt_nodes = list_trie([receipt.encode() for receipt in receipts])
        self.chaindb.persist_trie_data_dict({**transaction_nodes, **receipt_nodes})  # type: ignore[dict-item]
        header = new_header.copy(transaction_root=transaction_root, receipt_root=receipt_root)
        return base_block.copy(header=header, transactions=tuple(transactions))

    def validate_block(self, block: BlockAPI) -> None:
        """Refuse (ValidationError) a block whose parts don't match its header or its parent."""
        self.validate_header(block.header, get_parent_header(block.header, self.chaindb))
        if list_trie([tx.encode() for tx in block.transactions])[0] != block.header.transaction_root:
            raise ValidationError("the transactions don't match the transaction_root")
        if block.uncles or block.header.uncles_hash != EMPTY_UNCLE_HASH:
            raise ValidationError("a Clique block has no uncles")
        if self.state.make_state_root() != block.header.state_root:
            raise ValidationError("the state doesn't match the state_root")

    def seal_as(self, sealer: bytes) -> None:
        """Let the block being assembled pay its fees to `sealer`, whose seal doesn't exist yet.

        Call before the first access to `state`.
        """
        header = self.get_header()
        context = ExecutionContext(
            coinbase=Address(sealer),
            timestamp=header.timestamp,
            block_number=header.block_number,
            difficulty=header.difficulty,
            mix_hash=header.mix_hash,
            gas_limit=header.gas_limit,
            prev_hashes=self.previous_hashes or (),
            chain_id=self.chain_context.chain_id,
            base_fee_per_gas=header.base_fee_per_gas,
        )
        self._state = self.get_state_class()(self.chaindb.db, context, header.state_root)


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

    def forget_transaction(self, transaction_hash: bytes) -> None:
        """Drop the lookup of a transaction whose block is no longer canonical."""
        self._remove_transaction_from_canonical_chain(self.db, Hash32(transaction_hash))


class CliqueChain(Chain):
    """A py-evm chain whose every block follows `CliqueVM`; `chain_class` binds it to one genesis."""

    chaindb_class = CliqueChainDB
    chaindb: CliqueChainDB
    consensus_context: CliqueContext

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
            timestamp=header.timestamp + (CliqueVM.period if pending else 0),
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


def decode_block(raw: bytes) -> CliqueBlock:
    """Read a block's RLP (ValidationError when it isn't one)."""
    try:
        block = rlp.decode(raw, sedes=CliqueBlock)
        assert isinstance(block, CliqueBlock)
        return block
    except Exception as error:  # rlp's and py-evm's decoders raise a dozen types on bad bytes
        raise ValidationError(f"not a block: {error}") from error


def decode_transaction(raw: bytes) -> SignedTransactionAPI:
    """Read a transaction's canonical bytes (ValidationError when they aren't)."""
    try:
        transaction = CliqueVM.get_transaction_builder().decode(raw)
        if transaction.encode() != raw:
            raise ValidationError("not the canonical encoding")
        return transaction
    except Exception as error:
        raise ValidationError(str(error) or type(error).__name__) from error


def base_fee_of(header: BlockHeaderAPI) -> int:
    """Return a London header's base fee in wei."""
    fee = header.base_fee_per_gas
    assert fee is not None
    return fee


def contract_address(transaction: SignedTransactionAPI) -> bytes:
    """Return the address of the contract a creating transaction makes."""
    return bytes(generate_contract_address(transaction.sender, transaction.nonce))


def encode_block(block: BlockAPI) -> bytes:
    """Return a block's RLP."""
    return bytes(rlp.encode(block))


def encode_header(header: BlockHeaderAPI) -> bytes:
    """Return a header's RLP."""
    return bytes(rlp.encode(header))


def rlp_decode(raw: bytes, sedes: Any) -> Any:
    """Read RLP of a known form."""
    return rlp.decode(raw, sedes=sedes)


def rlp_decode_integer(raw: bytes) -> int:
    """Read an integer's RLP."""
    return int(rlp.decode(raw, sedes=rlp.sedes.big_endian_int))


def trie_proof(database: DatabaseAPI, root: bytes, key: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the value at `key` (empty when absent) and the RLP of the nodes from the root towards it.

    A node short enough to be part of its parent is not listed by itself.
    """
    trie: Any = HexaryTrie(database, Hash32(root))
    nodes = [bytes(rlp.encode(node)) for node in trie.get_proof(key)]
    return bytes(trie[key]), tuple(node for i, node in enumerate(nodes) if i == 0 or len(node) >= 32)
