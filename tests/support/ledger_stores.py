"""A store with an account whose ledger has saves, states and both mixed; and copies of it, to be damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text

from chainmemory.engine import accounts, ledger_verify, memory_save, state_ops
from chainmemory.engine.callers import Caller
from chainmemory.engine.ledger_check import _exactly, _in_order, _states
from chainmemory.engine.ledger_stream import Irregular
from chainmemory.engine.runtime import Engine
from chainmemory.settings import Settings
from chainmemory.state.call import check_call

MEMORIES, STATES = 24, 3


@dataclass
class Ledger:
    """An account's ledger in a store of its own."""

    engine: Engine
    caller: Caller
    url: str

    @property
    def account_id(self) -> str:
        return self.caller.account_id

    def save(self, text: str = "said", **fields: Any) -> dict[str, Any]:
        body = memory_save.SAVE.check({"content": text, **fields})
        return memory_save.save(self.engine, self.caller, None, body).answer

    def phase(self, project: str, phase: str) -> dict[str, Any]:
        call = check_call({"ops": [{"op": "set_phase", "phase": phase}]})
        return state_ops.apply(self.engine, self.caller, None, project, call).answer

    def verify(self, *, deep: bool = False) -> dict[str, Any]:
        """Return the report, once both ways to make it were seen to agree."""
        report = ledger_verify.verify(self.engine, self.caller, deep=deep)
        vault = self.engine.vault(self.account_id) if deep else None
        with self.engine.db.read() as tx:
            projects = sorted(tx.projects.list(self.account_id), key=lambda one: one.slug)
            states = _states(tx, self.account_id, projects, vault)
            exact = _exactly(tx, self.account_id, None, vault, states)
            try:
                quick = _in_order(tx, self.account_id, None, vault, states)
            except Irregular:
                return report
        for verdict in ("altered", "missing", "unsealed", "disputed"):
            assert sorted(getattr(quick, verdict)) == sorted(getattr(exact, verdict)), verdict
        assert (quick.chain, quick.sealed, quick.forgotten, quick.head) == (
            exact.chain, exact.sealed, exact.forgotten, exact.head,
        )  # fmt: skip
        return report

    def sql(self, statement: str, **values: Any) -> int:
        """Change the store past the server; foreign keys don't stand in the way."""
        url = make_url(self.url)
        if url.get_backend_name() == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        engine = create_engine(url)
        with engine.begin() as connection:
            changed = connection.execute(text(statement), {"of": self.account_id, **values}).rowcount
        engine.dispose()
        assert changed > 0, statement
        return int(changed)

    def read(self, statement: str, **values: Any) -> Any:
        url = make_url(self.url)
        if url.get_backend_name() == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        engine = create_engine(url)
        with engine.connect() as connection:
            found = connection.execute(text(statement), {"of": self.account_id, **values}).scalar_one()
        engine.dispose()
        return found


@contextmanager
def opened(home: Path, caller: Caller | None = None, url: str | None = None) -> Iterator[Ledger]:
    """Open a store; without `caller` with a new account and its ledger."""
    given = {"database_url": url} if url else {}
    # Port 1 answers nothing, so there is no chain.
    settings = Settings.load(home=home, chain_port=1, **given)
    engine = Engine.open(settings)
    try:
        if caller is None:
            caller = fill(engine)
        yield Ledger(engine, caller, settings.store_url)
    finally:
        engine.close()


def fill(engine: Engine) -> Caller:
    """Create an account with memories, states, and both among each other."""
    made = accounts.create_account(engine)
    caller = Caller(made["account_id"], made["key_id"], "owner")
    texts = [
        {"content": f"said {number}", "project": "p", "tags": ["t"]} for number in range(1, MEMORIES - 1)
    ]
    memory_save.save_batch(engine, caller, None, memory_save.BATCH.check({"memories": texts}))
    ledger = Ledger(engine, caller, "")
    for number in range(STATES):
        ledger.phase("p", f"phase {number}")
        if number < 2:
            ledger.save(f"after phase {number}")
    return caller


def copied(home: Path, to: Path) -> Path:
    """Copy a closed store and its keys."""
    return Path(shutil.copytree(home, to / "home"))
