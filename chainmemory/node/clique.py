"""Clique (EIP-225) for py-evm: seals, header rules and signer snapshots.

It replaces py-evm's own engine, which lets a signer sign twice in a row, lets one authority rewrite the list
of all of them at a checkpoint, breaks with a ValueError when a signer is voted out by its own vote, and keeps
snapshots only each 30,000 blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eth_keys.datatypes import PrivateKey, Signature
from eth_keys.exceptions import BadSignature
from lru import LRU

from chainmemory.node.evm import (
    EMPTY_UNCLE_HASH,
    Address,
    AtomicDatabaseAPI,
    BlockHeaderAPI,
    ChainDB,
    ConsensusAPI,
    ConsensusContextAPI,
    HeaderNotFound,
    ValidationError,
)
from chainmemory.node.genesis import SEAL_BYTES
from chainmemory.node.signers import BlockFacts, ConsensusError, Snapshot

VANITY_BYTES = 32
NO_SEAL = bytes(SEAL_BYTES)
NONCE_AUTHORIZE = b"\xff" * 8
NONCE_DROP = bytes(8)
NO_SUBJECT = bytes(20)
IN_TURN, OUT_OF_TURN = 2, 1

SNAPSHOT_EVERY = 64
"""Blocks between stored snapshots: a restart replays at most so many headers."""

_recovered: LRU[bytes, bytes] = LRU(4096)


def seal_hash(header: BlockHeaderAPI) -> bytes:
    """Return what a signer signs: the header's hash without the seal in its extra data."""
    return header.copy(extra_data=header.extra_data[:-SEAL_BYTES]).hash


def seal(header: BlockHeaderAPI, key: PrivateKey) -> BlockHeaderAPI:
    """Return `header` with `key`'s seal in place of its last 65 bytes of extra data."""
    signature = key.sign_msg_hash(seal_hash(header))
    return header.copy(extra_data=header.extra_data[:-SEAL_BYTES] + signature.to_bytes())


def recover_signer(header: BlockHeaderAPI) -> bytes:
    """Return the address that sealed `header`; ConsensusError when the seal is no signature."""
    cached = _recovered.get(header.hash)
    if cached is not None:
        return cached
    if len(header.extra_data) < VANITY_BYTES + SEAL_BYTES:
        raise ConsensusError("The extra data is too short to hold a seal.")
    try:
        signature = Signature(signature_bytes=header.extra_data[-SEAL_BYTES:])
        signer = signature.recover_public_key_from_msg_hash(seal_hash(header)).to_canonical_address()
    except (BadSignature, ValidationError, ValueError) as error:
        raise ConsensusError(f"The seal is not a signature: {error}.") from None
    _recovered[header.hash] = bytes(signer)
    return bytes(signer)


def wins_tie(new: BlockHeaderAPI, head: BlockHeaderAPI) -> bool:
    """Say whether a chain as heavy as ours, that ends in `new`, takes the place of ours, that ends in `head`.

    All nodes must come to the same chain of equal ones. Where each keeps its own, authorities that sealed at
    the same time wait for one another for ever: each has signed recently on its own chain. (geth tosses a
    coin here.) Only a second block of one authority on one parent is no tie: the first that came stays, or
    the only authority of a chain could put another last block in place of one that was long believed.
    """
    twice = new.parent_hash == head.parent_hash and recover_signer(new) == recover_signer(head)
    return (new.block_number, new.hash) < (head.block_number, head.hash) and not twice


def listed_signers(header: BlockHeaderAPI) -> tuple[bytes, ...]:
    """Return the addresses between vanity and seal, in their order."""
    data = header.extra_data[VANITY_BYTES:-SEAL_BYTES]
    return tuple(data[i : i + 20] for i in range(0, len(data), 20))


def check_alone(header: BlockHeaderAPI, epoch: int) -> None:
    """Refuse (ConsensusError) a header that is malformed whatever its parent is."""
    checkpoint = header.block_number % epoch == 0
    if header.nonce not in (NONCE_AUTHORIZE, NONCE_DROP):
        raise ConsensusError(f"The nonce 0x{header.nonce.hex()} is no vote.")
    if checkpoint and (header.coinbase != NO_SUBJECT or header.nonce != NONCE_DROP):
        raise ConsensusError("A checkpoint block must not vote.")
    listed = len(header.extra_data) - VANITY_BYTES - SEAL_BYTES
    if listed < 0:
        raise ConsensusError("The extra data is too short for vanity and seal.")
    if not checkpoint and listed:
        raise ConsensusError("Only a checkpoint block lists the signers.")
    if checkpoint and (listed == 0 or listed % 20):
        raise ConsensusError("A checkpoint block must list the signers, 20 bytes each.")
    if header.mix_hash != bytes(32):
        raise ConsensusError("The mix hash must be zero.")
    if header.uncles_hash != EMPTY_UNCLE_HASH:
        raise ConsensusError("A Clique block has no uncles.")
    if header.difficulty not in (IN_TURN, OUT_OF_TURN):
        raise ConsensusError(f"The difficulty must be 1 or 2, not {header.difficulty}.")


class SnapshotStore:
    """The signer snapshot after any known block: kept in memory, stored each 64 blocks, else replayed."""

    def __init__(self, database: AtomicDatabaseAPI, epoch: int) -> None:
        self._chain = ChainDB(database)
        self._epoch = epoch
        self._known: LRU[bytes, Snapshot] = LRU(256)

    def after(self, block_hash: bytes, unsaved: Sequence[BlockHeaderAPI] = ()) -> Snapshot:
        """Return the snapshot after the block with this hash; ConsensusError when it is unknown.

        `unsaved` are headers not in the database yet, among which ancestors are looked for first.
        """
        by_hash = {bytes(header.hash): header for header in unsaved}
        replay: list[BlockHeaderAPI] = []
        cursor = bytes(block_hash)
        while (snapshot := self._find(cursor)) is None:
            header = by_hash.get(cursor) or self._header(cursor)
            if header.block_number == 0:
                snapshot = Snapshot(0, bytes(header.hash), listed_signers(header))
                self._known[cursor] = snapshot
                break
            replay.append(header)
            cursor = bytes(header.parent_hash)
        for header in reversed(replay):
            snapshot = snapshot.apply(facts(header), self._epoch)
            self._known[bytes(header.hash)] = snapshot
        return snapshot

    def store(self, snapshot: Snapshot) -> None:
        """Write a snapshot if its block is one of each 64."""
        if snapshot.number and snapshot.number % SNAPSHOT_EVERY == 0:
            self._chain.db[_snapshot_key(snapshot.hash)] = snapshot.to_bytes()

    def _find(self, block_hash: bytes) -> Snapshot | None:
        known = self._known.get(block_hash)
        if known is not None:
            return known
        try:
            return Snapshot.from_bytes(self._chain.db[_snapshot_key(block_hash)])
        except KeyError:
            return None

    def _header(self, block_hash: bytes) -> BlockHeaderAPI:
        try:
            return self._chain.get_block_header_by_hash(block_hash)  # type: ignore[arg-type]
        except HeaderNotFound:
            raise ConsensusError(f"The ancestor 0x{block_hash.hex()} is unknown.") from None


def _snapshot_key(block_hash: bytes) -> bytes:
    return b"chainmemory:signers:" + block_hash


def facts(header: BlockHeaderAPI) -> BlockFacts:
    """Return what the voting rules need to know of a sealed header."""
    return BlockFacts(
        number=header.block_number,
        hash=bytes(header.hash),
        signer=recover_signer(header),
        subject=bytes(header.coinbase),
        authorize=header.nonce == NONCE_AUTHORIZE,
    )


class CliqueContext(ConsensusContextAPI):
    """What all of one chain's VMs share: its epoch length and its signer snapshots."""

    epoch = 30_000

    def __init__(self, db: AtomicDatabaseAPI) -> None:
        self.db = db
        self.snapshots = SnapshotStore(db, self.epoch)


class Clique(ConsensusAPI):
    """The rules of EIP-225 where py-evm asks for them."""

    def __init__(self, context: CliqueContext) -> None:
        self._context = context

    @classmethod
    def get_fee_recipient(cls, header: BlockHeaderAPI) -> Address:
        """Return the sealer's address; the coinbase (a vote's subject) where there is no seal."""
        if len(header.extra_data) < VANITY_BYTES + SEAL_BYTES:
            return header.coinbase  # a scratch header, as py-evm makes them on the way
        try:
            return Address(recover_signer(header))
        except ConsensusError:
            return header.coinbase

    def validate_seal(self, header: BlockHeaderAPI) -> None:
        """Refuse (ValidationError) a malformed header or seal."""
        try:
            check_alone(header, self._context.epoch)
            recover_signer(header)
        except ConsensusError as error:
            raise ValidationError(error.message) from error

    def validate_seal_extension(self, header: BlockHeaderAPI, parents: Iterable[BlockHeaderAPI]) -> None:
        """Refuse (ValidationError) a signer, a difficulty or a signer list that the ancestors don't allow."""
        if header.block_number == 0:
            return
        try:
            before = self._context.snapshots.after(bytes(header.parent_hash), tuple(parents))
            before.check_signer(recover_signer(header), header.block_number, header.difficulty)
            checkpoint = header.block_number % self._context.epoch == 0
            if checkpoint and listed_signers(header) != before.signers:
                raise ConsensusError("The checkpoint block doesn't list the current signers.")
        except ConsensusError as error:
            raise ValidationError(error.message) from error
