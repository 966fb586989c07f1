"""genesis.json as geth writes and reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chainmemory.errors import ConfigurationError
from chainmemory.node.genesis import FUNDS, Genesis, load_genesis, new_genesis

A, B = "0x" + "11" * 20, "0x" + "22" * 20


def made(**changes: Any) -> Genesis:
    fields: dict[str, Any] = {"signers": [B, A, A], "alloc": [B], "chain_id": 7, "period": 3, "epoch": 50}
    return new_genesis(**{**fields, "gas_limit": 9_000_000, "timestamp": 1_000, **changes})


def test_a_genesis_reads_back_from_its_own_json() -> None:
    genesis = made()
    assert load_genesis(genesis.dump()) == genesis
    assert genesis.signers == (bytes.fromhex("11" * 20), bytes.fromhex("22" * 20))
    assert genesis.balances == ((bytes.fromhex("22" * 20), FUNDS),)


def test_it_is_what_geth_init_takes() -> None:
    document = json.loads(made().dump())
    assert document["config"]["clique"] == {"period": 3, "epoch": 50}
    assert document["config"]["londonBlock"] == 0
    assert (
        document["extraData"]
        == "0x" + b"chainmemory".hex().ljust(64, "0") + "11" * 20 + "22" * 20 + "00" * 65
    )
    assert document["alloc"] == {"22" * 20: {"balance": hex(FUNDS)}}
    assert document["difficulty"] == "0x1"


def test_geths_own_forms_are_read() -> None:
    document = made().to_geth()
    document["alloc"] = {"0x" + "22" * 20: {"balance": "12"}}
    document["gasLimit"] = "9000000"
    document["timestamp"] = "0x3e8"
    document |= {"number": "0x0", "gasUsed": "0x0", "parentHash": "0x" + "00" * 32}
    assert load_genesis(json.dumps(document)).balances == ((bytes.fromhex("22" * 20), 12),)
    assert load_genesis(json.dumps(document)).timestamp == 1000


DAMAGE: dict[str, tuple[Any, str]] = {
    "a later fork": (lambda d: d["config"].update(shanghaiTime=0), "shanghaiTime"),
    "an earlier fork missing": (lambda d: d["config"].pop("berlinBlock"), "berlinBlock"),
    "London later": (lambda d: d["config"].update(londonBlock=5), "londonBlock"),
    "no Clique": (lambda d: d["config"].pop("clique"), "clique"),
    "period 0": (lambda d: d["config"]["clique"].update(period=0), "period must be"),
    "no signers": (lambda d: d.update(extraData="0x" + "00" * 97), "signers"),
    "half a signer": (lambda d: d.update(extraData="0x" + "00" * 107), "signers"),
    "unsorted signers": (
        lambda d: d.update(extraData="0x" + "00" * 32 + "22" * 20 + "11" * 20 + "00" * 65),
        "sorted",
    ),
    "a sealed genesis": (lambda d: d.update(extraData=d["extraData"][:-2] + "01"), "zero bytes"),
    "a contract": (lambda d: d["alloc"]["22" * 20].update(code="0x00"), "Only balances"),
    "another difficulty": (lambda d: d.update(difficulty="0x2"), "difficulty must be 1"),
    "a vote": (lambda d: d.update(coinbase=A), "coinbase must be zero"),
    "a balance that is none": (lambda d: d["alloc"].update({"22" * 20: {"balance": True}}), "not a number"),
    "no chain id": (lambda d: d["config"].pop("chainId"), "chainId"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_another_kind_of_genesis_is_refused(name: str) -> None:
    document = made().to_geth()
    change, problem = DAMAGE[name]
    change(document)
    with pytest.raises(ConfigurationError, match=problem):
        load_genesis(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "{", '{"config": 1}'])
def test_what_is_no_genesis_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"not a Clique genesis\.json"):
        load_genesis(text)


@pytest.mark.parametrize(
    "bad", ["0x12", "hello", "0x" + "zz" * 20, "0x52908400098527886E0F7030069857D2E4169Ee7"]
)
def test_an_address_must_be_one(bad: str) -> None:
    with pytest.raises(ConfigurationError, match="not an Ethereum address"):
        made(alloc=[bad])


def test_a_chain_needs_a_signer() -> None:
    with pytest.raises(ConfigurationError, match="at least one signer"):
        made(signers=[])
