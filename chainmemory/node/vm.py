"""London's rules under Clique. Where py-evm accepts what geth refuses, the difference is put right here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainmemory.node.clique import Clique
from chainmemory.node.evm import (
    EMPTY_UNCLE_HASH,
    Address,
    BlockAPI,
    BlockHeaderAPI,
    ExecutionContext,
    LondonState,
    LondonVM,
    ReceiptAPI,
    SignedTransactionAPI,
    ValidationError,
    configure_header,
    get_parent_header,
    validate_length_lte,
)
from chainmemory.node.formats import CliqueBlock, check_transaction_chain
from chainmemory.node.ordered_trie import list_trie

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
