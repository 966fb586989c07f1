"""MemoryRegistry under any sequence of calls: a number is logged once for ever, a root never changes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.support.evm import ZERO, hash_of
from tests.support.evm_direct import DirectContract

ALREADY, ZERO_HASH = 1, 5
ACCOUNTS = [hash_of("account", number) for number in range(2)]
HASHES = [ZERO, *(hash_of("memory", number) for number in range(3))]
# Around the border between two words of 256 bits.
LOW, HIGH = 250, 262
Batch = tuple[bytes, int, list[bytes], list[tuple[int, int, int, bytes]], bytes]
PAYLOAD = st.tuples(st.just(1), st.integers(1, 10), st.integers(0, 9), st.binary(max_size=3))
EVM = DirectContract("MemoryRegistry")


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    first = draw(st.integers(LOW, HIGH))
    hashes = draw(st.lists(st.sampled_from(HASHES), max_size=HIGH + 1 - first))
    with_payloads = draw(st.booleans())
    payloads = [draw(PAYLOAD) for _ in hashes] if with_payloads else []
    return draw(st.sampled_from(ACCOUNTS)), first, hashes, payloads, draw(st.sampled_from(HASHES[1:]))


class RegistryMachine(RuleBasedStateMachine):
    """The contract beside a model of it: account → {number: hash} from the logs, and the stored roots."""

    def __init__(self) -> None:
        super().__init__()
        self.undo = ExitStack()
        self.undo.enter_context(EVM.undone())
        self.logged: dict[bytes, dict[int, bytes]] = {account: {} for account in ACCOUNTS}
        self.roots: dict[tuple[bytes, int], bytes] = {}

    def teardown(self) -> None:
        """At the end (each step compares its events): the contract holds exactly what was logged."""
        with self.undo:
            self.compare_storage()

    @rule(batch=batches())
    def record(self, batch: Batch) -> None:
        done = EVM.run("record", *batch)
        expected = self._take(batch)
        assert (done.ok, done.events) == (True, tuple(expected))
        assert done.answer == len([event for event in expected if event[0].startswith("MemoryRecorded")])

    @rule(many=st.lists(batches(), max_size=3))
    def record_many(self, many: list[Batch]) -> None:
        done = EVM.run("recordMany", many)
        assert (done.ok, done.events) == (True, tuple(event for batch in many for event in self._take(batch)))

    @rule(batch=batches(), sender=st.sampled_from([EVM.stranger, EVM.admin]))
    def somebody_else_records(self, batch: Batch, sender: str) -> None:
        assert not EVM.run("record", *batch, sender=sender).ok
        assert not EVM.run("recordMany", [batch], sender=sender).ok

    def compare_storage(self) -> None:
        for account in ACCOUNTS:
            recorded = EVM.read("areRecorded", account, LOW - 1, HIGH + 4 - LOW)
            assert list(recorded) == [number in self.logged[account] for number in range(LOW - 1, HIGH + 3)]
            for number in range(LOW, HIGH + 1):
                assert EVM.read("rootOf", account, number) == self.roots.get((account, number), ZERO)

    def _take(self, batch: Batch) -> list[tuple[Any, ...]]:
        account, first, hashes, payloads, root = batch
        logged, events, new = self.logged[account], [], []
        for at, event_hash in enumerate(hashes):
            number = first + at
            if number in logged or event_hash == ZERO:
                reason = ALREADY if number in logged else ZERO_HASH
                events.append(("MemorySkipped", account, number, event_hash, reason))
                continue
            logged[number] = event_hash
            new.append(number)
            if payloads and payloads[at][3]:
                events.append(("MemoryRecordedWithPayload", account, number, event_hash, *payloads[at]))
            else:
                events.append(("MemoryRecorded", account, number, event_hash))
        if new:
            assert (account, new[0]) not in self.roots
            self.roots[account, new[0]] = root
            events.append(("BatchRecorded", account, new[0], root, first, len(hashes), len(new)))
        return events


RegistryMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestRegistryMachine = RegistryMachine.TestCase
