"""Any sequence of votes keeps the rules of EIP-225, checked against a model that counts from scratch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.node.signers import BlockFacts, ConsensusError, Snapshot

PEOPLE = [bytes([i]) * 20 for i in range(7)]
EPOCH = 9
moves = st.lists(
    st.tuples(st.sampled_from(PEOPLE), st.sampled_from([*PEOPLE, bytes(20)]), st.booleans()), max_size=40
)


class Model:
    """EIP-225 in its plainest form: sets, a dict of votes, the whole list of sealers."""

    def __init__(self, signers: set[bytes]) -> None:
        self.signers = set(signers)
        self.wishes: dict[tuple[bytes, bytes], bool] = {}
        self.sealed: list[bytes] = []

    def allows(self, signer: bytes) -> bool:
        wait = len(self.signers) // 2
        return signer in self.signers and signer not in (self.sealed[-wait:] if wait else [])

    def seal(self, signer: bytes, subject: bytes, authorize: bool) -> None:
        self.sealed.append(signer)
        if len(self.sealed) % EPOCH == 0:
            self.wishes.clear()
        self.wishes.pop((signer, subject), None)
        if (subject in self.signers) != authorize:
            self.wishes[signer, subject] = authorize
        votes = sum(1 for _, about in self.wishes if about == subject)
        if votes * 2 > len(self.signers):
            added = subject not in self.signers
            (self.signers.add if added else self.signers.discard)(subject)
            self.wishes = {
                (by, about): wish
                for (by, about), wish in self.wishes.items()
                if about != subject and (added or by != subject)
            }


@settings(deadline=None)
@given(signers=st.sets(st.sampled_from(PEOPLE), min_size=1), moves=moves)
def test_snapshots_agree_with_a_model(signers: set[bytes], moves: list[tuple[bytes, bytes, bool]]) -> None:
    model = Model(signers)
    snapshot = Snapshot(0, bytes(32), tuple(sorted(signers)))
    for signer, subject, authorize in moves:
        number = snapshot.number + 1
        if number % EPOCH == 0:
            subject, authorize = bytes(20), False  # a checkpoint can't vote
        block = BlockFacts(number, number.to_bytes(32, "big"), signer, subject, authorize)
        try:
            after = snapshot.apply(block, EPOCH)
        except ConsensusError:
            assert not model.allows(signer)
            continue
        assert model.allows(signer)
        model.seal(signer, subject, authorize)
        assert after.signers == tuple(sorted(model.signers))
        assert {(v.signer, v.subject): v.authorize for v in after.votes} == model.wishes
        assert Snapshot.from_bytes(after.to_bytes()) == after
        snapshot = after
