"""The unit of work: one transaction, with one attribute per noun."""

from __future__ import annotations

from chainmemory.store.accounts import Accounts
from chainmemory.store.anchors import Anchors
from chainmemory.store.deployments import Deployments
from chainmemory.store.idempotency import Idempotency
from chainmemory.store.keys import Keys
from chainmemory.store.leases import Leases
from chainmemory.store.ledger import Ledger
from chainmemory.store.memories import Memories
from chainmemory.store.outbox import Outbox
from chainmemory.store.projects import Projects
from chainmemory.store.sql import Session
from chainmemory.store.states import States
from chainmemory.store.transactions import Transactions
from chainmemory.store.worker import Worker


class Tx:
    """What a use case sees of the store while its transaction is open.

    Times are passed in, never read inside. Locks are taken in the order project, account, outbox: keep to it
    (`projects.ensure`, then `states.append` or `memories.append_batch`, then `ledger.append`).
    """

    __slots__ = (
        "accounts",
        "anchors",
        "deployments",
        "idempotency",
        "keys",
        "leases",
        "ledger",
        "memories",
        "outbox",
        "projects",
        "states",
        "transactions",
        "worker",
    )

    def __init__(self, session: Session) -> None:
        self.accounts = Accounts(session)
        self.keys = Keys(session)
        self.projects = Projects(session)
        self.ledger = Ledger(session, self.accounts)
        self.memories = Memories(session, self.accounts, self.ledger)
        self.states = States(session, self.projects)
        self.leases = Leases(session)
        self.outbox = Outbox(session, self.leases)
        self.anchors = Anchors(session)
        self.transactions = Transactions(session, self.leases)
        self.worker = Worker(session, self.leases)
        self.idempotency = Idempotency(session)
        self.deployments = Deployments(session)


def tx_of(session: Session) -> Tx:
    """Return the nouns of a session; SQLite's sessions are kept open, so theirs are made once."""
    if session.nouns is None:
        session.nouns = Tx(session)
    nouns: Tx = session.nouns
    return nouns
