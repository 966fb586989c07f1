"""Reading heads from a chain of many blocks, whose node takes short ranges only or knows no old states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from eth_hash.auto import keccak

from chainmemory.cli.ledger_chain import HEAD_ANCHORED, HeadWitness
from chainmemory.errors import Unavailable
from tests.support.played_node import PlayedNode, Refusal, played_node

CONTRACT = "0x" + "aB" * 20
LEDGER = "0x" + "11" * 32
HEIGHT = 60_000_000
DEPLOYED = 59_987_654
HEADS = {2: DEPLOYED + 1, 5: DEPLOYED + 7_000, 9: HEIGHT}
"""Block by position."""


def entry_hash(seq: int) -> str:
    return f"{seq:064x}"


class LongChain(PlayedNode):
    """A chain of 60 million blocks; `most` blocks of logs are answered at once, of states the `kept` last."""

    most = HEIGHT + 1
    kept = HEIGHT

    def __init__(self) -> None:
        super().__init__()
        self.results = {
            "eth_blockNumber": hex(HEIGHT),
            "eth_getLogs": self.logs,
            "eth_getCode": self.code,
            "eth_call": f"0x{9:064x}{entry_hash(9)}",
        }

    def logs(self, wanted: dict[str, Any]) -> list[Any]:
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        if last - first >= self.most:
            raise Refusal("block range too large")
        return [
            {
                "topics": [wanted["topics"][0], LEDGER, f"0x{seq:064x}", "0x" + entry_hash(seq)],
                "transactionHash": f"0x{block:064x}",
            }
            for seq, block in HEADS.items()
            if first <= block <= last
        ]

    def code(self, _: str, block: str) -> str:
        if HEIGHT - int(block, 16) > self.kept:
            raise Refusal("missing trie node")
        return "0x60" if int(block, 16) >= DEPLOYED else "0x"

    def asked_for(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)


@pytest.fixture
def node() -> Iterator[LongChain]:
    with played_node(LongChain) as node:
        yield node


@pytest.mark.parametrize(
    ("most", "kept", "questions"),
    [
        (HEIGHT + 1, HEIGHT, 1),  # it keeps an index: all at once
        (10_000, HEIGHT, 4),  # refused, then from the contract's first block
        (1_000, HEIGHT, 26),
        (2_000_000, 128, 70),  # from block 0, for nothing tells where the contract begins
    ],
)
def test_all_heads_are_found_in_ranges_that_the_node_takes(
    node: LongChain, most: int, kept: int, questions: int
) -> None:
    node.most, node.kept = most, kept
    with HeadWitness(node.url) as witness:
        found = witness.heads(CONTRACT, LEDGER)
        assert found.by_position == {seq: entry_hash(seq) for seq in HEADS}
        asked = node.asked_for("eth_getLogs")
        assert asked <= questions
        assert node.asked_for("eth_getCode") <= 27
        # What was learnt of the node isn't learnt again for the next ledger.
        again = node.asked_for("eth_getCode")
        witness.heads(CONTRACT, LEDGER)
        assert node.asked_for("eth_getCode") == again
        assert node.asked_for("eth_getLogs") <= 2 * asked + 1
    topic = "0x" + keccak(HEAD_ANCHORED.encode()).hex()
    assert {params[0]["topics"][0] for method, params in node.asked if method == "eth_getLogs"} == {topic}


def test_a_node_that_answers_no_range_at_all_is_told(node: LongChain) -> None:
    node.most = 0
    with HeadWitness(node.url) as witness, pytest.raises(Unavailable, match="block range too large"):
        witness.heads(CONTRACT, LEDGER)
    assert node.asked_for("eth_getLogs") < 20
