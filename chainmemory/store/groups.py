"""Group commit: what several threads write at once becomes one transaction, and costs one fsync.

SQLite lets one writer in at a time, and each commit waits for the disk. So the threads that wait while one
commits hand their work to the next one in, the leader, which runs all of it and commits once. Each work
stands in a savepoint of its own: one that fails undoes nothing of the others. Nobody is answered before the
commit is on disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar

from chainmemory.errors import ChainMemoryError, Unavailable
from chainmemory.store.backend import Backend, in_session
from chainmemory.store.faults import translate
from chainmemory.store.tx import Tx, tx_of

T = TypeVar("T")

MOST_WORKS: Final = 32
"""Works in one transaction: it bounds how long the first one waits for the last."""


class _Job:
    """One thread's work, and what became of it."""

    def __init__(self, work: Callable[[Tx], Any]) -> None:
        self.work = work
        # The work runs in the leader's thread; what is bound to its own (a request's log fields) goes with
        # it.
        self.context: Context = copy_context()
        self.woken: threading.Event | None = None
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, tx: Tx) -> None:
        """Run the work; its exception is kept for its own thread."""
        self.result = self.error = None
        try:
            self.result = self.context.run(self.work, tx)
        except Exception as error:  # noqa: BLE001 - raised again in the thread whose work it was
            self.error = translate(error) or error
            if self.error is not error:
                self.error.__cause__ = error

    def answer(self) -> Any:
        """Return the work's result or raise its exception, in its own thread."""
        if self.error is not None:
            raise self.error
        return self.result


class GroupCommit:
    """Runs works in write transactions of `backend`, several in one where several wait."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._mutex = threading.Lock()
        self._queue: deque[_Job] = deque()
        self._led = False
        self._leader: int | None = None

    def run(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction and return its result once that is durable.

        `work` may run in another thread, and more than once. Raises what it raises, Unavailable, and
        RuntimeError where it is called from within a work.
        """
        if self._leader == threading.get_ident():
            raise RuntimeError("a write transaction is already open in this thread")
        job = _Job(work)
        with self._mutex:
            self._queue.append(job)
            if self._led:
                job.woken = threading.Event()
            self._led = True
        if job.woken is not None:
            job.woken.wait()
        if not job.done:
            self._lead()
        result: T = job.answer()
        return result

    def _lead(self) -> None:
        """Do what waits (this thread's own work is the first of it), then wake the next leader."""
        with self._mutex:
            jobs = [self._queue.popleft() for _ in range(min(MOST_WORKS, len(self._queue)))]
        self._leader = threading.get_ident()
        try:
            self._do(jobs)
        except BaseException as error:
            for job in jobs:
                if not job.done:
                    job.error = Unavailable("The write was interrupted; nothing was saved.")
                    job.error.__cause__ = error
                    job.done = True
            raise
        finally:
            self._leader = None
            with self._mutex:
                successor = self._queue[0] if self._queue else None
                self._led = successor is not None
            for job in jobs if successor is None else [*jobs, successor]:
                if job.woken is not None:
                    job.woken.set()

    def _do(self, jobs: list[_Job]) -> None:
        if len(jobs) > 1 and self._together(jobs):
            return
        for job in jobs:
            self._alone(job)

    def _together(self, jobs: list[_Job]) -> bool:
        """Run the works in one transaction; False, with nothing written, where the database itself failed.

        Some failures of SQLite (a full disk, an I/O error) end the whole transaction, savepoints and all.
        """
        try:
            with in_session(self._backend, self._backend.begin_write) as session:
                tx = tx_of(session)
                for job in jobs:
                    session.raw.execute("SAVEPOINT work")
                    job.run(tx)
                    if isinstance(job.error, Unavailable):
                        return False
                    if job.error is not None:
                        session.raw.execute("ROLLBACK TO work")
                    session.raw.execute("RELEASE work")
                self._backend.commit(session)
        except ChainMemoryError:
            return False
        for job in jobs:
            job.done = True
        return True

    def _alone(self, job: _Job) -> None:
        try:
            with in_session(self._backend, self._backend.begin_write) as session:
                job.run(tx_of(session))
                if job.error is None:
                    self._backend.commit(session)
        except ChainMemoryError as error:
            job.error = error
        job.done = True
