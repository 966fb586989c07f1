"""A stand-in for a server's process, and a supervisor over several: real processes without chain or store.

`python -m tests.support.standin child NAME FOLDER [how]` writes what happens to it in FOLDER/NAME.log.
`python -m tests.support.standin supervise FOLDER NAME[:how] …` supervises such children.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from chainmemory import logging
from chainmemory.cli.child import begin, stop_on_signal
from chainmemory.cli.supervisor import ChildSpec, Supervisor
from chainmemory.errors import ConfigurationError
from chainmemory.settings import Settings

# Plenty for a busy machine; the tests of what is stubborn set less.
GRACE_S = float(os.environ.get("STANDIN_GRACE_S", "30"))


def child(name: str, folder: Path, how: str) -> None:
    def note(what: str) -> None:
        with (folder / f"{name}.log").open("a") as file:
            file.write(f"{what} {os.getpid()} {time.monotonic()}\n")

    settings = Settings.load(home=folder, grace_s=GRACE_S)
    begin(name, settings)
    stop = stop_on_signal()
    note("started")
    if how.startswith("exit"):
        sys.exit(int(how.removeprefix("exit")))
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    stop.wait()
    note("stopped")


def supervise(folder: Path, children: list[str]) -> None:
    logging.configure("serve", file=folder / "logs" / "serve.log")
    specs = []
    for rank, given in enumerate(children):
        name, _, how = given.partition(":")
        argv = [sys.executable, "-m", "tests.support.standin", "child", name, str(folder), how]
        specs.append(ChildSpec(name, argv, stop_rank=rank))

    def changed(pids: dict[str, int]) -> None:
        (folder / "pids.new").write_text(" ".join(f"{name}={pid}" for name, pid in pids.items()))
        (folder / "pids.new").replace(folder / "pids")

    Supervisor(
        specs,
        environ=dict(os.environ),
        grace_s=GRACE_S,
        changed=changed,
        ready=lambda ending: False,
        first_backoff_s=0.05,
    ).run()


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "child":
        child(rest[0], Path(rest[1]), rest[2])
    else:
        try:
            supervise(Path(rest[0]), rest[1:])
        except ConfigurationError as error:
            sys.exit(error.message)
