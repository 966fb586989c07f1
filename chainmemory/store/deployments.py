"""Deployments: where this product's contracts are on each chain."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, delete, select

from chainmemory.errors import Conflict
from chainmemory.store.sql import Session, Statement, insert_or_ignore
from chainmemory.store.tables import deployments


class DeploymentRow(NamedTuple):
    """One deployed contract; `code_hash` is of the code found at `address` when it was recorded."""

    chain_id: int
    name: str
    address: str
    block_number: int
    tx_hash: str
    code_hash: str
    created_at: str


_COLUMNS = [deployments.c[name] for name in DeploymentRow._fields]
_INSERT = insert_or_ignore(deployments, *DeploymentRow._fields)
_LIST = Statement(
    select(*_COLUMNS).where(deployments.c.chain_id == bindparam("chain")).order_by(deployments.c.name),
    "chain",
)
_ALL = Statement(select(*_COLUMNS).order_by(deployments.c.chain_id, deployments.c.name))
_REMOVE = Statement(delete(deployments).where(deployments.c.chain_id == bindparam("chain")), "chain")


class Deployments:
    """`tx.deployments`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, row: DeploymentRow) -> None:
        """Record a contract; raises Conflict (`deployment_exists`) if another is recorded under that name.

        Recording the same address again is fine.
        """
        if self._session.run(_INSERT, row):
            return
        known = self.of_chain(row.chain_id).get(row.name)
        if known is None or known.address != row.address:
            raise Conflict(
                f"{row.name} on chain {row.chain_id} is already recorded at another address.",
                code="deployment_exists",
                details={"address": known.address if known else None},
            )

    def of_chain(self, chain_id: int) -> dict[str, DeploymentRow]:
        """Return the contracts recorded for this chain, by name."""
        return {row[1]: DeploymentRow(*row) for row in self._session.all(_LIST, (chain_id,))}

    def all(self) -> list[DeploymentRow]:
        """Return every recorded contract, by chain id and name."""
        return [DeploymentRow(*row) for row in self._session.all(_ALL)]

    def remove(self, chain_id: int) -> int:
        """Drop what is recorded for a chain (a move to new contracts) and return how many rows."""
        return self._session.run(_REMOVE, (chain_id,))
