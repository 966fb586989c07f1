"""EIP-225's own test cases for the votes, and the corners they leave out."""

from __future__ import annotations

import pytest

from chainmemory.node.signers import BlockFacts, ConsensusError, Snapshot

NOBODY = bytes(20)


def who(letter: str) -> bytes:
    return letter.encode().rjust(20, b"\0")


def play(signers: str, moves: str, epoch: int = 30_000) -> Snapshot:
    """Run blocks like `A+C` (A signs and votes C in), `A-C` (votes C out) or `A` (doesn't vote)."""
    snapshot = Snapshot(0, bytes(32), tuple(sorted(who(signer) for signer in signers)))
    for number, move in enumerate(moves.split(), start=1):
        subject = who(move[2]) if len(move) == 3 else NOBODY
        block = BlockFacts(number, number.to_bytes(32, "big"), who(move[0]), subject, move[1:2] == "+")
        snapshot = snapshot.apply(block, epoch)
    return snapshot


CASES = [
    ("single signer, no votes cast", "A", "A", "A"),
    ("single signer adds two: the second needs two votes", "A", "A+B B A+C", "AB"),
    ("two signers add three: the third needs three votes", "AB", "A+C B+C A+D B+D C A+E B+E", "ABCD"),
    ("a single signer may drop itself", "A", "A-A", ""),
    ("two signers: one vote doesn't drop the other", "AB", "A-B", "AB"),
    ("two signers: both votes drop one", "AB", "A-B B-B", "A"),
    ("three signers: two drop the third", "ABC", "A-C B-C", "AB"),
    ("four signers: two are not enough", "ABCD", "A-C B-C", "ABCD"),
    ("four signers: three are enough", "ABCD", "A-D B-D C-D", "ABC"),
    ("adding counts once per signer and subject", "AB", "A+C B A+C B A+C", "AB"),
    ("adding several at once", "AB", "A+C B A+D B A B+D A B+C", "ABCD"),
    ("dropping counts once per signer and subject", "AB", "A-B B A-B B A-B", "AB"),
    ("dropping several at once", "ABCD", "A-C B C A-D B C A B-D C-D A B-C", "AB"),
    ("a dropped signer's votes to drop lapse", "ABC", "C-B A-C B-C A-B", "AB"),
    ("a dropped signer's votes to add lapse", "ABC", "C+D A-C B-C A+D", "AB"),
    ("only the account voted on may change", "ABCD", "A-C B C A-D B-C C A B-D C-D", "ABC"),
    ("a majority by another's drop acts on touch", "ABCD", "A-C B C A-D B-C C A B-D C-D A C+C", "AB"),
    ("or is lost by that touch", "ABCD", "A-C B C A-D B-C C A B-D C-D A B+C", "ABC"),
    (
        "votes don't survive a change of status",
        "ABCDE",
        "A+F B+F C+F D-F E-F B-F C-F D+F E+F B-A C-A D-A B+F",
        "BCDEF",
    ),
]


@pytest.mark.parametrize(
    ("signers", "moves", "result"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_eip_225_voting(signers: str, moves: str, result: str) -> None:
    assert play(signers, moves).signers == tuple(who(letter) for letter in result)


def test_an_epoch_clears_the_votes() -> None:
    assert play("AB", "A+C B A B+C", epoch=3).signers == (who("A"), who("B"))
    assert play("AB", "A+C B A B+C", epoch=30).signers == (who("A"), who("B"), who("C"))


@pytest.mark.parametrize(
    ("signers", "moves", "epoch", "problem"),
    [
        ("A", "B", 30, "not an authorised signer"),
        ("AB", "A A", 30, "signed recently"),
        ("ABC", "A B A A", 3, "signed recently"),
        ("ABCDE", "A B A", 30, "signed recently"),
    ],
    ids=["a stranger", "twice in a row", "across a checkpoint", "twice in three of five"],
)
def test_eip_225_refusals(signers: str, moves: str, epoch: int, problem: str) -> None:
    with pytest.raises(ConsensusError, match=problem):
        play(signers, moves, epoch)


def test_a_signer_voting_for_its_own_drop_is_dropped_with_all_its_votes() -> None:
    # py-evm removes the vote twice and dies of it
    after = play("ABC", "C+D A-C C-C B-C")
    assert after.signers == (who("A"), who("B"))
    assert after.votes == ()


def test_a_signer_waits_for_half_of_the_others() -> None:
    after = play("ABCD", "A B C")
    assert [after.must_wait(who(letter), 4) for letter in "ABCD"] == [False, True, True, False]
    after = play("ABC", "A B")
    assert [after.must_wait(who(letter), 3) for letter in "ABC"] == [False, True, False]


def test_a_larger_set_makes_its_recent_signers_wait_longer() -> None:
    # Three signers become four at block 4: the limit grows from two to three, counting blocks already sealed.
    after = play("ABC", "A+D B C+D")
    assert after.signers == tuple(who(letter) for letter in "ABCD")
    assert [after.must_wait(who(letter), 4) for letter in "ABCD"] == [False, True, True, False]


def test_the_turn_and_the_difficulty_belong_together() -> None:
    snapshot = play("ABC", "A")
    snapshot.check_signer(who("C"), 2, 2)
    snapshot.check_signer(who("B"), 2, 1)
    with pytest.raises(ConsensusError, match="difficulty must be 2"):
        snapshot.check_signer(who("C"), 2, 1)
    with pytest.raises(ConsensusError, match="difficulty must be 1"):
        snapshot.check_signer(who("B"), 2, 2)


def test_blocks_are_applied_in_order_only() -> None:
    with pytest.raises(ConsensusError, match="doesn't follow"):
        Snapshot(0, bytes(32), (who("A"),)).apply(BlockFacts(2, bytes(32), who("A"), NOBODY, False), 30)


def test_a_stored_snapshot_reads_back() -> None:
    snapshot = play("ABCD", "A-C B C+E A-D B-C")
    assert snapshot.votes
    assert snapshot.recents
    assert Snapshot.from_bytes(snapshot.to_bytes()) == snapshot
