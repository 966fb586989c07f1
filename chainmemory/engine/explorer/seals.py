"""Judging a block's seal: recovered from the header, then compared with who was allowed to seal it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainmemory.chain.seal import NotClique, Seal, header_hash, read_seal, turn_of
from chainmemory.engine.explorer.answers import Block
from chainmemory.engine.explorer.reader import Reader
from chainmemory.engine.explorer.text import vanity_text
from chainmemory.errors import IntegrityError, Invalid

Kind = Literal["sealed", "stranger", "unlisted", "genesis", "broken", "none"]


@dataclass(frozen=True, slots=True)
class SealReport:
    """What a block's seal comes to.

    `kind`: sealed (by one of the signers), stranger (by nobody who was allowed to), unlisted (the node
    doesn't say who was), genesis (nobody seals it), broken, or none (not a Clique chain).
    """

    kind: Kind
    seal: Seal | None = None
    signers: tuple[str, ...] | None = None
    """Who could seal this block, by the node; by the genesis block where the node doesn't say (`guessed`)."""
    guessed: bool = False
    expected: str | None = None
    """Whose turn it was."""
    hash_matches: bool | None = None
    """Whether the header gives the block's hash; None where its form isn't known here."""
    vanity: str | None = None
    problem: str | None = None

    @property
    def turn_is_right(self) -> bool | None:
        """Whether the block says rightly if it was the signer's turn; None where that can't be told."""
        if self.seal is None or self.expected is None:
            return None
        return self.seal.in_turn == (self.seal.signer == self.expected)


def signer_of(block: Block) -> str | None:
    """Recover who sealed a block, None where nobody did or it can't be told."""
    try:
        return read_seal(block.header).signer
    except (Invalid, IntegrityError):
        return None


def judge(reader: Reader, block: Block) -> SealReport:
    """Check a block's seal against the signers after its parent, as the node tells them."""
    matches = _hash_matches(block)
    try:
        seal = read_seal(block.header)
    except NotClique:
        return SealReport("none", hash_matches=matches, vanity=vanity_text(block.extra))
    except Invalid:
        return SealReport("none", vanity=vanity_text(block.extra))
    except IntegrityError as error:
        return SealReport("broken", hash_matches=matches, problem=error.message)
    vanity = vanity_text(seal.vanity)
    if seal.signer is None:
        return SealReport("genesis", seal, seal.listed, hash_matches=matches, vanity=vanity)
    signers, guessed = _signers_for(reader, block)
    if signers is None:
        return SealReport("unlisted", seal, hash_matches=matches, vanity=vanity)
    expected = None if guessed else turn_of(block.number, signers)
    if seal.signer in signers:
        kind: Kind = "sealed"
    else:
        # A vote may have let in whom the genesis block doesn't list.
        kind = "unlisted" if guessed else "stranger"
    return SealReport(kind, seal, tuple(signers), guessed, expected, matches, vanity)


def genesis_signers(reader: Reader) -> list[str] | None:
    """Return the signers that the genesis block lists, None where it isn't Clique's."""
    genesis = reader.numbered(0)
    if genesis is None:
        return None
    try:
        return list(read_seal(genesis.header).listed) or None
    except (Invalid, IntegrityError):
        return None


def _signers_for(reader: Reader, block: Block) -> tuple[list[str] | None, bool]:
    told = reader.signers(block.number - 1)
    if told:
        return told, False
    return genesis_signers(reader), True


def _hash_matches(block: Block) -> bool | None:
    try:
        return header_hash(block.header) == block.hash
    except Invalid:
        return None
