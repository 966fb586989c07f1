"""An exact, small model of a chain with both contracts, at the gateway's interface: for simulations.

It has a pool, blocks, reorganisations and the contracts' rules, and does what it is told to do wrong. Nothing
in it is random: the simulation decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_abi.abi import decode, encode
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from chainmemory.chain.abi import Abi
from chainmemory.chain.artifacts import MEMORY_REGISTRY, STATE_ANCHOR, load_artifact
from chainmemory.chain.failures import Refusal, TransactionRefused
from chainmemory.chain.gateway import BlockTag, Gateway
from chainmemory.chain.outcome import Outcome
from chainmemory.chain.types import Block, FeeMarket, Log, Receipt
from chainmemory.protocol.hashing import ZERO

CHAIN_ID = 20250
ANCHORS = str(to_checksum_address("0x" + "aa" * 20))
REGISTRY = str(to_checksum_address("0x" + "bb" * 20))
GAS_LIMIT = 30_000_000
TIP = 10**9
BASE_FEE = 10**9


@dataclass(frozen=True)
class Sent:
    """A transaction as the node reads it."""

    hash: str
    raw: bytes
    nonce: int
    max_fee: int
    to: str
    data: bytes


@dataclass
class State:
    """What the chain holds after a block."""

    nonce: int = 0
    states: dict[str, dict[int, str]] = field(default_factory=dict)
    heads: dict[str, dict[int, str]] = field(default_factory=dict)
    memories: dict[str, dict[int, str]] = field(default_factory=dict)
    roots: dict[tuple[str, int], str] = field(default_factory=dict)
    anchor_count: int = 0
    doubled: int = 0
    """Elements that were sent although they were there already."""

    def copy(self) -> State:
        """Return what the next block may change."""

        def deep(held: dict[str, dict[int, str]]) -> dict[str, dict[int, str]]:
            return {subject: dict(values) for subject, values in held.items()}

        return replace(
            self,
            states=deep(self.states),
            heads=deep(self.heads),
            memories=deep(self.memories),
            roots=dict(self.roots),
        )


@dataclass
class Made:
    """A block with its receipts, and the state after it."""

    block: Block
    receipts: list[Receipt]
    after: State


class ModelChain:
    """One signer's chain: `mine`, `reorganise` and `lose_pool` are the simulation's levers."""

    def __init__(self, on_state: Callable[[str, int, State], None]) -> None:
        """Take what is called with (project, version, state before) at each state that is written."""
        self._on_state = on_state
        self._kinds = {name: load_artifact(name).abi for name in (STATE_ANCHOR, MEMORY_REGISTRY)}
        self.anchors = Abi(self._kinds[STATE_ANCHOR])
        self.registry = Abi(self._kinds[MEMORY_REGISTRY])
        self._known: dict[str, Sent] = {}
        self.pool: dict[str, Sent] = {}
        self._fork = 0
        genesis = Block(0, _hash("genesis"), ZERO, 0, GAS_LIMIT, BASE_FEE)
        self.made: list[Made] = [Made(genesis, [], State())]

    @property
    def state(self) -> State:
        return self.made[-1].after

    # -- levers -----------------------------------------------------------------------------------

    def mine(self, most: int = 100) -> None:
        """Make a block of the next executable transactions; the dearer of two with one nonce."""
        parent, state = self.made[-1].block, self.state.copy()
        number = parent.number + 1
        block = Block(
            number, _hash(f"{parent.hash}/{number}/{self._fork}"), parent.hash, number, GAS_LIMIT, BASE_FEE
        )
        receipts: list[Receipt] = []
        while len(receipts) < most:
            ready = [sent for sent in self.pool.values() if sent.nonce == state.nonce]
            if not ready:
                break
            sent = max(ready, key=lambda candidate: candidate.max_fee)
            receipts.append(self._execute(sent, state, block, sum(len(r.logs) for r in receipts)))
            state.nonce += 1
            for other in ready:
                del self.pool[other.hash]
        self.made.append(Made(block, receipts, state))

    def reorganise(self, depth: int, *, keep: bool) -> None:
        """Drop the last blocks; their transactions return to the pool, or are forgotten."""
        depth = min(depth, len(self.made) - 1)
        self._fork += 1
        for made in self.made[len(self.made) - depth :]:
            for receipt in made.receipts:
                if keep:
                    self.pool[receipt.tx_hash] = self._known[receipt.tx_hash]
        del self.made[len(self.made) - depth :]
        # A head of the same height as before, but another one.
        self.mine(most=0)

    def use_nonce(self) -> None:
        """Let something else, signed with the same key, use up the next nonce in a block of its own."""
        for sent in [sent for sent in self.pool.values() if sent.nonce == self.state.nonce]:
            del self.pool[sent.hash]
        self.mine(most=0)
        self.state.nonce += 1

    def lose_pool(self) -> None:
        self.pool.clear()

    # -- the node ---------------------------------------------------------------------------------

    def take(self, raw: bytes) -> str:
        """Take a transaction into the pool by geth's rules."""
        sent = _read(raw)
        self._known[sent.hash] = sent
        if sent.nonce < self.state.nonce:
            raise TransactionRefused(Refusal.NONCE_TOO_LOW, "nonce too low")
        if sent.hash in self.pool:
            raise TransactionRefused(Refusal.ALREADY_KNOWN, "already known")
        rivals = [other for other in self.pool.values() if other.nonce == sent.nonce]
        if any(sent.max_fee * 10 < other.max_fee * 11 for other in rivals):
            raise TransactionRefused(Refusal.REPLACEMENT_UNDERPRICED, "replacement transaction underpriced")
        for other in rivals:
            del self.pool[other.hash]
        self.pool[sent.hash] = sent
        return sent.hash

    def receipt(self, tx_hash: str) -> Receipt | None:
        for made in reversed(self.made):
            for receipt in made.receipts:
                if receipt.tx_hash == tx_hash:
                    return receipt
        return None

    def logs(self) -> list[Log]:
        return [log for made in self.made for receipt in made.receipts for log in receipt.logs]

    # -- the contracts ----------------------------------------------------------------------------

    def _execute(self, sent: Sent, state: State, block: Block, first_log: int) -> Receipt:
        logs: list[Log] = []

        def emit(address: str, contract: str, event: str, **args: Any) -> None:
            topics, data = self._encode_event(contract, event, args)
            logs.append(
                Log(address, topics, data, block.number, block.hash, sent.hash, first_log + len(logs))
            )

        if sent.to.lower() == ANCHORS.lower():
            self._run_anchors(sent, state, block, emit)
        elif sent.to.lower() == REGISTRY.lower():
            self._run_registry(sent, state, emit)
        return Receipt(sent.hash, True, block.number, block.hash, 21_000, None, tuple(logs))

    def _run_anchors(self, sent: Sent, state: State, block: Block, emit: Callable[..., None]) -> None:
        items = decode(["(bytes32,uint64,bytes32)[]"], sent.data[4:])[0]
        is_state = sent.data[:4] == self.anchors.encode("anchorBatch", [])[:4]
        name, place, value_name = (
            ("State", ("projectId", "version"), "stateHash")
            if is_state
            else ("Head", ("ledgerId", "seq"), "entryHash")
        )
        for subject_bytes, number, value_bytes in items:
            subject, value = "0x" + subject_bytes.hex(), "0x" + value_bytes.hex()
            held = (state.states if is_state else state.heads).setdefault(subject, {})
            outcome = _judge(held, number, value, contiguous=is_state)
            args: dict[str, Any] = {place[0]: subject, place[1]: number, value_name: value}
            if outcome is not Outcome.WRITTEN:
                state.doubled += outcome is Outcome.ALREADY_THERE
                args |= {"reason": int(outcome), "heldHash": held.get(number, ZERO)}
                emit(ANCHORS, STATE_ANCHOR, f"{name}Skipped", **args)
                continue
            if is_state:
                self._on_state(subject, number, state)
                state.anchor_count += 1
                args["anchorId"] = state.anchor_count
            held[number] = value
            args |= {"anchoredAt": block.timestamp, "anchoredBy": ANCHORS}
            emit(ANCHORS, STATE_ANCHOR, f"{name}Anchored", **args)

    def _run_registry(self, sent: Sent, state: State, emit: Callable[..., None]) -> None:
        kind = "(bytes32,uint64,bytes32[],(uint8,uint8,uint32,bytes)[],bytes32)[]"
        for account_bytes, first, hashes, _, root_bytes in decode([kind], sent.data[4:])[0]:
            account, recorded = "0x" + account_bytes.hex(), 0
            held = state.memories.setdefault(account, {})
            first_recorded = 0
            for number, value in enumerate(hashes, start=first):
                event_hash = "0x" + value.hex()
                place = {"accountRef": account, "number": number, "eventHash": event_hash}
                if number in held:
                    state.doubled += 1
                    emit(
                        REGISTRY, MEMORY_REGISTRY, "MemorySkipped", **place, reason=int(Outcome.ALREADY_THERE)
                    )
                    continue
                held[number] = event_hash
                recorded += 1
                first_recorded = first_recorded or number
                emit(REGISTRY, MEMORY_REGISTRY, "MemoryRecorded", **place)
            if recorded:
                root = "0x" + root_bytes.hex()
                state.roots[account, first_recorded] = root
                emit(
                    REGISTRY,
                    MEMORY_REGISTRY,
                    "BatchRecorded",
                    accountRef=account,
                    firstRecorded=first_recorded,
                    evidenceRoot=root,
                    firstNumber=first,
                    count=len(hashes),
                    recorded=recorded,
                )

    def _encode_event(self, contract: str, event: str, args: dict[str, Any]) -> tuple[tuple[str, ...], bytes]:
        (item,) = (i for i in self._kinds[contract] if i["type"] == "event" and i["name"] == event)
        abi = self.anchors if contract == STATE_ANCHOR else self.registry
        topics, plain = [abi.topic(event)], []
        for given in item["inputs"]:
            value = _native(given["type"], args[given["name"]])
            if given["indexed"]:
                topics.append("0x" + encode([given["type"]], [value]).hex())
            else:
                plain.append((given["type"], value))
        return tuple(topics), encode([kind for kind, _ in plain], [value for _, value in plain])


class ModelGateway(Gateway):
    """The gateway's interface over the model; `trouble` may raise before and after each call."""

    def __init__(self, chain: ModelChain, trouble: Callable[[str], None]) -> None:
        super().__init__("http://model:1")
        self.chain = chain
        self._trouble = trouble

    def chain_id(self) -> int:
        self._trouble("chain_id")
        return CHAIN_ID

    def block(self, number_or_hash: BlockTag) -> Block | None:
        self._trouble("block")
        made = self.chain.made
        if number_or_hash == "latest":
            return made[-1].block
        if isinstance(number_or_hash, int):
            return made[number_or_hash].block if number_or_hash < len(made) else None
        return next((entry.block for entry in made if entry.block.hash == number_or_hash), None)

    def fee_market(self) -> FeeMarket:
        self._trouble("fee_market")
        return FeeMarket(BASE_FEE, TIP, BASE_FEE + TIP)

    def nonce(self, address: str, tag: str = "latest") -> int:
        self._trouble("nonce")
        return self.chain.state.nonce

    def balance(self, address: str) -> int:
        self._trouble("balance")
        return 10**24

    def code(self, address: str, block: BlockTag = "latest") -> bytes:
        self._trouble("code")
        return load_artifact(STATE_ANCHOR if address == ANCHORS else MEMORY_REGISTRY).deployed_bytecode

    def send_raw(self, raw: bytes) -> str:
        self._trouble("before send")
        tx_hash = self.chain.take(raw)
        self._trouble("after send")
        return tx_hash

    def receipt(self, tx_hash: str) -> Receipt | None:
        self._trouble("receipt")
        return self.chain.receipt(tx_hash)

    def logs(
        self,
        address: str,
        topics: Sequence[str | Sequence[str] | None],
        *,
        from_block: int,
        to_block: BlockTag = "latest",
    ) -> list[Log]:
        self._trouble("logs")
        last = to_block if isinstance(to_block, int) else len(self.chain.made)
        return [
            log
            for log in self.chain.logs()
            if log.address == address
            and from_block <= log.block_number <= last
            and _matches(log.topics, topics)
        ]

    def call(self, to: str, data: bytes, *, block: BlockTag = "latest", sender: str | None = None) -> bytes:
        self._trouble("call")
        abi, state = (self.chain.anchors if to == ANCHORS else self.chain.registry), self.chain.state
        if data[:4] == abi.encode("hasRole", bytes(32), ANCHORS)[:4]:
            return encode(["bool"], [True])
        if to == REGISTRY:
            account, first = decode(["bytes32", "uint64"], data[4:])
            return bytes.fromhex(state.roots.get(("0x" + account.hex(), first), ZERO)[2:])
        return self._call_anchors(abi, state, data)

    def _call_anchors(self, abi: Abi, state: State, data: bytes) -> bytes:
        selector, subject = data[:4], "0x" + data[4:36].hex()
        states, heads = state.states.get(subject, {}), state.heads.get(subject, {})
        if selector == abi.encode("stateHashesOf", bytes(32), 1, 1)[:4]:
            first, count = decode(["uint64", "uint256"], data[36:])
            return encode(["bytes32[]"], [[_bytes(states.get(first + i, ZERO)) for i in range(count)]])
        if selector == abi.encode("latest", bytes(32))[:4]:
            latest = max(states, default=0)
            return encode(["uint64", "bytes32"], [latest, _bytes(states.get(latest, ZERO))])
        if selector == abi.encode("projectOf", bytes(32))[:4]:
            return encode(["uint64"] * 4, [min(states, default=0), max(states, default=0), 0, 0])
        if selector == abi.encode("headOf", bytes(32), 1)[:4]:
            return _bytes(heads.get(decode(["uint64"], data[36:])[0], ZERO))
        assert selector == abi.encode("latestHead", bytes(32))[:4], selector
        latest = max(heads, default=0)
        return encode(["uint64", "bytes32"], [latest, _bytes(heads.get(latest, ZERO))])


def _judge(held: dict[int, str], number: int, value: str, *, contiguous: bool) -> Outcome:
    if number in held:
        return Outcome.ALREADY_THERE if held[number] == value else Outcome.CONFLICT
    if not held:
        return Outcome.WRITTEN
    if contiguous and number > max(held) + 1:
        return Outcome.GAP
    return Outcome.WRITTEN if number > max(held) else Outcome.BEHIND


def _read(raw: bytes) -> Sent:
    fields = rlp.decode(raw[1:])
    number = int.from_bytes
    return Sent(
        "0x" + keccak(raw).hex(),
        raw,
        number(fields[1], "big"),
        number(fields[3], "big"),
        "0x" + fields[5].hex(),
        fields[7],
    )


def _matches(found: Sequence[str], wanted: Sequence[str | Sequence[str] | None]) -> bool:
    if len(found) < len(wanted):
        return False
    return all(
        want is None or topic == want or (not isinstance(want, str) and topic in want)
        for topic, want in zip(found, wanted, strict=False)
    )


def _native(kind: str, value: Any) -> Any:
    return _bytes(value) if kind == "bytes32" else value


def _bytes(value: str) -> bytes:
    return bytes.fromhex(value[2:])


def _hash(text: str) -> str:
    return "0x" + keccak(text=text).hex()
