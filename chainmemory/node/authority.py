"""The one writer of blocks, whether sealed here or pulled from peers: a loop over what is due next."""

from __future__ import annotations

import contextlib
import logging
import queue
import random
import sqlite3
import time
from collections.abc import Callable

from chainmemory.node.blocks import BlockStore, log_change
from chainmemory.node.clique import OUT_OF_TURN
from chainmemory.node.evm import BlockHeaderAPI, ValidationError
from chainmemory.node.sealer import Sealer, Turn, Work

log = logging.getLogger("chainmemory.node")

WIGGLE_SECONDS = 0.5
"""An authority out of turn waits so long, plus up to as much for each half of the others (EIP-225)."""
IDLE_SECONDS = 5.0
RETRY_SECONDS = 1.0

Job = Callable[[BlockStore], None]
"""Something another thread wants done by the one that owns the chain."""


class Authority:
    """The loop that seals when it is time, and runs the jobs of the peer threads in between."""

    def __init__(
        self,
        store: BlockStore,
        sealer: Sealer | None,
        *,
        empty_blocks: bool = False,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.sealer = sealer
        self.events: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.stopping = False
        self._empty_blocks = empty_blocks
        self._now = now
        self._monotonic = monotonic
        self._seen: bytes | None = None
        self._seen_at = 0.0
        self._wiggle = 0.0

    def wake(self) -> None:
        """Let the loop look again whether there is something to seal; may be called from any thread."""
        self.events.put(None)

    def run(self) -> None:
        """Work until `stopping` is set."""
        while not self.stopping:
            try:
                wait = self._step()
            except (sqlite3.Error, ValidationError):
                log.exception("sealing failed")
                wait = RETRY_SECONDS
            if wait > 0:
                self._serve(wait, patient=wait < IDLE_SECONDS)

    def _step(self) -> float:
        """Seal if it is time; return how many seconds to wait before looking again."""
        if self.sealer is None:
            return IDLE_SECONDS
        head = self.store.head
        turn = self.sealer.turn(head)
        if turn is None:
            return IDLE_SECONDS
        work = self.sealer.work(head)
        if work is Work.NONE and not turn.vote and not self._empty_blocks:
            return IDLE_SECONDS
        remaining = self._due(head, turn)
        if remaining > 0:
            return remaining
        change = self.sealer.seal(allow_empty=self._empty_blocks or work is Work.BASE_FEE)
        if change is not None:
            log_change("sealed", change)
        return 0.0

    def _due(self, head: BlockHeaderAPI, turn: Turn) -> float:
        """Return the seconds until this authority may seal the work there is on `head`.

        Out of turn it first gives the one whose turn it is some time, counted from when there was work.
        Where the clock went back behind the head's time, a period must still pass, but no more: the chain
        must not stand still for as long as the clock was wrong.
        """
        if self._seen != head.hash:
            self._seen, self._seen_at = bytes(head.hash), self._monotonic()
            share = len(turn.signers) // 2 + 1
            self._wiggle = WIGGLE_SECONDS * (1 + random.random() * share)
        period = self.store.genesis.period
        wait = head.timestamp + period - self._now()
        if wait > period:
            wait = self._seen_at + period - self._monotonic()
        if turn.difficulty == OUT_OF_TURN:
            wait = max(wait, self._seen_at - self._monotonic()) + self._wiggle
        return wait

    def _serve(self, seconds: float, *, patient: bool) -> None:
        """Wait, and run what jobs come; return early after a job, and unless `patient` when woken.

        Who waits for the time to seal doesn't care that there is more to seal now.
        """
        end = self._monotonic() + min(seconds, IDLE_SECONDS)
        with contextlib.suppress(queue.Empty):
            while not self.stopping:
                job = self.events.get(timeout=max(0.0, end - self._monotonic()))
                if job is not None:
                    job(self.store)
                if job is not None or not patient:
                    end = 0.0  # only what is there already
