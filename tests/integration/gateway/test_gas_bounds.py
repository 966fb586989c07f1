"""The gas we set is enough for what we send, on the contracts as compiled, and not wasteful."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from chainmemory.chain import gas
from chainmemory.chain.anchor_contract import HeadItem, StateItem
from chainmemory.chain.deploy import creation_code, creation_gas
from chainmemory.chain.fees import FeePolicy
from chainmemory.chain.registry import MemoryBatch, Payload
from chainmemory.chain.types import Receipt
from tests.support.chains import TesterChain


@pytest.fixture(scope="module")
def chain() -> TesterChain:
    return TesterChain.with_contracts()


@pytest.fixture(autouse=True)
def _undone(chain: TesterChain) -> Iterator[None]:
    with chain.undone():
        yield


def _hash() -> str:
    return "0x" + secrets.token_hex(32)


def _send(chain: TesterChain, to: str | None, data: bytes, bound: int) -> Receipt:
    """Send with the bound as its gas; the transaction must succeed."""
    signed = chain.signer.sign(
        chain_id=chain.gateway.chain_id(),
        nonce=chain.gateway.nonce(chain.signer.address),
        to=to,
        data=data,
        gas_limit=bound,
        fees=FeePolicy(10**12).quote(chain.gateway.fee_market()),
    )
    chain.gateway.send_raw(signed.raw)
    receipt = chain.gateway.receipt(signed.hash)
    assert receipt is not None
    assert receipt.succeeded, f"ran out of {bound}"
    return receipt


@pytest.mark.parametrize("count", [1, 2, 50, 150])
def test_states(chain: TesterChain, count: int) -> None:
    anchors = chain.seen.anchors
    firsts = [StateItem(_hash(), 1, _hash()) for _ in range(count)]
    nexts = [StateItem(item.project_id, 2, _hash()) for item in firsts]
    base = gas.TX_BASE + gas.STATES_BASE

    first = _send(chain, anchors.address, anchors.encode_states(firsts), base + count * gas.STATE_FIRST)
    later = _send(chain, anchors.address, anchors.encode_states(nexts), base + count * gas.STATE_NEXT)
    skipped = _send(chain, anchors.address, anchors.encode_states(nexts), base + count * gas.STATE_NEXT)

    assert [result.outcome for result in anchors.state_results(later, nexts)] == [0] * count
    assert [result.outcome for result in anchors.state_results(skipped, nexts)] == [1] * count
    if count >= 50:
        assert first.gas_used > 0.9 * (base + count * gas.STATE_FIRST)
        assert later.gas_used > 0.9 * (base + count * gas.STATE_NEXT)


def test_a_root(chain: TesterChain) -> None:
    anchors, root = chain.seen.anchors, _hash()

    receipt = _send(chain, anchors.address, anchors.encode_root(root, 2**32 - 1), gas.TX_BASE + gas.ROOT)

    assert anchors.root_result(receipt, root).tx_hash == receipt.tx_hash
    assert receipt.gas_used > 0.7 * (gas.TX_BASE + gas.ROOT)


@pytest.mark.parametrize("count", [1, 100])
def test_heads(chain: TesterChain, count: int) -> None:
    anchors = chain.seen.anchors
    heads = [HeadItem(_hash(), 5, _hash()) for _ in range(count)]
    bound = gas.TX_BASE + gas.HEADS_BASE + count * gas.HEAD

    receipt = _send(chain, anchors.address, anchors.encode_heads(heads), bound)

    assert [result.outcome for result in anchors.head_results(receipt, heads)] == [0] * count


@pytest.mark.parametrize("first", [1, 200, 255, 256])
@pytest.mark.parametrize("count", [1, 60, 600])
def test_memories(chain: TesterChain, first: int, count: int) -> None:
    batch = MemoryBatch(_hash(), first, tuple(_hash() for _ in range(count)), (None,) * count)
    bound = gas.TX_BASE + gas.MEMORIES_BASE + gas.run_gas(first, count) + count * gas.memory_gas(None)

    receipt = _send(chain, chain.seen.registry.address, chain.seen.registry.encode([batch]), bound)

    assert {r.outcome for r in chain.seen.registry.results(receipt, [batch])[0]} == {0}
    if count == 600:
        assert receipt.gas_used > 0.8 * bound


@pytest.mark.parametrize(("count", "length"), [(1, 1), (40, 200), (10, 3_000), (1, 65_536), (3, 33_333)])
def test_memories_with_payload(chain: TesterChain, count: int, length: int) -> None:
    payloads = tuple(Payload("DECISION", 5, length, secrets.token_bytes(length)) for _ in range(count))
    batch = MemoryBatch(_hash(), 1, tuple(_hash() for _ in range(count)), payloads)
    bound = gas.TX_BASE + gas.MEMORIES_BASE + gas.run_gas(1, count) + count * gas.memory_gas(length)
    data = chain.seen.registry.encode([batch])

    receipt = _send(chain, chain.seen.registry.address, data, bound)

    assert {r.outcome for r in chain.seen.registry.results(receipt, [batch])[0]} == {0}
    size = gas.MEMORY_RUN_BYTES + count * gas.memory_size(length)
    assert len(data) <= size + 100


def test_many_accounts(chain: TesterChain) -> None:
    batches = [MemoryBatch(_hash(), 7, (_hash(),), (None,)) for _ in range(60)]
    bound = gas.TX_BASE + gas.MEMORIES_BASE + 60 * (gas.run_gas(7, 1) + gas.memory_gas(None))

    receipt = _send(chain, chain.seen.registry.address, chain.seen.registry.encode(batches), bound)

    assert all(results[0].outcome == 0 for results in chain.seen.registry.results(receipt, batches))
    assert receipt.gas_used > 0.85 * bound


@pytest.mark.parametrize("name", ["ProjectStateAnchor", "MemoryRegistry"])
def test_creation(chain: TesterChain, name: str) -> None:
    signer = chain.signer.address

    receipt = _send(chain, None, creation_code(name, admin=signer, submitter=signer), creation_gas(name))

    assert receipt.gas_used > 0.7 * creation_gas(name)
