"""Hex rules of JSON-RPC, in geth's words."""

from __future__ import annotations

from typing import Any

import pytest

from chainmemory.node.rpc import params
from chainmemory.node.rpc.eth_call import CallArguments
from chainmemory.node.rpc.eth_logs import LogQuery
from chainmemory.node.rpc.params import BlockRef, ParamError

ADDRESS = "0x" + "aB" * 20
HASH = "0x" + "cd" * 32

GOOD: list[tuple[params.Parser, Any, Any]] = [
    (params.data, "0x", b""),
    (params.data, "0X00fF", b"\x00\xff"),
    (params.address, ADDRESS, bytes.fromhex("ab" * 20)),
    (params.hash32, HASH, bytes.fromhex("cd" * 32)),
    (params.quantity64, "0x0", 0),
    (params.quantity64, "0xffffffffffffffff", 2**64 - 1),
    (params.quantity256, "0x" + "f" * 64, 2**256 - 1),
    (params.count, 5, 5),
    (params.count, "0x5", 5),
    (params.boolean, True, True),
    (params.storage_key, "0x0", bytes(32)),
    (params.storage_key, "0x" + "00" * 31 + "05", (5).to_bytes(32, "big")),
    (params.storage_key, "7", (7).to_bytes(32, "big")),
    (params.block_number, "latest", BlockRef(tag="latest")),
    (params.block_number, "0x10", BlockRef(number=16)),
    (params.block, "pending", BlockRef(tag="pending")),
    (params.block, HASH, BlockRef(hash=bytes.fromhex("cd" * 32))),
    (params.block, {"blockNumber": "0x1"}, BlockRef(number=1)),
    (
        params.block,
        {"blockHash": HASH, "requireCanonical": True},
        BlockRef(hash=bytes.fromhex("cd" * 32), require_canonical=True),
    ),
    (params.number_list, [0, 12.5, 100], [0.0, 12.5, 100.0]),
]

BAD: list[tuple[params.Parser, Any, str]] = [
    (params.data, "", "empty hex string"),
    (params.data, "00", "hex string without 0x prefix"),
    (params.data, "0x0", "hex string of odd length"),
    (params.data, "0xzz", "invalid hex string"),
    (params.data, 12, "non-string"),
    (params.data, None, "non-string"),
    (params.address, "0x" + "ab" * 19, "hex string has length 38, want 40 for common.Address"),
    (params.address, "0x" + "ab" * 20 + "a", "odd length"),
    (params.address, "vitalik.eth", "without 0x prefix"),
    (params.hash32, "0x" + "cd" * 33, "hex string has length 66, want 64 for common.Hash"),
    (params.quantity64, "0x", 'hex string "0x"'),
    (params.quantity64, "0x00", "hex number with leading zero digits"),
    (params.quantity64, "0x01", "hex number with leading zero digits"),
    (params.quantity64, "0x1" + "0" * 16, "hex number > 64 bits"),
    (params.quantity256, "0x1" + "0" * 64, "hex number > 256 bits"),
    (params.quantity64, "-0x1", "without 0x prefix"),
    (params.quantity64, "0x-1", "invalid hex string"),
    (params.quantity64, 1, "non-string"),
    (params.count, -1, "non-string"),
    (params.count, True, "non-string"),
    (params.boolean, "true", "non-boolean"),
    (params.boolean, 1, "non-boolean"),
    (params.storage_key, "0x" + "0" * 65, "too long"),
    (params.storage_key, "0xgg", "invalid"),
    (params.storage_key, 3, "invalid"),
    (params.block_number, "0x", 'hex string "0x"'),
    (params.block_number, "0x01", "leading zero"),
    (params.block_number, "12", "without 0x prefix"),
    (params.block_number, "", "empty hex string"),
    (params.block_number, "0xfffffffffffffffff", "> 64 bits"),
    (params.block_number, "0xffffffffffffffff", "block number larger than int64"),
    (params.block_number, "newest", "without 0x prefix"),
    (params.block_number, 3, "without 0x prefix"),
    (params.block, {}, "neither block nor hash"),
    (params.block, {"blockHash": HASH, "blockNumber": "0x1"}, "cannot specify both"),
    (params.block, [], "without 0x prefix"),
    (params.list_of(params.hash32, 1), [HASH, HASH], "at most 1"),
    (params.list_of(params.hash32, 1), HASH, "non-array"),
    (params.number_list, ["1"], "non-number"),
    (params.number_list, [True], "non-number"),
    (LogQuery, [], "non-object"),
    (LogQuery, {"blockHash": HASH, "fromBlock": "0x1"}, "cannot specify both"),
    (LogQuery, {"topics": [None] * 5}, "exceed max topics"),
    (LogQuery, {"topics": "0x"}, "invalid topic"),
    (LogQuery, {"topics": [["0x12"]]}, "want 64 for common.Hash"),
    (LogQuery, {"address": ["0x12"]}, "want 40 for common.Address"),
    (LogQuery, {"address": [ADDRESS] * 1001}, "at most 1000 addresses"),
    (CallArguments, "0x", "non-object"),
    (CallArguments, {"gasPrice": "0x1", "maxFeePerGas": "0x2"}, "both gasPrice and"),
    (CallArguments, {"maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2"}, "< maxPriorityFeePerGas"),
    (CallArguments, {"accessList": [{"address": ADDRESS, "storageKeys": ["0x1"]}]}, "odd length"),
]


@pytest.mark.parametrize(("parser", "value", "expected"), GOOD)
def test_good_values_are_read(parser: params.Parser, value: Any, expected: Any) -> None:
    assert parser(value) == expected


@pytest.mark.parametrize(("parser", "value", "problem"), BAD)
def test_bad_values_are_refused_in_geths_words(parser: params.Parser, value: Any, problem: str) -> None:
    with pytest.raises(ParamError) as refusal:
        parser(value)
    assert problem in str(refusal.value)


def test_log_queries_read_any_one_and_several() -> None:
    query = LogQuery({"address": ADDRESS, "topics": [None, HASH, [HASH, HASH], [None, HASH]]})
    one = bytes.fromhex("cd" * 32)
    assert query.addresses == [bytes.fromhex("ab" * 20)]
    assert query.topics == [[], [one], [one, one], []]
    assert LogQuery({}).topics == []


def test_call_arguments_take_input_or_data() -> None:
    assert (
        CallArguments({"data": "0x01"}).data == CallArguments({"input": "0x01", "data": None}).data == b"\1"
    )
    assert CallArguments({"data": "0x01", "input": "0x02"}).data == b"\2"
    assert CallArguments({"gasPrice": "0x5"}).max_fee == 5
    assert CallArguments({}).sender == bytes(20)
