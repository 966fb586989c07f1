"""clique_*: who may sign, who did, and this node's votes."""

from __future__ import annotations

from typing import Any

from chainmemory.node import sealer
from chainmemory.node.clique import recover_signer
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import RpcError
from chainmemory.node.rpc.params import BlockRef
from chainmemory.node.rpc.registry import Param, method
from chainmemory.node.rpc.shapes import hexed
from chainmemory.node.signers import Snapshot

LATEST_NUMBER = Param(params.block_number, BlockRef(tag="latest"))
LATEST = Param(params.block, BlockRef(tag="latest"))
STATUS_BLOCKS = 64


@method("clique_getSigners", LATEST_NUMBER)
def get_signers(context: Context, ref: BlockRef) -> list[str]:
    return [hexed(signer) for signer in _snapshot(context, ref).signers]


@method("clique_getSignersAtHash", params.hash32)
def get_signers_at_hash(context: Context, block_hash: bytes) -> list[str]:
    return [hexed(signer) for signer in _snapshot(context, BlockRef(hash=block_hash)).signers]


@method("clique_getSnapshot", LATEST_NUMBER)
def get_snapshot(context: Context, ref: BlockRef) -> Any:
    return _shape(_snapshot(context, ref), context.genesis.epoch)


@method("clique_getSnapshotAtHash", params.hash32)
def get_snapshot_at_hash(context: Context, block_hash: bytes) -> Any:
    return _shape(_snapshot(context, BlockRef(hash=block_hash)), context.genesis.epoch)


@method("clique_getSigner", LATEST)
def get_signer(context: Context, ref: BlockRef) -> str:
    header = context.header(ref)
    if header.block_number == 0:
        raise RpcError("the genesis block has no signer")
    return hexed(recover_signer(header))


@method("clique_status", slow=True)
def status(context: Context) -> Any:
    head = context.head.block_number
    activity = {hexed(signer): 0 for signer in _snapshot(context, BlockRef(tag="latest")).signers}
    numbers = range(max(1, head - STATUS_BLOCKS + 1), head + 1)
    in_turn = 0
    for number in numbers:
        header = context.header(BlockRef(number=number))
        signer = hexed(recover_signer(header))
        activity[signer] = activity.get(signer, 0) + 1
        in_turn += header.difficulty == 2
    share = 100 * in_turn / len(numbers) if numbers else 100.0
    return {"inturnPercent": share, "sealerActivity": activity, "numBlocks": len(numbers)}


@method("clique_proposals")
def proposals(context: Context) -> dict[str, bool]:
    return {hexed(subject): wish for subject, wish in sealer.proposals(context.connection).items()}


@method("clique_propose", params.address, params.boolean)
def propose(context: Context, subject: bytes, authorize: bool) -> None:
    _check_allowed(context)
    context.write(lambda connection: sealer.propose(connection, subject, authorize))


@method("clique_discard", params.address)
def discard(context: Context, subject: bytes) -> None:
    _check_allowed(context)
    context.write(lambda connection: sealer.discard(connection, subject))


def _check_allowed(context: Context) -> None:
    if not context.config.votes_over_rpc:
        raise RpcError("voting over RPC is switched off; start the node with votes_over_rpc to allow it")


def _snapshot(context: Context, ref: BlockRef) -> Snapshot:
    header = context.find_header(ref)
    if header is None:
        raise RpcError("unknown block")
    return context.chain.consensus_context.snapshots.after(bytes(header.hash))


def _shape(snapshot: Snapshot, epoch: int) -> dict[str, Any]:
    subjects = sorted({vote.subject for vote in snapshot.votes})
    tally = {}
    for subject in subjects:
        authorize, count = snapshot.tally(subject)
        tally[hexed(subject)] = {"authorize": authorize, "votes": count}
    votes = [
        {
            "signer": hexed(vote.signer),
            "block": vote.block,
            "address": hexed(vote.subject),
            "authorize": vote.authorize,
        }
        for vote in snapshot.votes
    ]
    return {
        "number": snapshot.number,
        "hash": hexed(snapshot.hash),
        "signers": {hexed(signer): {} for signer in snapshot.signers},
        "recents": {str(number): hexed(signer) for number, signer in snapshot.recents},
        # geth forgets the list itself at a checkpoint, and then tells it as null.
        "votes": votes if snapshot.number % epoch else None,
        "tally": tally,
    }
