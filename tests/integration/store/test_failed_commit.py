"""A commit that fails leaves nothing behind, neither in the store nor in the connection it failed on."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from chainmemory.errors import Conflict
from chainmemory.store.database import Database
from tests.support.saving import create_account

KEY_OF_NOBODY = (
    "INSERT INTO api_keys (key_id, account_id, key_hash, scope, created_at) "
    "VALUES ('k', 'nobody', 'h', 'read', 't')"
)


def fail_at_commit(db: Database) -> None:
    """Write what foreign keys forbid, with the keys looked at when it commits, and only then."""
    with db.write() as tx:
        tx.memories._session.execute(text("PRAGMA defer_foreign_keys=ON"))
        tx.memories._session.execute(text(KEY_OF_NOBODY))


def test_the_connection_of_a_failed_commit_goes_on_working(tmp_path: Path) -> None:
    with Database.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as db:
        with pytest.raises(Conflict):
            fail_at_commit(db)

        person = create_account(db)
        with db.write() as tx:
            assert tx.memories._session.execute(text("UPDATE accounts SET memory_count = 0")) == 1
        with db.read() as tx:
            assert tx.accounts.get(person.account_id).memory_count == 0
            assert list(tx.memories._session.query(text("SELECT * FROM api_keys"))) == []
