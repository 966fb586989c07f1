"""The supervisor: starts children, restarts one that dies, and stops all of them on a signal.

What a crash at each point leaves behind:
- a child dies: it is started again after a back-off; what it had acknowledged is in the store or the chain.
- the supervisor is killed: each child sees its lifeline (a pipe) close, and stops itself.
- all are killed: the next start finds the store and the chain as their last commit left them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from chainmemory.errors import ConfigurationError
from chainmemory.logging import log

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
# A child that lived this long is not in a crash loop.
SETTLED_S = 60.0
# sysexits.h EX_CONFIG: the child said that its settings are wrong, so another start would end the same way.
EXIT_CONFIGURATION = 78
LIFELINE_VARIABLE = "CHAINMEMORY_SUPERVISOR_LIFELINE"
ONE_SIGNAL_S = 1.0
"""Signals within so many seconds of the first are the same one."""


@dataclass(frozen=True)
class ChildSpec:
    """How to start one child, and when to stop it: those of a lower `stop_rank` first."""

    name: str
    argv: Sequence[str]
    stop_rank: int = 0
    fds: Sequence[int] = ()
    """Descriptors it inherits."""
    withheld: frozenset[str] = frozenset()
    """Variables of the environment that it has no need to know."""
    essential: bool = True
    """Whether a wrong setting of its own, before the server was ever ready, ends the server."""


@dataclass
class _Child:
    spec: ChildSpec
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    restart_at: float | None = None


@dataclass(frozen=True)
class _Exited:
    name: str
    pid: int
    code: int


@dataclass(frozen=True)
class _Asked:
    signal: int


class _Ready:
    """`ready` came back."""


class Supervisor:
    """Runs children until asked to stop.

    `environ` is given to each child. `changed` is called with the children's process ids after each change.
    `ready`, run in a thread of its own, may wait until the children work and then tell the user.
    """

    def __init__(
        self,
        children: Sequence[ChildSpec],
        *,
        environ: dict[str, str],
        grace_s: float,
        changed: Callable[[dict[str, int]], None] = lambda _: None,
        ready: Callable[[threading.Event], bool] = lambda _: True,
        first_backoff_s: float = FIRST_BACKOFF_S,
    ) -> None:
        self._children = {spec.name: _Child(spec) for spec in children}
        self._environ = environ
        self._grace_s = grace_s
        self._changed = changed
        self._ready = ready
        self._first_backoff_s = first_backoff_s
        self._news: SimpleQueue[_Exited | _Asked | _Ready] = SimpleQueue()
        self._was_ready = False
        self._ending = threading.Event()
        self._lifeline = -1
        self._patient_until = 0.0

    def run(self) -> None:
        """Block until SIGTERM, SIGINT or SIGHUP, then stop all children.

        Raises ConfigurationError where an essential child's settings are wrong at the first start.
        """
        self._lifeline, held = os.pipe()
        before = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        try:
            for child in self._children.values():
                self._start(child)
            threading.Thread(target=self._watch_ready, name="ready", daemon=True).start()
            self._supervise()
        finally:
            self._ending.set()
            self._stop_all()
            os.close(held)
            os.close(self._lifeline)
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- running ------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        while True:
            news = self._next_news()
            if isinstance(news, _Asked):
                log.info(
                    f"Stopping on {signal.Signals(news.signal).name}",
                    action="supervisor.stop",
                    signal=news.signal,
                )
                return
            if isinstance(news, _Ready):
                self._was_ready = True
            elif isinstance(news, _Exited):
                self._on_exit(news)
            for child in self._children.values():
                if child.restart_at is not None and child.restart_at <= time.monotonic():
                    self._start(child)

    def _next_news(self) -> _Exited | _Asked | _Ready | None:
        due = [child.restart_at for child in self._children.values() if child.restart_at is not None]
        try:
            return self._news.get(timeout=max(0.0, min(due) - time.monotonic()) if due else None)
        except Empty:
            return None

    def _start(self, child: _Child) -> None:
        spec = child.spec
        child.restart_at = None
        child.started = time.monotonic()
        environ = {name: value for name, value in self._environ.items() if name not in spec.withheld}
        try:
            child.process = subprocess.Popen(
                spec.argv,
                env={**environ, LIFELINE_VARIABLE: str(self._lifeline)},
                pass_fds=(self._lifeline, *spec.fds),
                stdin=subprocess.DEVNULL,
                # Out of the terminal's group: Ctrl-C reaches the supervisor alone, which stops in order.
                process_group=0,
            )
        except OSError as error:
            self._start_later(child, f"can't be started ({error.strerror})")
            return
        log.info(f"Started {spec.name}", action="supervisor.start", child=spec.name, pid=child.process.pid)
        threading.Thread(target=self._wait_for, args=(spec.name, child.process), daemon=True).start()
        self._tell()

    def _wait_for(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._news.put(_Exited(name, process.pid, process.wait()))

    def _on_exit(self, news: _Exited) -> None:
        child = self._children[news.name]
        child.process = None
        self._tell()
        if news.code == EXIT_CONFIGURATION and child.spec.essential and not self._was_ready:
            raise ConfigurationError(f"The {news.name} process can't start with these settings (see above).")
        if time.monotonic() - child.started > SETTLED_S:
            child.failures = 0
        self._start_later(child, f"died ({how_it_ended(news.code)})", pid=news.pid, exit_code=news.code)

    def _start_later(self, child: _Child, what: str, **details: int) -> None:
        wait = min(self._first_backoff_s * 2**child.failures, LONGEST_BACKOFF_S)
        child.failures += 1
        child.restart_at = time.monotonic() + wait
        name = child.spec.name
        log.error(
            f"The {name} process {what}; starting it again in {wait:g} s",
            action="supervisor.died",
            child=name,
            failures=child.failures,
            **details,
        )

    def _tell(self) -> None:
        self._changed({name: child.process.pid for name, child in self._children.items() if child.process})

    def _watch_ready(self) -> None:
        if self._ready(self._ending):
            self._news.put(_Ready())

    def _on_signal(self, number: int, _: object) -> None:
        self._news.put(_Asked(number))  # SimpleQueue.put is reentrant, so a signal handler may call it

    # -- stopping -----------------------------------------------------------------------------------

    def _stop_all(self) -> None:
        self._patient_until = time.monotonic() + ONE_SIGNAL_S
        ranks = sorted({child.spec.stop_rank for child in self._children.values()})
        for rank in ranks:
            self._stop([child for child in self._children.values() if child.spec.stop_rank == rank])

    def _stop(self, children: list[_Child]) -> None:
        """SIGTERM, and SIGKILL to those that are still there after the grace time or a second signal.

        One signal can come twice at once, to the process and to its group (`timeout`, a closed terminal);
        only what comes a second later is somebody who won't wait.
        """
        running = {child.spec.name: child.process for child in children if child.process}
        for process in running.values():
            process.terminate()
        deadline = time.monotonic() + self._grace_s
        while running:
            try:
                news = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                news = None
            if isinstance(news, _Exited):
                running.pop(news.name, None)
                self._children[news.name].process = None
                log.info(f"Stopped {news.name}", action="supervisor.stopped", exit_code=news.code)
            elif news is None or (isinstance(news, _Asked) and time.monotonic() > self._patient_until):
                why = "didn't stop in time" if news is None else "isn't waited for: a second signal came"
                for name, process in running.items():
                    log.error(f"The {name} process {why}; killing it", action="supervisor.kill")
                    process.kill()
                deadline = time.monotonic() + self._grace_s


def how_it_ended(code: int) -> str:
    """Say in words how a process ended, from what Popen.wait returned."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"
