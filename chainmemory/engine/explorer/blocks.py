"""The chain's front page, its list of blocks, and one block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from chainmemory.engine.explorer import decode
from chainmemory.engine.explorer.answers import Block, Receipt, Transaction
from chainmemory.engine.explorer.directory import Known
from chainmemory.engine.explorer.reader import MAX_NUMBER, Reader
from chainmemory.engine.explorer.seals import SealReport, genesis_signers, judge, signer_of
from chainmemory.engine.explorer.visit import Visit, When
from chainmemory.errors import NotFound

BLOCKS_A_PAGE: Final = 25
BLOCKS_IN_FRONT: Final = 10
TRANSACTIONS_A_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class BlockLine:
    """A block in a list."""

    number: int
    hash: str
    when: When
    transactions: int
    gas_used: int
    gas_limit: int
    signer: str | None


@dataclass(frozen=True, slots=True)
class SignerLine:
    """An authority, and how many of the listed blocks it sealed."""

    address: str
    sealed: int


@dataclass(frozen=True, slots=True)
class BlockPage:
    """One page of blocks, newest first; `newer` and `older` are where the neighbouring pages start."""

    lines: tuple[BlockLine, ...]
    head: int
    newer: int | None
    older: int | None


@dataclass(frozen=True, slots=True)
class TransactionLine:
    """A transaction in a block; `succeeded` and `events` are None where the node doesn't say."""

    hash: str
    sender: str
    to: str | None
    known: Known | None
    call: str | None
    creates: str | None
    value: int
    succeeded: bool | None
    events: int | None


@dataclass(frozen=True, slots=True)
class BlockView:
    """One block with its seal judged and a page of its transactions."""

    block: Block
    when: When
    seal: SealReport
    confirmations: int
    canonical: bool
    previous: int | None
    following: int | None
    transactions: tuple[TransactionLine, ...]
    first: int
    total: int
    more: int | None


def block_page(visit: Visit, top: int | None) -> BlockPage:
    """Return the blocks from `top` (default the head) downwards."""
    head = visit.head.number
    top = head if top is None else min(top, head)
    lines = block_lines(visit, top, BLOCKS_A_PAGE)
    oldest = top - BLOCKS_A_PAGE + 1
    return BlockPage(
        lines,
        head,
        newer=min(head, top + BLOCKS_A_PAGE) if top < head else None,
        older=oldest - 1 if oldest > 0 else None,
    )


def block_lines(visit: Visit, top: int, count: int) -> tuple[BlockLine, ...]:
    """Return up to `count` blocks from `top` downwards."""
    numbers = range(top, max(-1, top - count), -1)
    found = visit.reader.each(visit.reader.numbered, numbers)
    return tuple(block_line(visit, block) for block in found if block is not None)


def signer_lines(visit: Visit, lines: Sequence[BlockLine]) -> tuple[tuple[SignerLine, ...], bool]:
    """Return the authorities with their share of `lines`, and whether the genesis block alone tells them."""
    told = visit.reader.signers(visit.head.number)
    signers = told or genesis_signers(visit.reader) or []
    sealed = Counter(line.signer for line in lines if line.signer is not None)
    return tuple(SignerLine(address, sealed[address]) for address in sorted(signers, key=str.lower)), not told


def block_view(visit: Visit, name: int | str, first: int) -> BlockView:
    """Return one block by number or hash, its transactions from the `first` on. Raises NotFound."""
    block = find_block(visit.reader, visit.head, name, full=True)
    if block is None:
        raise NotFound("There is no such block on this chain.")
    head = visit.head.number
    same_height = block if isinstance(name, int) else visit.reader.numbered(block.number)
    canonical = same_height is not None and same_height.hash == block.hash
    shown = block.transactions[first : first + TRANSACTIONS_A_PAGE]
    receipts = visit.reader.block_receipts(block.number) if shown and canonical else None
    return BlockView(
        block,
        visit.when(block.timestamp),
        judge(visit.reader, block),
        confirmations=max(0, head - block.number + 1),
        canonical=canonical,
        previous=block.number - 1 if block.number else None,
        following=block.number + 1 if block.number < head else None,
        transactions=tuple(_transaction_line(visit, one, receipts) for one in shown),
        first=first,
        total=len(block.transaction_hashes),
        more=first + len(shown) if first + len(shown) < len(block.transactions) else None,
    )


def find_block(reader: Reader, head: Block, name: int | str, *, full: bool = False) -> Block | None:
    """Return a block by number or hash (hex32), None where there is none."""
    if isinstance(name, int) and not 0 <= name <= min(head.number, MAX_NUMBER):
        return None
    return reader.block(name, full=full)


def block_line(visit: Visit, block: Block) -> BlockLine:
    """Return a block as a list shows it."""
    return BlockLine(
        block.number,
        block.hash,
        visit.when(block.timestamp),
        len(block.transaction_hashes),
        block.gas_used,
        block.gas_limit,
        signer_of(block),
    )


def _transaction_line(
    visit: Visit, transaction: Transaction, receipts: dict[str, Receipt] | None
) -> TransactionLine:
    receipt = (receipts or {}).get(transaction.hash)
    known = visit.directory.named(transaction.to)
    call = decode.decode_call(known.contract, transaction.data) if known else None
    creation = decode.decode_creation(transaction.data) if transaction.to is None else None
    return TransactionLine(
        transaction.hash,
        transaction.sender,
        transaction.to,
        known,
        call.name if call else None,
        creation.contract if creation else None,
        transaction.value,
        receipt.succeeded if receipt else None,
        len(receipt.logs) if receipt else None,
    )
