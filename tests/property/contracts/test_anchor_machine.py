"""ProjectStateAnchor under any sequence of calls.

Nothing is overwritten, versions stay contiguous, the head is the last event, only submitters write, and a
batch goes on past every bad element.
"""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.support.evm import ZERO, hash_of
from tests.support.evm_direct import DirectContract, Done

WRITTEN, ALREADY, CONFLICT, GAP, BEHIND, ZERO_HASH, ZERO_NUMBER = range(7)
PLACES = [hash_of("place", number) for number in range(3)]
VALUES = [ZERO, *(hash_of("value", number) for number in range(3))]
TOP = 8
Item = tuple[bytes, int, bytes]
ITEM = st.tuples(st.sampled_from(PLACES), st.integers(0, TOP), st.sampled_from(VALUES))
EVM = DirectContract("ProjectStateAnchor")
SUBMITTER_ROLE = EVM.read("SUBMITTER_ROLE")


class AnchorMachine(RuleBasedStateMachine):
    """The contract beside a model of it: for states and for heads, place → {number: hash}."""

    def __init__(self) -> None:
        super().__init__()
        self.undo = ExitStack()
        self.undo.enter_context(EVM.undone())
        self.states: dict[bytes, dict[int, bytes]] = {place: {} for place in PLACES}
        self.heads: dict[bytes, dict[int, bytes]] = {place: {} for place in PLACES}
        self.anchored: list[Item] = []
        self.is_submitter = True

    def teardown(self) -> None:
        """At the end (each step compares its events): the contract holds exactly what the model does."""
        with self.undo:
            self.compare_storage()
            self.compare_project_heads()

    @rule(item=ITEM)
    def anchor(self, item: Item) -> None:
        done = EVM.run("anchor", *item)
        if not self.is_submitter or self._take_state(*item)[0] != WRITTEN:
            assert not done.ok
        else:
            assert done.answer == len(self.anchored)
            assert [event[:5] for event in done.events] == [("StateAnchored", done.answer, *item)]

    @rule(items=st.lists(ITEM, max_size=10))
    def anchor_batch(self, items: list[Item]) -> None:
        done = EVM.run("anchorBatch", items)
        assert done.ok is self.is_submitter
        if done.ok:
            self._compare(done, "State", items, [self._take_state(*item) for item in items])

    @rule(items=st.lists(ITEM, max_size=10))
    def anchor_heads(self, items: list[Item]) -> None:
        done = EVM.run("anchorHeads", items)
        assert done.ok is self.is_submitter
        if done.ok:
            self._compare(done, "Head", items, [self._take_head(*item) for item in items])

    @rule(granted=st.booleans())
    def grant_or_revoke(self, granted: bool) -> None:
        change = "grantRole" if granted else "revokeRole"
        assert EVM.run(change, SUBMITTER_ROLE, EVM.submitter, sender=EVM.admin).ok
        self.is_submitter = granted

    @rule(item=ITEM, sender=st.sampled_from([EVM.stranger, EVM.admin]))
    def somebody_else_writes(self, item: Item, sender: str) -> None:
        assert not EVM.run("anchor", *item, sender=sender).ok
        assert not EVM.run("anchorBatch", [item], sender=sender).ok
        assert not EVM.run("anchorHeads", [item], sender=sender).ok
        assert not EVM.run("grantRole", SUBMITTER_ROLE, EVM.stranger, sender=EVM.stranger).ok

    def compare_storage(self) -> None:
        for place in PLACES:
            states, heads = self.states[place], self.heads[place]
            page = EVM.read("stateHashesOf", place, 0, TOP + 2)
            assert list(page) == [states.get(version, ZERO) for version in range(TOP + 2)]
            latest = max(states, default=0)
            assert EVM.read("latest", place) == (latest, states.get(latest, ZERO))
            seq = max(heads, default=0)
            assert EVM.read("latestHead", place) == (seq, heads.get(seq, ZERO))
            for number, value in heads.items():
                assert EVM.read("headOf", place, number) == value

    def compare_project_heads(self) -> None:
        """Versions are contiguous from the first, and the head is the project's last event."""
        for place in PLACES:
            first, last, anchor_id, _ = EVM.read("projectOf", place)
            versions = sorted(self.states[place])
            assert versions == (list(range(first, last + 1)) if versions else [])
            if versions:
                # Ids count the events, so the head's id names the project's last one.
                assert self.anchored[anchor_id - 1] == (place, last, self.states[place][last])
                assert not [item for item in self.anchored[anchor_id:] if item[0] == place]

    def _take_state(self, place: bytes, version: int, value: bytes) -> tuple[int, bytes]:
        held = self.states[place]
        if (outcome := judge(held, version, value)) != WRITTEN:
            return outcome, held.get(version, ZERO) if outcome in (ALREADY, CONFLICT) else ZERO
        if held and version != max(held) + 1:
            return (BEHIND if version < min(held) else GAP), ZERO
        held[version] = value
        self.anchored.append((place, version, value))
        return WRITTEN, ZERO

    def _take_head(self, place: bytes, seq: int, value: bytes) -> tuple[int, bytes]:
        held = self.heads[place]
        if (outcome := judge(held, seq, value)) != WRITTEN:
            return outcome, held.get(seq, ZERO) if outcome in (ALREADY, CONFLICT) else ZERO
        if seq < max(held, default=0):
            return BEHIND, ZERO
        held[seq] = value
        return WRITTEN, ZERO

    def _compare(self, done: Done, kind: str, items: list[Item], expected: list[tuple[int, bytes]]) -> None:
        """Each element has its outcome and exactly one event, in order, that says the same."""
        assert list(done.answer) == [outcome for outcome, _ in expected]
        for event, item, (outcome, held) in zip(done.events, items, expected, strict=True):
            place, number, value = item
            if outcome == WRITTEN:
                assert event[0] == f"{kind}Anchored"
                assert (event[2:5] if kind == "State" else event[1:4]) == item
                assert event[-1] == EVM.submitter
            else:
                assert event == (f"{kind}Skipped", place, number, outcome, value, held)


def judge(held: dict[int, bytes], number: int, value: bytes) -> int:
    """What the contract says of an element before it looks at the order."""
    if value == ZERO:
        return ZERO_HASH
    if number == 0:
        return ZERO_NUMBER
    if number in held:
        return ALREADY if held[number] == value else CONFLICT
    return WRITTEN


AnchorMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
TestAnchorMachine = AnchorMachine.TestCase
