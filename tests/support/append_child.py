"""A process that forks, on request, a child which saves one record to a file tenant when it is told to.

`python -m tests.support.append_child`: a line on stdin is the root; the child's process id is printed, then,
once it has ended, how. The child waits for SIGUSR1, so that it can be traced from its first step on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from chainmemory import logging
from chainmemory.errors import ChainMemoryError
from chainmemory.ledger.tenant import held
from chainmemory.ledger.tenant_write import save
from tests.support.tenants import NOW, record, written

SAVED, REFUSED = 0, 3


def child(root: Path) -> int:
    """Save the record `new`; return how that went."""
    data = written(record("new"))
    signal.sigwait({signal.SIGUSR1})
    try:
        with held(root, "cc", patience_s=2) as tenant:
            save(tenant, data, stem="new", now=NOW)
    except ChainMemoryError:
        return REFUSED
    return SAVED


def main() -> None:
    """Serve requests until stdin ends."""
    logging.configure("append_child")  # to stderr: stdout has the answers
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(child(Path(line.rstrip("\n"))))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
