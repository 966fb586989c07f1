"""Who may do what: submitters write, the admin only says who is one, and nobody can do anything else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from eth_tester.exceptions import TransactionFailed
from web3.contract.contract import ContractFunction

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from tests.support.evm import Evm, hash_of

P, H = hash_of("place"), hash_of("hash")
NAMES = [STATE_ANCHOR, MEMORY_REGISTRY]
WRITES = {
    STATE_ANCHOR: {
        "anchor": (P, 1, H),
        "anchorBatch": ([(P, 1, H)],),
        "anchorHead": (P, 1, H),
        "anchorHeads": ([(P, 1, H)],),
        "anchorRoot": (H, 1),
        "storeRoot": (H, 1),
    },
    MEMORY_REGISTRY: {
        "record": (P, 1, [H], [], H),
        "recordMany": ([(P, 1, [H], [], H)],),
    },
}
ROLES = {"grantRole", "revokeRole", "renounceRole"}
# One call or jump out of the contract would be a door: CREATE, CALL, CALLCODE, DELEGATECALL, CREATE2,
# STATICCALL, SELFDESTRUCT; PUSH0 would not run on a Clique chain.
DOORS = {0xF0: "CREATE", 0xF1: "CALL", 0xF2: "CALLCODE", 0xF4: "DELEGATECALL", 0xF5: "CREATE2"}
DOORS |= {0xFA: "STATICCALL", 0xFF: "SELFDESTRUCT", 0x5F: "PUSH0"}

SSTORE, LOG4 = 0x55, 0xA4


def writes(evm: Evm) -> Iterator[ContractFunction]:
    for name, contract in ((STATE_ANCHOR, evm.anchors), (MEMORY_REGISTRY, evm.registry)):
        for function, args in WRITES[name].items():
            yield contract.functions[function](*args)


def test_only_a_submitter_writes(evm: Evm) -> None:
    role = evm.anchors.functions.SUBMITTER_ROLE().call()
    for call in writes(evm):
        for sender in (evm.stranger, evm.admin):
            name, account, needed = evm.refusal(call, sender)
            assert (name, account, needed) == ("AccessControlUnauthorizedAccount", sender.lower(), role)
        with evm.undone():
            evm.send(call)


def test_the_admin_grants_and_revokes_and_nobody_else_does(evm: Evm) -> None:
    for contract in (evm.anchors, evm.registry):
        role = contract.functions.SUBMITTER_ROLE().call()
        grant = contract.functions.grantRole(role, evm.other)
        for sender in (evm.stranger, evm.submitter):
            assert evm.refusal(grant, sender)[0] == "AccessControlUnauthorizedAccount"
        granted = evm.events(contract, evm.send(grant, evm.admin))
        assert granted == [("RoleGranted", role, evm.other, evm.admin)]
        assert contract.functions.hasRole(role, evm.other).call() is True

        revoke = contract.functions.revokeRole(role, evm.submitter)
        for sender in (evm.stranger, evm.submitter, evm.other):
            assert evm.refusal(revoke, sender)[0] == "AccessControlUnauthorizedAccount"
        revoked = evm.events(contract, evm.send(revoke, evm.admin))
        assert revoked == [("RoleRevoked", role, evm.submitter, evm.admin)]
    for call in writes(evm):
        evm.refusal(call, evm.submitter)
        with evm.undone():
            evm.send(call, evm.other)


def test_a_submitter_can_step_down_for_itself_alone(evm: Evm) -> None:
    role = evm.anchors.functions.SUBMITTER_ROLE().call()
    renounce = evm.anchors.functions.renounceRole(role, evm.submitter)
    assert evm.refusal(renounce, evm.admin)[0] == "AccessControlBadConfirmation"
    evm.send(renounce, evm.submitter)
    evm.refusal(evm.anchors.functions.anchor(P, 1, H), evm.submitter)


def test_what_is_written_is_beyond_the_admin(evm: Evm) -> None:
    """Even an admin that makes itself a submitter changes nothing that is there."""
    anchors, registry = evm.anchors.functions, evm.registry.functions
    evm.send(anchors.anchor(P, 1, H))
    evm.send(anchors.anchorHead(P, 1, H))
    evm.send(registry.record(P, 1, [H], [], H))
    for functions in (anchors, registry):
        evm.send(functions.grantRole(functions.SUBMITTER_ROLE().call(), evm.admin), evm.admin)
    other = hash_of("other")
    evm.send(anchors.anchorBatch([(P, 1, other)]), evm.admin)
    evm.send(anchors.anchorHeads([(P, 1, other)]), evm.admin)
    skipped = evm.send(registry.record(P, 1, [other], [], other), evm.admin)
    assert anchors.stateHashOf(P, 1).call() == anchors.headOf(P, 1).call() == H
    assert registry.rootOf(P, 1).call() == H
    assert [event[0] for event in evm.events(evm.registry, skipped)] == ["MemorySkipped"]


@pytest.mark.parametrize("name", NAMES)
def test_a_contract_without_an_admin_cannot_be_deployed(evm: Evm, name: str) -> None:
    artifact = load_artifact(name)
    factory = evm.web3.eth.contract(abi=artifact.abi, bytecode=artifact.bytecode)
    sent = factory.constructor("0x" + "00" * 20, evm.submitter).transact(
        {"from": evm.admin, "gas": 4_000_000}
    )
    assert evm.web3.eth.get_transaction_receipt(sent)["status"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_submitter_can_be_named_later(evm: Evm, name: str) -> None:
    nobody = "0x" + "00" * 20
    contract, receipt = evm.deploy(name, evm.admin, nobody)
    role = contract.functions.SUBMITTER_ROLE().call()
    admin_role = contract.functions.DEFAULT_ADMIN_ROLE().call()
    assert evm.events(contract, receipt) == [("RoleGranted", admin_role, evm.admin, evm.admin)]
    assert contract.functions.hasRole(role, nobody).call() is False


@pytest.mark.parametrize("name", NAMES)
def test_there_is_no_function_beyond_writing_reading_and_roles(name: str) -> None:
    functions = [item for item in load_artifact(name).abi if item["type"] == "function"]
    changing = {item["name"] for item in functions if item["stateMutability"] not in ("view", "pure")}
    assert changing == set(WRITES[name]) | ROLES
    assert not [item for item in functions if item["stateMutability"] == "payable"]
    assert not [item for item in load_artifact(name).abi if item["type"] in ("fallback", "receive")]


@pytest.mark.parametrize("name", NAMES)
def test_the_code_has_no_door_to_other_code(name: str) -> None:
    found = instructions(load_artifact(name).deployed_bytecode)
    assert found.isdisjoint(DOORS)
    assert found >= {SSTORE, LOG4}


def test_ether_sent_to_a_contract_comes_back(evm: Evm) -> None:
    for contract in (evm.anchors, evm.registry):
        with pytest.raises(TransactionFailed):
            evm.web3.eth.call({"from": evm.stranger, "to": contract.address, "value": 1})


def instructions(code: bytes) -> set[int]:
    """The opcodes of a contract's code, without pushed data and the metadata at its end."""
    end = len(code) - 2 - int.from_bytes(code[-2:], "big")
    found, at = set(), 0
    while at < end:
        found.add(code[at])
        at += 1 + (code[at] - 0x5F if 0x60 <= code[at] <= 0x7F else 0)
    return found
