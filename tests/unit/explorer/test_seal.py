"""Recovering a Clique seal from a JSON-RPC header, and telling what isn't one."""

from __future__ import annotations

from typing import Any

import pytest
import rlp
from eth_hash.auto import keccak
from eth_keys.datatypes import PrivateKey

from chainmemory.chain.seal import NotClique, header_hash, read_seal, turn_of
from chainmemory.errors import IntegrityError, Invalid

# What geth's own TestSealHash (consensus/clique) wants of an all-zero header with 97 bytes of extra data.
GETH_SEAL_HASH = "bd3d1fa43fbc4c5bfcc91b179ec92e2861df3654de60468beb908ff805359e8f"

KEYS = [PrivateKey(keccak(b"authority" + bytes([n]))) for n in range(3)]
SIGNERS = [key.public_key.to_checksum_address() for key in KEYS]
VANITY = b"a vanity".ljust(32, b"\0")
NO_UNCLES = "0x" + keccak(rlp.encode([])).hex()


def header(number: int = 7, **changed: Any) -> dict[str, Any]:
    """A London header without a seal, as JSON-RPC has it."""
    plain = {
        "parentHash": "0x" + "11" * 32,
        "sha3Uncles": NO_UNCLES,
        "miner": "0x" + "00" * 20,
        "stateRoot": "0x" + "22" * 32,
        "transactionsRoot": "0x" + "33" * 32,
        "receiptsRoot": "0x" + "44" * 32,
        "logsBloom": "0x" + "00" * 256,
        "difficulty": "0x2",
        "number": hex(number),
        "gasLimit": "0x1c9c380",
        "gasUsed": "0x0",
        "timestamp": "0x6a8e1f00",
        "extraData": "0x" + (VANITY + bytes(65)).hex(),
        "mixHash": "0x" + "00" * 32,
        "nonce": "0x" + "00" * 8,
        "baseFeePerGas": "0x7",
    }
    return plain | changed


def sealed(key: PrivateKey = KEYS[0], **changed: Any) -> dict[str, Any]:
    """The same, sealed by `key`, with the hash that goes with it."""
    made = header(**changed)
    extra = bytes.fromhex(made["extraData"][2:])
    unsealed = made | {"extraData": "0x" + extra[:-65].hex()}
    signature = key.sign_msg_hash(bytes.fromhex(header_hash(unsealed)[2:])).to_bytes()
    made["extraData"] = "0x" + (extra[:-65] + signature).hex()
    return made | {"hash": header_hash(made)}


def test_the_hash_that_is_signed_is_geths() -> None:
    numbers = ("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas")
    zero = {name: "0x" + "0" * (len(value) - 2) for name, value in header().items()}
    zero |= dict.fromkeys(numbers, "0x0") | {"extraData": "0x" + bytes(32).hex()}
    assert header_hash(zero) == "0x" + GETH_SEAL_HASH


def test_the_genesis_hash_of_goerli_is_recomputed() -> None:
    """A header that everybody knows, of a Clique chain that everybody could look up."""
    goerli = header(
        number=0,
        parentHash="0x" + "00" * 32,
        stateRoot="0x5d6cded585e73c4e322c30c2f782a336316f17dd85a4863b9d838d2d4b8b3008",
        transactionsRoot="0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        receiptsRoot="0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        difficulty="0x1",
        gasLimit="0xa00000",
        timestamp="0x5c51a607",
        extraData="0x22466c6578692069732061207468696e6722202d204166726900000000000000"
        "e0a2bd4258d2768837baa26a28fe71dc079f84c7" + "00" * 65,
    )
    del goerli["baseFeePerGas"]
    goerli["hash"] = "0xbf7e331f7f7c1dd2e05159666b3bf8bc7a8a3a9eb1d518969eab529dd9b88c1a"
    found = read_seal(goerli)
    assert found.signer is None
    assert found.listed == ("0xe0a2Bd4258D2768837BAa26A28fE71Dc079f84c7",)
    assert found.vanity.startswith(b'"Flexi is a thing" - Afri')


@pytest.mark.parametrize("key", KEYS)
def test_the_signer_is_recovered(key: PrivateKey) -> None:
    found = read_seal(sealed(key))
    assert found.signer == key.public_key.to_checksum_address()
    assert found.in_turn
    assert found.vanity == VANITY
    assert (found.listed, found.vote) == ((), None)


def test_a_checkpoint_lists_signers_and_a_vote_names_its_candidate() -> None:
    listed = b"".join(bytes.fromhex(address[2:]) for address in SIGNERS)
    extra = "0x" + (VANITY + listed + bytes(65)).hex()
    assert read_seal(sealed(number=30_000, extraData=extra)).listed == tuple(SIGNERS)

    vote = read_seal(sealed(KEYS[1], miner=SIGNERS[2].lower(), nonce="0x" + "ff" * 8, difficulty="0x1"))
    assert (vote.signer, vote.in_turn) == (SIGNERS[1], False)
    assert vote.vote is not None
    assert (vote.vote.candidate, vote.vote.authorize) == (SIGNERS[2], True)


@pytest.mark.parametrize(
    "name", [name for name in header() if name not in ("extraData", "mixHash", "sha3Uncles")]
)
def test_any_changed_field_is_found(name: str) -> None:
    block = sealed()
    last = int(block[name][-1], 16) ^ 1
    block[name] = f"{block[name][:-1]}{last:x}"
    with pytest.raises((IntegrityError, NotClique)):
        read_seal(block)


def test_a_forged_seal_names_another_signer_or_none() -> None:
    """Whoever changes a field and fixes the hash can't fix the seal."""
    block = sealed()
    block["gasUsed"] = "0x5208"
    block["hash"] = header_hash(block)
    assert read_seal(block).signer not in SIGNERS
    block["extraData"] = "0x" + (VANITY + bytes(65)).hex()
    block["hash"] = header_hash(block)
    with pytest.raises(IntegrityError, match="no signature"):
        read_seal(block)


@pytest.mark.parametrize(
    "changed",
    [
        {"extraData": "0x"},
        {"extraData": "0x" + "00" * 96},
        {"extraData": "0x" + "00" * (97 + 19)},
        {"difficulty": "0x0"},
        {"difficulty": "0x3"},
        {"nonce": "0x00000000000000ff"},
        {"mixHash": "0x63746963616c2062797a616e74696e65206661756c7420746f6c6572616e6365"},
        {"sha3Uncles": "0x" + "12" * 32},
    ],
    ids=["empty", "short", "ragged", "merged", "heavy", "mined", "qbft", "uncles"],
)
def test_headers_of_other_kinds_are_said_to_be_none_of_cliques(changed: dict[str, str]) -> None:
    block = header(**changed)
    with pytest.raises(NotClique):
        read_seal(block | {"hash": header_hash(block)})


@pytest.mark.parametrize("value", [None, 7, "", "7", "0x", "0xzz", "0x" + "f" * 65, ["0x1"]])
def test_a_field_that_is_no_number_is_invalid(value: Any) -> None:
    with pytest.raises(Invalid):
        header_hash(header(gasUsed=value))


def test_later_forks_append_their_fields() -> None:
    later = header(
        withdrawalsRoot="0x" + "55" * 32,
        blobGasUsed="0x0",
        excessBlobGas="0x0",
        parentBeaconBlockRoot="0x" + "66" * 32,
        requestsHash="0x" + "77" * 32,
    )
    names = list(later)
    expected = [
        int(later[name], 16).to_bytes((int(later[name], 16).bit_length() + 7) // 8, "big")
        if name
        in (
            "difficulty",
            "number",
            "gasLimit",
            "gasUsed",
            "timestamp",
            "baseFeePerGas",
            "blobGasUsed",
            "excessBlobGas",
        )
        else bytes.fromhex(later[name][2:])
        for name in names
    ]
    assert header_hash(dict(reversed(later.items()))) == "0x" + keccak(rlp.encode(expected)).hex()


def test_turns_go_round_in_the_order_of_addresses() -> None:
    order = sorted(SIGNERS, key=str.lower)
    assert [turn_of(number, SIGNERS) for number in range(6)] == order * 2
    assert turn_of(1, []) is None
