"""A process that forks, on request, a child which saves, consolidates and anchors once it is told to.

`python -m tests.support.story_child`: a line on stdin is a JSON object (home, rpc, account, addresses of both
contracts, key, acks); the child's process id is printed, then, once it has ended, how. The child waits for
SIGUSR1, so that it can be traced from its first step on. What it acknowledges it sends to the datagram socket
`acks`, as an API would answer 200: by a system call that nothing is injected into.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from chainmemory import logging
from chainmemory.anchoring.options import Options
from chainmemory.anchoring.worker import AnchorWorker
from chainmemory.chain.gateway import Gateway
from chainmemory.chain.signer import Signer
from chainmemory.engine import memory_save, state_ops
from chainmemory.engine.callers import Caller
from chainmemory.engine.runtime import Engine
from chainmemory.errors import ChainMemoryError, Unavailable
from chainmemory.settings import Settings
from chainmemory.state.builder import check_call
from tests.support.chains import QUICK

DONE, REFUSED, UNFINISHED, BROKEN = 0, 3, 4, 70
PATIENCE_S = 15.0


def options_for(anchors: str, registry: str) -> Options:
    """Return a worker's options on contracts that are there; heads would only take time."""
    return replace(
        QUICK, deploys=False, anchor_address=anchors, registry_address=registry, head_wait_s=3600, lease_s=1.0
    )


def save(engine: Engine, caller: Caller) -> None:
    fields = memory_save.SAVE.check({"content": "We ship on Friday.", "project": "alpha"}, "")
    memory_save.save(engine, caller, None, fields)


def consolidate(engine: Engine, caller: Caller) -> None:
    op = {"op": "set_phase", "phase": f"phase {time.time_ns()}", "evidence_memory_ids": [1]}
    state_ops.apply(engine, caller, None, "alpha", check_call({"ops": [op]}))


def anchor(engine: Engine, rpc: str, options: Options, key: str, patience_s: float = PATIENCE_S) -> bool:
    """Let a worker do rounds, as `chainmemory worker` does, until all is anchored; say whether it is."""
    worker = AnchorWorker(engine.db, Gateway(rpc), Signer.from_key(bytes.fromhex(key)), options)
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        try:
            rest = worker.run_once().wait_s
            with engine.db.read() as tx:
                if {depth.status for depth in tx.outbox.depth()} <= {"anchored"}:
                    return True
        except Unavailable:
            rest = 0.1
        time.sleep(min(rest, 0.1))
    return False


def story(
    home: str, rpc: str, account: str, anchors: str, registry: str, key: str, ack: Callable[[str], object]
) -> int:
    """Save, consolidate, anchor; go on after what is refused, as a server would."""
    engine = Engine.open(Settings.load(home=Path(home), rpc_url=rpc))
    caller, code = Caller(account, "key", "owner"), DONE
    for name, act in (("saved", save), ("consolidated", consolidate)):
        try:
            act(engine, caller)
            ack(name)
        except ChainMemoryError:
            code = REFUSED
    return code if anchor(engine, rpc, options_for(anchors, registry), key) else UNFINISHED


def _child(request: dict[str, Any]) -> int:
    acks = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    place = request.pop("acks")
    signal.sigwait({signal.SIGUSR1})
    try:
        return story(**request, ack=lambda name: acks.sendto(name.encode(), place))
    except Exception:  # noqa: BLE001 - told by the exit code, as the interpreter would
        # A defect, or a process that can't go on: a supervisor would start it anew.
        traceback.print_exc()
        return BROKEN


def main() -> None:
    """Serve requests until stdin ends."""
    logging.configure("story_child")  # to stderr: stdout has the answers
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(_child(request))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
