"""One worker at a time: a lease row with an expiry and a fencing token, kept alive by heartbeats (rule 1)."""

from __future__ import annotations

import os
import secrets
import socket

from chainmemory.anchoring.clock import Clock
from chainmemory.errors import Conflict
from chainmemory.store.database import Database
from chainmemory.store.leases import Lease


def holder_name() -> str:
    """Name this process as a lease's holder; no two are the same."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class LeaseKeeper:
    """Takes, keeps and gives back one lease.

    A lease whose row nobody renewed for `ttl_s` on *this* process's steady clock has lapsed, whatever its
    expiry says: so a wall clock that jumps can't lock everyone out. One taken too early does no harm: the
    token rises, and its former holder can't write any more.
    """

    def __init__(self, db: Database, name: str, holder: str, ttl_s: float, clock: Clock) -> None:
        self._db = db
        self._ttl_s = ttl_s
        self._clock = clock
        self.name = name
        self.holder = holder
        self._lease: Lease | None = None
        self._renewed = 0.0
        self._seen: Lease | None = None
        self._seen_since = 0.0

    @property
    def held(self) -> Lease | None:
        return self._lease

    @property
    def other(self) -> str | None:
        """Who holds it where we don't, as last seen."""
        return self._seen.holder if self._lease is None and self._seen else None

    def hold(self) -> Lease | None:
        """Return the lease, renewed where a third of its time is over; None while another worker holds it."""
        if self._lease is None:
            return self._take()
        if self._clock.steady() - self._renewed < self._ttl_s / 3:
            return self._lease
        started = self._clock.steady()
        try:
            with self._db.write() as tx:
                self._lease = tx.leases.renew(self._lease, until=self._clock.after(self._ttl_s))
        except Conflict:
            self.lost()
            return None
        self._renewed = started
        return self._lease

    def lost(self) -> None:
        """Note that another holding began: what was held is worth nothing any more."""
        self._lease = None
        self._seen = None

    def release(self) -> None:
        """Give the lease back, so that another worker needn't wait for it to lapse."""
        if self._lease is not None:
            with self._db.write() as tx:
                tx.leases.release(self._lease, now=self._clock.now())
        self.lost()

    def _take(self) -> Lease | None:
        started = self._clock.steady()
        now = self._clock.now()
        with self._db.write() as tx:
            standing = tx.leases.get(self.name)
            if standing is not None and self._lapsed(standing):
                now = max(now, standing.expires_at)
            taken = tx.leases.acquire(self.name, self.holder, now=now, until=self._clock.after(self._ttl_s))
        if taken is not None:
            self._lease, self._renewed, self._seen = taken, started, None
        return taken

    def _lapsed(self, standing: Lease) -> bool:
        """Say whether the row stood still for a whole lease under our eyes."""
        if standing != self._seen:
            self._seen, self._seen_since = standing, self._clock.steady()
            return False
        return self._clock.steady() - self._seen_since > self._ttl_s
