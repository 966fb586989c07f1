"""py-evm, as far as the node uses it: every name it takes from there, and nothing else.

Only this file imports `eth`; another engine would have to offer these.
"""

from __future__ import annotations

import logging

from eth._utils.address import generate_contract_address
from eth._utils.db import get_parent_header
from eth.abc import (
    AtomicDatabaseAPI,
    BlockAPI,
    BlockHeaderAPI,
    BlockPersistResult,
    ComputationAPI,
    ConsensusAPI,
    ConsensusContextAPI,
    DatabaseAPI,
    ReceiptAPI,
    SignedTransactionAPI,
    StateAPI,
)
from eth.chains.base import Chain
from eth.consensus.clique.clique import configure_header
from eth.constants import EMPTY_UNCLE_HASH
from eth.db.atomic import AtomicDBWriteBatch
from eth.db.backends.base import BaseAtomicDB
from eth.db.chain import ChainDB
from eth.db.chain_gaps import GENESIS_CHAIN_GAPS, GapChange
from eth.db.schema import SchemaV1
from eth.exceptions import HeaderNotFound, OutOfGas, Revert, TransactionNotFound, VMError
from eth.precompiles.blake2 import blake2b_fcompress
from eth.precompiles.ecpairing import ecpairing
from eth.rlp.accounts import Account
from eth.validation import validate_length_lte
from eth.vm.execution_context import ExecutionContext
from eth.vm.forks.london import LondonVM
from eth.vm.forks.london.blocks import LondonBackwardsHeader, LondonBlock, LondonBlockHeader
from eth.vm.forks.london.computation import LondonComputation
from eth.vm.forks.london.state import LondonState
from eth.vm.forks.london.transactions import (
    LondonLegacyTransaction,
    LondonTransactionBuilder,
    LondonTypedTransaction,
    UnsignedDynamicFeeTransaction,
)
from eth.vm.gas_meter import GasMeter, allow_negative_refund_strategy
from eth.vm.spoof import SpoofTransaction
from eth_hash.auto import keccak
from eth_typing import Address, BlockNumber, Hash32
from eth_utils.exceptions import ValidationError

__all__ = [
    "EMPTY_UNCLE_HASH",
    "GENESIS_CHAIN_GAPS",
    "Account",
    "Address",
    "AtomicDBWriteBatch",
    "AtomicDatabaseAPI",
    "BaseAtomicDB",
    "BlockAPI",
    "BlockHeaderAPI",
    "BlockNumber",
    "BlockPersistResult",
    "Chain",
    "ChainDB",
    "ComputationAPI",
    "ConsensusAPI",
    "ConsensusContextAPI",
    "DatabaseAPI",
    "ExecutionContext",
    "GapChange",
    "GasMeter",
    "Hash32",
    "HeaderNotFound",
    "LondonBackwardsHeader",
    "LondonBlock",
    "LondonBlockHeader",
    "LondonComputation",
    "LondonLegacyTransaction",
    "LondonState",
    "LondonTransactionBuilder",
    "LondonTypedTransaction",
    "LondonVM",
    "OutOfGas",
    "ReceiptAPI",
    "Revert",
    "SchemaV1",
    "SignedTransactionAPI",
    "SpoofTransaction",
    "StateAPI",
    "TransactionNotFound",
    "UnsignedDynamicFeeTransaction",
    "VMError",
    "ValidationError",
    "allow_negative_refund_strategy",
    "blake2b_fcompress",
    "configure_header",
    "ecpairing",
    "generate_contract_address",
    "get_parent_header",
    "keccak",
    "validate_length_lte",
]

# py-evm logs every refused block with all its bytes; our own log says the reason in one line.
for _name in ("eth.db.AtomicDBWriteBatch", "eth.chain.chain.Chain"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)
