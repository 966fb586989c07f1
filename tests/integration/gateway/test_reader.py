"""Reading the witness: what the contract holds, asked once for each block, and never the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from chainmemory.chain.anchor_contract import HeadItem, StateItem
from chainmemory.chain.failures import ChainUnavailable, CodeMismatch
from chainmemory.chain.reader import ChainReader
from chainmemory.chain.registry import MemoryBatch, Payload
from chainmemory.protocol.evidence import evidence_root
from chainmemory.protocol.hashing import ZERO
from chainmemory.protocol.identity import account_ref, ledger_id
from tests.support.chains import TesterChain

ACCOUNT = "00112233445566778899aabbccddeeff"
PROJECT = "0x" + "5a" * 32


def _hash(number: int) -> str:
    return f"0x{number:064x}"


@pytest.fixture(scope="module")
def deployed() -> TesterChain:
    return TesterChain.with_contracts()


@pytest.fixture
def chain(deployed: TesterChain) -> Iterator[TesterChain]:
    with deployed.undone():
        yield deployed


@pytest.fixture
def reader(chain: TesterChain, monkeypatch: pytest.MonkeyPatch) -> ChainReader:
    """Give a reader for which every look at the head is a fresh one."""
    monkeypatch.setattr("chainmemory.chain.reader.HEAD_S", 0.0)
    monkeypatch.setattr("chainmemory.chain.reader.REST_S", 0.0)
    assert chain.deployment is not None
    return ChainReader(chain.gateway, chain.deployment)


def _calls(chain: TesterChain) -> list[str]:
    """Return the list in which the node's calls are noted from now on."""
    asked: list[str] = []

    def note(method: str, params: Any) -> None:
        asked.append(method)

    chain.node.mood = note
    return asked


def _anchor(chain: TesterChain, *items: StateItem) -> str:
    anchors = chain.seen.anchors
    return chain.seen.send(chain.signer, anchors.address, anchors.encode_states(items))


def test_versions_are_read_from_the_contract_and_zero_where_there_are_none(
    chain: TesterChain, reader: ChainReader
) -> None:
    _anchor(chain, StateItem(PROJECT, 3, _hash(3)), StateItem(PROJECT, 4, _hash(4)))

    assert reader.state_hashes_of(PROJECT, 1, 5) == [ZERO, ZERO, _hash(3), _hash(4), ZERO]
    project = reader.project_of(PROJECT)
    assert (project.first_version, project.latest_version, project.latest_anchor_id) == (3, 4, 2)
    assert reader.project_of(_hash(1)).latest_version == 0


def test_one_block_is_asked_once_and_a_new_block_anew(chain: TesterChain, reader: ChainReader) -> None:
    _anchor(chain, StateItem(PROJECT, 1, _hash(1)))
    asked = _calls(chain)
    for _ in range(3):
        assert reader.state_hashes_of(PROJECT, 1, 2) == [_hash(1), ZERO]
    assert asked.count("eth_call") == 1

    chain.node.in_good_mood()
    _anchor(chain, StateItem(PROJECT, 2, _hash(2)))

    assert reader.state_hashes_of(PROJECT, 1, 2) == [_hash(1), _hash(2)]


def test_more_versions_than_one_answer_holds_are_read_page_by_page(
    chain: TesterChain, reader: ChainReader
) -> None:
    _anchor(chain, StateItem(PROJECT, 300, _hash(300)))
    asked = _calls(chain)

    hashes = reader.state_hashes_of(PROJECT, 1, 600)

    assert len(hashes) == 600
    assert {n + 1 for n, found in enumerate(hashes) if found != ZERO} == {300}
    assert asked.count("eth_call") == 3


def test_ledger_heads_are_read_as_the_ledger_writes_them(chain: TesterChain, reader: ChainReader) -> None:
    anchors = chain.seen.anchors
    heads = [HeadItem(ledger_id(ACCOUNT), 7, _hash(7)), HeadItem(ledger_id(ACCOUNT), 9, _hash(9))]
    chain.seen.send(chain.signer, anchors.address, anchors.encode_heads(heads))

    assert reader.latest_head(ACCOUNT) == (9, _hash(9)[2:])
    assert reader.head_of(ACCOUNT, 7) == _hash(7)[2:]
    assert reader.head_of(ACCOUNT, 8) == "0" * 64
    assert reader.latest_head("f" * 32) == (0, "0" * 64)


def test_a_memory_is_found_by_its_hash_with_what_went_along(chain: TesterChain, reader: ChainReader) -> None:
    registry = chain.seen.registry
    payload = Payload("LEARNING", 9, 5, b"\x01" * 32)
    batch = MemoryBatch(account_ref(ACCOUNT), 5, (_hash(1), _hash(2)), (payload, None))
    tx_hash = chain.seen.send(chain.signer, registry.address, registry.encode([batch]))

    found, bare = reader.memory(_hash(1)), reader.memory(_hash(2))

    assert found is not None
    assert bare is not None
    assert (found.account_ref, found.number, found.payload) == (account_ref(ACCOUNT), 5, payload)
    assert (bare.number, bare.payload, bare.tx_hash) == (6, None, tx_hash)
    assert reader.memory(_hash(3)) is None
    assert reader.batch_root(ACCOUNT, 5) == evidence_root([_hash(1), _hash(2)])
    assert registry.first_recorded(bare) == 5


def test_the_chain_introduces_itself(chain: TesterChain, reader: ChainReader) -> None:
    info = reader.info()

    assert chain.deployment is not None
    assert info.chain_id == chain.gateway.chain_id()
    assert info.head == chain.gateway.head()
    assert info.contracts == chain.deployment.addresses()
    assert reader.confirmations(info.head.number) == 1
    assert reader.confirmations(info.head.number - 3) == 4
    assert reader.confirmations(info.head.number + 1) == 0


def test_a_node_that_is_away_is_said_to_be_and_not_hammered(
    chain: TesterChain, reader: ChainReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainmemory.chain.reader.REST_S", 60.0)
    asked: list[str] = []

    def away(method: str, params: Any) -> Exception:
        asked.append(method)
        return requests.ConnectionError()

    chain.node.mood = away
    for _ in range(5):
        with pytest.raises(ChainUnavailable):
            reader.state_hashes_of(PROJECT, 1, 1)

    assert len(asked) == 1


def test_an_address_without_the_contract_is_named(chain: TesterChain) -> None:
    nowhere = chain.seen
    nowhere.anchors.address = "0x000000000000000000000000000000000000dEaD"

    with pytest.raises(CodeMismatch, match="another contract, or none"):
        nowhere.anchors.latest(PROJECT)
