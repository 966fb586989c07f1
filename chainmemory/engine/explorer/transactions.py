"""One transaction: what it called, what came of it, and what it logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chainmemory.chain.failures import ChainUnavailable, NodeRefused
from chainmemory.chain.types import Log
from chainmemory.engine.explorer.answers import Receipt, Transaction
from chainmemory.engine.explorer.decode import (
    Decoded,
    contracts_with_selector,
    decode_call,
    decode_creation,
    decode_error,
    reason_in_words,
)
from chainmemory.engine.explorer.directory import Known
from chainmemory.engine.explorer.text import readable
from chainmemory.engine.explorer.visit import Visit, When
from chainmemory.errors import NotFound

EVENTS_A_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class EventLine:
    """A log: decoded where one of our contracts wrote it, else raw."""

    log: Log
    known: Known | None
    event: Decoded | None


@dataclass(frozen=True, slots=True)
class TransactionView:
    """One transaction; without a receipt it is in no block yet."""

    transaction: Transaction
    receipt: Receipt | None
    when: When | None
    confirmations: int | None
    fee: int | None
    known: Known | None
    call: Decoded | None
    creation: Decoded | None
    events: tuple[EventLine, ...]
    first: int
    more: int | None
    reason: str | None
    """Why it failed, found by running it again on the state before its block; None where that won't tell."""


def transaction_view(visit: Visit, tx_hash: str, first: int) -> TransactionView:
    """Return a transaction with its events from the `first` on. Raises NotFound."""
    reader = visit.reader
    transaction = reader.transaction(tx_hash)
    if transaction is None:
        raise NotFound("There is no such transaction on this chain.")
    receipt = reader.receipt(tx_hash)
    calls_ours = bool(contracts_with_selector(transaction.data))
    known = (visit.directory.identify if calls_ours else visit.directory.named)(transaction.to)
    logs = receipt.logs[first : first + EVENTS_A_PAGE] if receipt else ()
    price = receipt.gas_price if receipt and receipt.gas_price is not None else transaction.gas_price
    return TransactionView(
        transaction,
        receipt,
        visit.block_time(receipt.block_number) if receipt else None,
        max(0, visit.head.number - receipt.block_number + 1) if receipt else None,
        receipt.gas_used * price if receipt and price is not None else None,
        known,
        decode_call(known.contract, transaction.data) if known else None,
        decode_creation(transaction.data) if transaction.to is None else None,
        tuple(EventLine(*told) for told in visit.directory.events(logs)),
        first,
        first + len(logs) if receipt and first + len(logs) < len(receipt.logs) else None,
        _why_failed(visit, transaction, known) if receipt and receipt.succeeded is False else None,
    )


def _why_failed(visit: Visit, transaction: Transaction, known: Known | None) -> str | None:
    """Ask the node to run a failed call again, and read what it reverts with."""
    if not transaction.block_number:
        return None
    call = {
        "from": transaction.sender,
        "to": transaction.to,
        "data": "0x" + transaction.data.hex(),
        "value": hex(transaction.value),
        "gas": hex(transaction.gas),
    }
    given = {name: value for name, value in call.items() if value is not None}
    try:
        visit.reader.ask("eth_call", given, hex(transaction.block_number - 1))
    except NodeRefused as refusal:
        error = decode_error(known.contract if known else None, refusal.data)
        if error is not None:
            return reason_in_words(error)
        return readable(refusal.words) or None
    except ChainUnavailable:
        return None
    return None
