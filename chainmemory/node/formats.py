"""Transactions and blocks, and their canonical bytes."""

from __future__ import annotations

from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_keys.exceptions import BadSignature
from rlp.sedes import CountableList  # type: ignore[import-untyped]

from chainmemory.node.evm import (
    Address,
    BlockAPI,
    BlockHeaderAPI,
    LondonBackwardsHeader,
    LondonBlock,
    LondonBlockHeader,
    LondonLegacyTransaction,
    LondonTransactionBuilder,
    LondonTypedTransaction,
    SignedTransactionAPI,
    ValidationError,
    generate_contract_address,
)


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


def check_transaction_chain(transaction: SignedTransactionAPI, chain_id: int) -> None:
    """Refuse (ValidationError) a transaction signed for another chain; unprotected legacy ones pass."""
    if transaction.chain_id not in (None, chain_id):
        raise ValidationError(f"invalid chain id for signer: have {transaction.chain_id} want {chain_id}")


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
        transaction = CliqueTransactionBuilder.decode(raw)
        if transaction.encode() != raw:
            raise ValidationError("not the canonical encoding")
        return transaction
    except Exception as error:
        raise ValidationError(str(error) or type(error).__name__) from error


def decode_admitted(raw: bytes, sender: bytes) -> SignedTransactionAPI:
    """Read a transaction of the pool, whose form was checked and `sender` recovered when it was admitted."""
    transaction = CliqueTransactionBuilder.decode(raw)
    # py-evm keeps what it recovered under the same name; recovering it again costs a tenth of executing it.
    vars(transaction)["sender"] = Address(sender)
    return transaction


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
