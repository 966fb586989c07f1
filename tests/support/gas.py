"""What the contracts cost: every figure of contracts/gas-snapshot.json, measured on a fresh London chain.

`python -m tests.support.gas` writes the file. Figures are the gas of whole transactions, their 21,000 and
their calldata included; py-evm and the inputs are deterministic, so they are compared exactly.
"""

from __future__ import annotations

import json
from pathlib import Path

from web3.contract.contract import ContractFunction

from tests.support.evm import Evm, hash_of

SNAPSHOT = Path(__file__).parents[2] / "contracts" / "gas-snapshot.json"
BATCH = 50


def measure() -> dict[str, int]:
    """Return gas by name of the measurement."""
    evm = Evm()
    return {
        "deploy ProjectStateAnchor": evm.anchors_deployed["gasUsed"],
        "deploy MemoryRegistry": evm.registry_deployed["gasUsed"],
        **_states(evm),
        **_heads_and_roots(evm),
        **_memories(evm),
    }


def text(gas: dict[str, int]) -> str:
    """The snapshot file's text."""
    return json.dumps(gas, indent=1) + "\n"


def _states(evm: Evm) -> dict[str, int]:
    functions = evm.anchors.functions
    projects = [hash_of("project", number) for number in range(BATCH)]

    def batch(version: int) -> ContractFunction:
        return functions.anchorBatch([(project, version, hash_of(project, version)) for project in projects])

    return {
        "anchorBatch of 50, new projects": _gas(evm, batch(1)),
        "anchorBatch of 50, steady": _gas(evm, batch(2)),
        "anchorBatch of 50, all there already": _gas(evm, batch(2)),
        "anchor, new project": _gas(evm, functions.anchor(hash_of("new"), 1, hash_of(1))),
        "anchor, steady": _gas(evm, functions.anchor(hash_of("new"), 2, hash_of(2))),
    }


def _heads_and_roots(evm: Evm) -> dict[str, int]:
    functions = evm.anchors.functions
    ledgers = [hash_of("ledger", number) for number in range(BATCH)]

    def batch(seq: int) -> ContractFunction:
        return functions.anchorHeads([(ledger, seq, hash_of(ledger, seq)) for ledger in ledgers])

    return {
        "anchorHeads of 50, new ledgers": _gas(evm, batch(10)),
        "anchorHeads of 50, steady": _gas(evm, batch(20)),
        "anchorRoot of 100": _gas(evm, functions.anchorRoot(hash_of("root"), 100)),
        "storeRoot of 100": _gas(evm, functions.storeRoot(hash_of("root"), 100)),
    }


def _memories(evm: Evm) -> dict[str, int]:
    registry = evm.registry.functions
    account, root = hash_of("account"), hash_of("evidence")

    def record(first: int, count: int, ciphertext: bytes = b"") -> ContractFunction:
        hashes = [hash_of("memory", number) for number in range(first, first + count)]
        payloads = [(1, 5, len(ciphertext), ciphertext)] * count if ciphertext else []
        return registry.record(account, first, hashes, payloads, root)

    return {
        "record of 100, new account": _gas(evm, record(1, 100)),
        "record of 100, steady": _gas(evm, record(101, 100)),
        "record of 100, all there already": _gas(evm, record(101, 100)),
        "record of 1, steady": _gas(evm, record(201, 1)),
        "record of 20 with 256 bytes each": _gas(evm, record(202, 20, b"\xab" * 256)),
        "record of 1 with 64 KiB": _gas(evm, record(222, 1, b"\xab" * 65536)),
        "recordMany of 50 new accounts, 1 each": _gas(
            evm,
            registry.recordMany([(hash_of("account", n), 1, [hash_of(n)], [], root) for n in range(BATCH)]),
        ),
    }


def _gas(evm: Evm, call: ContractFunction) -> int:
    return int(evm.send(call)["gasUsed"])


if __name__ == "__main__":
    SNAPSHOT.write_text(text(measure()))
