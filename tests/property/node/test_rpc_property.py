"""Whatever arrives, reading it ends in a value or a refusal, never in another exception."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.node.admission import Refused, read_transaction
from chainmemory.node.evm import ValidationError
from chainmemory.node.formats import decode_block
from chainmemory.node.rpc import params
from chainmemory.node.rpc.eth_call import CallArguments
from chainmemory.node.rpc.eth_logs import LogQuery
from chainmemory.node.rpc.params import ParamError
from tests.support.node_process import CHAIN_ID, sign

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=70)
    | st.from_regex(r"0x[0-9a-fA-F]*"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)
PARSERS: list[params.Parser] = [
    params.data,
    params.address,
    params.hash32,
    params.quantity64,
    params.quantity256,
    params.count,
    params.boolean,
    params.storage_key,
    params.block_number,
    params.block,
    params.number_list,
    params.list_of(params.hash32, 3),
    LogQuery,
    CallArguments,
]


@settings(deadline=None)
@given(value=json_values)
def test_parsers_refuse_and_never_break(value: Any) -> None:
    for parser in PARSERS:
        with contextlib.suppress(ParamError):
            parser(value)


@settings(deadline=None, max_examples=60)
@given(
    fields=st.dictionaries(
        st.sampled_from(
            ["from", "to", "gas", "data", "input", "gasPrice", "accessList", "topics", "address"]
        ),
        json_values,
    )
)
def test_objects_with_odd_members_are_refused(fields: dict[str, Any]) -> None:
    for parser in (LogQuery, CallArguments):
        with contextlib.suppress(ParamError):
            parser(fields)


@settings(deadline=None)
@given(number=st.integers(0, 2**256 - 1))
def test_quantities_read_back(number: int) -> None:
    assert params.quantity256(hex(number)) == number
    if number < 2**63:
        assert params.block_number(hex(number)).number == number


@settings(deadline=None)
@given(value=st.binary(max_size=80))
def test_data_reads_back(value: bytes) -> None:
    assert params.data("0x" + value.hex()) == value


GOOD_RAW = [
    bytes.fromhex(sign(3)[2:]),
    bytes.fromhex(sign(3, gasPrice=10**10)[2:]),
    bytes.fromhex(sign(3, accessList=[], type=1, gasPrice=10**10)[2:]),
]


@settings(deadline=None)
@given(
    raw=st.binary(max_size=300)
    | st.builds(
        lambda good, at, bit: (
            good[: at % len(good)] + bytes([good[at % len(good)] ^ (1 << bit)]) + good[at % len(good) + 1 :]
        ),
        st.sampled_from(GOOD_RAW),
        st.integers(0, 400),
        st.integers(0, 7),
    )
)
def test_offered_bytes_are_a_transaction_or_refused(raw: bytes) -> None:
    try:
        transaction = read_transaction(raw, CHAIN_ID)
    except Refused:
        return
    assert transaction.encode() == raw
    assert len(transaction.sender) == 20


@settings(deadline=None)
@given(raw=st.binary(max_size=700))
def test_offered_bytes_are_a_block_or_refused(raw: bytes) -> None:
    with pytest.raises(ValidationError):
        decode_block(raw)
