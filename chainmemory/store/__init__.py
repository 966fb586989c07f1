"""What the product remembers, in SQLite or PostgreSQL: tables, migrations, and the unit of work."""

from chainmemory.store.accounts import Account, Head
from chainmemory.store.database import Database
from chainmemory.store.deployments import DeploymentRow
from chainmemory.store.idempotency import StoredAnswer
from chainmemory.store.keys import ApiKey
from chainmemory.store.leases import Lease
from chainmemory.store.ledger import LedgerRow
from chainmemory.store.memories import Memory, MemoryCounts, MemoryFilter, MemoryRow, Payload
from chainmemory.store.outbox import Anchored, Depth
from chainmemory.store.outbox_rows import OutboxRow
from chainmemory.store.projects import NewProject, Project
from chainmemory.store.states import Citation, Ops, Snapshot, StateRow, StateVersion
from chainmemory.store.transactions import SignedTransaction, TransactionRow
from chainmemory.store.tx import Tx

__all__ = [
    "Account",
    "Anchored",
    "ApiKey",
    "Citation",
    "Database",
    "DeploymentRow",
    "Depth",
    "Head",
    "Lease",
    "LedgerRow",
    "Memory",
    "MemoryCounts",
    "MemoryFilter",
    "MemoryRow",
    "NewProject",
    "Ops",
    "OutboxRow",
    "Payload",
    "Project",
    "SignedTransaction",
    "Snapshot",
    "StateRow",
    "StateVersion",
    "StoredAnswer",
    "TransactionRow",
    "Tx",
]
