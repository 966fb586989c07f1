"""The independent check of a project: everything recomputed here, the chain asked directly.

The server is believed in nothing but the bytes it hands out: hashes are recomputed with `protocol/` alone,
and what they are compared with is read from the contract, by plain JSON-RPC. A check that fails raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.cli.witness import Witness
from chainmemory.client import Client, Json
from chainmemory.errors import IntegrityError, Invalid, Unavailable
from chainmemory.protocol.canonical import canonical
from chainmemory.protocol.event import content_hash, event_hash
from chainmemory.protocol.evidence import Proof, evidence_root, verify_inclusion
from chainmemory.protocol.hashing import ZERO, hex32, tagged_hash
from chainmemory.protocol.identity import account_ref, project_id

SCALARS = ("phase", "vision", "current_focus")
ENVIRONMENT = ("hosts", "services", "repositories", "rules")
ARRAYS = (
    "decisions",
    "milestones",
    "risks",
    "assumptions",
    "open_questions",
    "priorities",
    "vocabulary",
    "constraints",
    "metrics",
)


@dataclass
class Checked:
    """What has been checked, in numbers."""

    project_id: str = ""
    versions: int = 0
    items: int = 0
    memories: int = 0
    transactions: set[str] = field(default_factory=set)


class Checker:
    """Checks one project of the account that `client` speaks for."""

    def __init__(self, client: Client, witness: Witness, project: str, say: Callable[[str], None]) -> None:
        self._client = client
        self._witness = witness
        self._project = project
        self._say = say
        self.checked = Checked()

    def run(self) -> Checked:
        """Check the contract, every version's hash on chain, and every memory the latest version cites.

        Raises IntegrityError where something differs; Unavailable where server or chain can't be asked.
        """
        contract = self._check_contract()
        newest = self._check_versions(contract)
        evidence = self._check_evidence(newest)
        self._check_memories(evidence, newest["state"]["state_meta"]["project_id"])
        return self.checked

    # 1. Is that the contract whose source is published?
    def _check_contract(self) -> str:
        chain = self._client.anchor(self._project)["chain"]
        contract = str(chain["contract"])
        _equal("the chain's id", chain["chainId"], self._witness.chain_id())
        _equal(
            "the anchor contract's code",
            load_artifact(STATE_ANCHOR).code_hash,
            self._witness.code_hash(contract),
        )
        self._say(f"contract {contract} on chain {chain['chainId']}: the code is the published one")
        return contract

    # 2. Does each version's document hash to what the contract holds, and name the hash before it?
    def _check_versions(self, contract: str) -> Json:
        newest = self._client.state(self._project)
        after: Json | None = None
        for version in range(newest["version"], 0, -1):
            answer = newest if version == newest["version"] else self._client.state(self._project, version)
            computed = self._check_version(answer, version, contract)
            if after is not None:
                named = after["state"]["state_meta"]["previous_state_hash"]
                _equal(f"version {version}'s hash, as version {version + 1} names it", named, computed)
            after = answer
        assert after is not None
        _equal("what version 1 names before it", ZERO, after["state"]["state_meta"]["previous_state_hash"])
        count = self.checked.versions
        self._say(
            f"{count} version{'s' if count > 1 else ''}: hash recomputed and found in the contract, unbroken"
        )
        return newest

    def _check_version(self, answer: Json, version: int, contract: str) -> str:
        document = answer["state"]
        meta = document["state_meta"]
        computed = state_hash(document)
        _equal(f"version {version}'s state hash", answer["state_hash"], computed)
        _equal(f"version {version}'s number", version, meta["version"])
        self.checked.project_id = self.checked.project_id or meta["project_id"]
        _equal(f"version {version}'s project", self.checked.project_id, meta["project_id"])
        tx_hash = answer["anchor"]["tx_hash"]
        if not tx_hash:
            raise IntegrityError(
                f"Version {version} says {answer['anchor']['status']}, not in which transaction."
            )
        state = (str(meta["project_id"]), version, computed)
        proof = None
        if str(answer["anchor"]["onchain_anchor_id"]).startswith("0x"):
            proof = self._client.anchor(self._project, version)["anchor"].get("proof")
        check_on_chain(self._witness, contract, state, tx_hash, proof)
        if proof is None:
            events = self._witness.anchored(contract, tx_hash)
            if state not in {(e.project_id, e.version, e.state_hash) for e in events}:
                raise IntegrityError(
                    f"The transaction {tx_hash} didn't anchor version {version} with its hash."
                )
        self.checked.transactions.add(tx_hash)
        self.checked.versions += 1
        return computed

    # 3. Do the event hashes behind each item give the evidence root the item holds?
    def _check_evidence(self, newest: Json) -> dict[int, str]:
        cited: dict[int, str] = {}
        for item_id, root in evidence_roots(newest["state"]):
            if root == ZERO:
                continue
            answer = self._client.evidence(self._project, item_id, newest["version"])
            hashes = {entry["memory_number"]: entry["event_hash"] for entry in answer["evidence"]}
            _equal(f"the evidence root of {item_id}", root, evidence_root(hashes.values()))
            for entry in answer["evidence"]:
                proof = Proof(**{**entry["proof"], "path": list(entry["proof"]["path"])})
                verify_inclusion(entry["event_hash"], proof, root)
            for number, hashed in hashes.items():
                _equal(f"the event hash of memory {number}", cited.setdefault(number, hashed), hashed)
            self.checked.items += 1
        self._say(f"{self.checked.items} items: evidence roots recomputed, {len(cited)} memories cited")
        return cited

    # 4. Do the memories hash to those event hashes, and were the hashes recorded on chain?
    def _check_memories(self, cited: dict[int, str], project: str) -> None:
        registries = set()
        for number, cited_hash in sorted(cited.items()):
            memory = self._client.get(f"/v1/memory/{number}/decrypted")
            header = memory["header"]
            _equal(f"the event hash of memory {number}", cited_hash, event_hash(header))
            _equal(f"the number of memory {number}", number, header["number"])
            if header["sealed_by"] == "server":  # a client's own seal only its key can open
                if memory["summary"] is None:
                    raise IntegrityError(
                        f"MISMATCH: the content of memory {number} can't be opened any more."
                    )
                said = content_hash(str(memory["summary"]).encode())
                _equal(f"the content of memory {number}", header["content_hash"], said)
            if not self.checked.memories:
                _equal("the project's id", project, project_id(header["account_id"], self._project))
            proof = self._client.get(f"/v1/my/memory/{number}/proof")
            recorded = self._witness.recorded(
                proof["contract"], proof["chain_tx"], account_ref(header["account_id"]), number
            )
            _equal(f"memory {number} in the registry", [cited_hash], recorded)
            registries.add(str(proof["contract"]))
            self.checked.transactions.add(proof["chain_tx"])
            self.checked.memories += 1
        for registry in registries:
            _equal(
                "the registry's code",
                load_artifact(MEMORY_REGISTRY).code_hash,
                self._witness.code_hash(registry),
            )
        self._say(f"{self.checked.memories} memories: event hash recomputed, found in the registry")


def state_hash(document: Json) -> str:
    """Return the hash of a state document (protocol §7), hex32.

    Raises Invalid where it isn't a document at all.
    """
    try:
        schema = int(document["state_meta"]["schema_version"])
        return hex32(tagged_hash(f"CM_PROJECT_STATE_V{schema}", canonical(document)))
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid("That isn't a state document.") from error


def evidence_roots(document: Json) -> Iterator[tuple[str, str]]:
    """Yield (item id, evidence root) of everything in a state document that has one."""
    for scalar in SCALARS:
        provenance = document["provenance"][scalar]
        if provenance is not None:
            yield scalar, provenance["evidence_root"]
    arrays = [document[name] for name in ARRAYS] + [document["environment"][name] for name in ENVIRONMENT]
    for array in arrays:
        for item in array:
            yield item["id"], item["evidence_root"]


def check_public(answer: Json, witness: Witness) -> int:
    """Check one page of the public verification against the contract; return how many versions were compared.

    Anchors that aren't on chain yet are not compared. Raises IntegrityError where one differs.
    """
    contract = answer["chain"]["contract"]
    if contract is None:
        raise Unavailable("The server names no contract yet.")
    _equal("the chain's id", answer["chain"]["chainId"], witness.chain_id())
    _equal("the anchor contract's code", load_artifact(STATE_ANCHOR).code_hash, witness.code_hash(contract))
    compared = 0
    for anchor in answer["anchors"]:
        if anchor["status"] == "anchored":
            state = (str(answer["project_id"]), int(anchor["version"]), str(anchor["state_hash"]))
            check_on_chain(witness, contract, state, anchor["tx_hash"], anchor.get("proof"))
            compared += 1
    return compared


def check_on_chain(
    witness: Witness, contract: str, state: tuple[str, int, str], tx_hash: str, proof: Json | None
) -> None:
    """Check that the contract holds a state (project id, version, state hash): by itself, or under a root.

    With a proof, its root must be logged in the transaction, the contract must find the state under it, and
    must not hold another hash for that version by itself. Raises IntegrityError.
    """
    project, version, state_hash = state
    held = witness.state_hash(contract, project, version)
    if proof is None or held != ZERO:
        _equal(f"version {version} in the contract", state_hash, held)
        return
    try:
        root, index, size = str(proof["root"]), int(proof["index"]), int(proof["size"])
        path = [str(step) for step in proof["path"]]
    except (KeyError, TypeError, ValueError):
        raise IntegrityError(f"What the server gives as version {version}'s proof isn't one.") from None
    if root not in witness.roots(contract, tx_hash):
        raise IntegrityError(f"The transaction {tx_hash} didn't anchor the root {root} of version {version}.")
    if not witness.in_root(contract, root, state, index=index, size=size, path=path):
        raise IntegrityError(
            f"MISMATCH: version {version} with the hash {state_hash} isn't under the root {root}."
        )


def _equal(what: str, wanted: Any, found: Any) -> None:
    if wanted != found:
        raise IntegrityError(f"MISMATCH: {what} should be {wanted}, but is {found}.")
