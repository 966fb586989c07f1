"""Leases: rows with an expiry and a fencing token, so that one worker acts at a time (design.md, rule 1)."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from chainmemory.errors import Conflict
from chainmemory.store.sql import Session, Statement, insert_or_ignore
from chainmemory.store.tables import leases


class Lease(NamedTuple):
    """Who may act under `name` until `expires_at` (time); `token` rises by one with each new holding."""

    name: str
    holder: str
    token: int
    expires_at: str


_COLUMNS = [leases.c[name] for name in Lease._fields]
_THIS = leases.c.name == bindparam("lease")
_MINE = (leases.c.holder == bindparam("who"), leases.c.token == bindparam("held"))

_INSERT = insert_or_ignore(leases, "name", "holder", "expires_at", token=1)
_TAKE = Statement(
    update(leases)
    .where(_THIS, leases.c.expires_at <= bindparam("now"))
    .values(holder=bindparam("who"), token=leases.c.token + 1, expires_at=bindparam("until"))
    .returning(*_COLUMNS),
    "who",
    "until",
    "lease",
    "now",
)
_RENEW = Statement(
    update(leases).where(_THIS, *_MINE).values(expires_at=bindparam("until")), "until", "lease", "who", "held"
)
# Writing the row to itself locks it: nobody can take the lease over before this transaction ends.
_GUARD = Statement(update(leases).where(_THIS, *_MINE).values(token=leases.c.token), "lease", "who", "held")
_GET = Statement(select(*_COLUMNS).where(_THIS), "lease")
_ALL = Statement(select(*_COLUMNS).order_by(leases.c.name))


class Leases:
    """`tx.leases`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def acquire(self, name: str, holder: str, *, now: str, until: str) -> Lease | None:
        """Take the lease until `until` if it is free or lapsed at `now`; None while someone holds it.

        Every success is a new holding with a higher token, also for the same holder. Who holds a lease renews
        it.
        """
        if self._session.run(_INSERT, (name, holder, until)):
            return Lease(name, holder, 1, until)
        row = self._session.one(_TAKE, (holder, until, name, now))
        return Lease(*row) if row else None

    def renew(self, lease: Lease, *, until: str) -> Lease:
        """Move the expiry; raises Conflict (`lease_lost`) once another holding began.

        A lapsed lease that nobody took can still be renewed: the token alone fences.
        """
        if not self._session.run(_RENEW, (until, lease.name, lease.holder, lease.token)):
            raise _lost(lease)
        return lease._replace(expires_at=until)

    def release(self, lease: Lease, *, now: str) -> None:
        """Let the lease lapse at `now`; nothing happens if it was lost. Its token is never given again."""
        self._session.run(_RENEW, (now, lease.name, lease.holder, lease.token))

    def guard(self, lease: Lease) -> None:
        """Make this transaction one that only the holder can commit; raises Conflict (`lease_lost`)."""
        if not self._session.run(_GUARD, (lease.name, lease.holder, lease.token)):
            raise _lost(lease)

    def get(self, name: str) -> Lease | None:
        """Return the lease as it stands, lapsed or not; None if nobody ever took it."""
        row = self._session.one(_GET, (name,))
        return Lease(*row) if row else None

    def all(self) -> list[Lease]:
        """Return every lease by name."""
        return [Lease(*row) for row in self._session.all(_ALL)]


def _lost(lease: Lease) -> Conflict:
    return Conflict(
        f"The lease {lease.name} (token {lease.token}) was taken over; nothing was written.",
        code="lease_lost",
    )
