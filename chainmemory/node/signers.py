"""Who may seal the next block: EIP-225's votes as a pure state machine.

A snapshot is the state after one block. Applying the next block's facts (its number, hash, signer and vote)
gives the next snapshot or an error; nothing here reads a chain, a clock or a key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from chainmemory.errors import Invalid


class ConsensusError(Invalid):
    """The block breaks EIP-225."""

    code = "invalid_block"


@dataclass(frozen=True)
class Vote:
    """One signer's standing wish about one address."""

    signer: bytes
    block: int
    subject: bytes
    authorize: bool


@dataclass(frozen=True)
class BlockFacts:
    """What EIP-225 needs to know of a block."""

    number: int
    hash: bytes
    signer: bytes
    subject: bytes
    authorize: bool


@dataclass(frozen=True)
class Snapshot:
    """The signers, their recent turns and their open votes after block `number`."""

    number: int
    hash: bytes
    signers: tuple[bytes, ...]
    """Sorted."""
    recents: tuple[tuple[int, bytes], ...] = ()
    """(block number, signer) of the last blocks, oldest first; those signers must wait."""
    votes: tuple[Vote, ...] = ()
    """In the order they were cast."""

    def in_turn(self, number: int) -> bytes:
        """Return the signer whose turn block `number` is."""
        return self.signers[number % len(self.signers)]

    def must_wait(self, signer: bytes, number: int) -> bool:
        """Say whether `signer` signed one of the last ⌊n/2⌋ blocks before `number`."""
        return any(who == signer and number - at <= len(self.signers) // 2 for at, who in self.recents)

    def is_vote_meaningful(self, subject: bytes, authorize: bool) -> bool:
        """Say whether the vote would change anything: adding a stranger or dropping a signer."""
        return (subject in self.signers) != authorize

    def has_voted(self, signer: bytes, subject: bytes, authorize: bool) -> bool:
        """Say whether exactly this vote stands already."""
        return any(
            vote.signer == signer and vote.subject == subject and vote.authorize == authorize
            for vote in self.votes
        )

    def tally(self, subject: bytes) -> tuple[bool, int]:
        """Return (authorize, how many votes) for one address; (False, 0) without votes."""
        votes = [vote.authorize for vote in self.votes if vote.subject == subject]
        return (votes[0], len(votes)) if votes else (False, 0)

    def check_signer(self, signer: bytes, number: int, difficulty: int) -> None:
        """Refuse (ConsensusError) a seal by a stranger, by a recent signer, or with the wrong difficulty."""
        if signer not in self.signers:
            raise ConsensusError(
                f"0x{signer.hex()} is not one of the {len(self.signers)} authorised signers."
            )
        if self.must_wait(signer, number):
            raise ConsensusError(f"0x{signer.hex()} signed recently and must wait for others.")
        expected = 2 if self.in_turn(number) == signer else 1
        if difficulty != expected:
            raise ConsensusError(
                f"The difficulty must be {expected} for this signer's turn, not {difficulty}."
            )

    def apply(self, block: BlockFacts, epoch: int) -> Snapshot:
        """Return the snapshot after `block`.

        Raises ConsensusError when it isn't the next block, or its signer is a stranger or signed recently.
        """
        if block.number != self.number + 1:
            raise ConsensusError(f"Block {block.number} doesn't follow block {self.number}.")
        if block.signer not in self.signers:
            raise ConsensusError(f"0x{block.signer.hex()} is not an authorised signer.")
        if self.must_wait(block.signer, block.number):
            raise ConsensusError(f"0x{block.signer.hex()} signed recently and must wait for others.")
        checkpoint = block.number % epoch == 0
        after = replace(
            self,
            number=block.number,
            hash=block.hash,
            recents=(*self.recents, (block.number, block.signer)),
            votes=() if checkpoint else self.votes,
        )
        return after._count(block)._forget_old_turns()

    def _count(self, block: BlockFacts) -> Snapshot:
        """Replace the signer's earlier vote on the subject with this one; act when it has a majority."""
        standing = [v for v in self.votes if (v.signer, v.subject) != (block.signer, block.subject)]
        if self.is_vote_meaningful(block.subject, block.authorize):
            standing.append(Vote(block.signer, block.number, block.subject, block.authorize))
        counted = replace(self, votes=tuple(standing))
        authorize, votes = counted.tally(block.subject)
        if votes <= len(self.signers) // 2:
            return counted
        # The wish is fulfilled: votes about the subject are done, and a dropped signer's own votes lapse.
        if authorize:
            signers = tuple(sorted({*self.signers, block.subject}))
        else:
            signers = tuple(signer for signer in self.signers if signer != block.subject)
        kept = tuple(
            v for v in standing if v.subject != block.subject and (authorize or v.signer != block.subject)
        )
        return replace(counted, signers=signers, votes=kept)

    def _forget_old_turns(self) -> Snapshot:
        oldest = self.number - len(self.signers) // 2
        return replace(self, recents=tuple(turn for turn in self.recents if turn[0] >= oldest))

    def to_bytes(self) -> bytes:
        """Return a stored form that `from_bytes` reads back."""
        return json.dumps(
            {
                "number": self.number,
                "hash": self.hash.hex(),
                "signers": [signer.hex() for signer in self.signers],
                "recents": [[number, signer.hex()] for number, signer in self.recents],
                "votes": [[v.signer.hex(), v.block, v.subject.hex(), v.authorize] for v in self.votes],
            }
        ).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Read what `to_bytes` wrote."""
        stored = json.loads(data)
        return cls(
            number=stored["number"],
            hash=bytes.fromhex(stored["hash"]),
            signers=tuple(bytes.fromhex(signer) for signer in stored["signers"]),
            recents=tuple((number, bytes.fromhex(signer)) for number, signer in stored["recents"]),
            votes=tuple(
                Vote(bytes.fromhex(signer), block, bytes.fromhex(subject), authorize)
                for signer, block, subject, authorize in stored["votes"]
            ),
        )
