"""Statements that are compiled once, on both dialects."""

from __future__ import annotations

import importlib
import pkgutil
import sqlite3

import pytest
from sqlalchemy import bindparam, select

import chainmemory.store
from chainmemory.errors import Conflict, Unavailable
from chainmemory.store.faults import translate
from chainmemory.store.sql import Statement, byte_position, one_of
from chainmemory.store.tables import memories, outbox

DIALECTS = ("sqlite", "postgresql")


def _statements() -> list[tuple[str, Statement]]:
    found = []
    for module in pkgutil.iter_modules(chainmemory.store.__path__):
        if module.ispkg:
            continue
        names = vars(importlib.import_module(f"chainmemory.store.{module.name}"))
        found += [
            (f"{module.name}.{name}", value) for name, value in names.items() if isinstance(value, Statement)
        ]
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_of_the_store_compiles(dialect: str) -> None:
    statements = _statements()
    assert len(statements) > 60
    for name, statement in statements:
        sql, _ = statement.on(dialect)
        assert ("?" in sql) <= (dialect == "sqlite"), name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parameters_are_laid_out_as_declared_with_constants_between(dialect: str) -> None:
    condition = [outbox.c.subject == bindparam("of"), one_of(outbox.c.status, ["a", "b"])]
    statement = Statement(
        select(outbox.c.id).where(*condition, outbox.c.position == bindparam("at")), "at", "of"
    )
    _, layout = statement.on(dialect)
    assert layout == [(1, None), (-1, "a"), (-1, "b"), (0, None)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_statement_whose_text_is_not_fixed_is_refused(dialect: str) -> None:
    with pytest.raises(RuntimeError, match="one_of"):
        Statement(select(outbox.c.id).where(outbox.c.status.in_(["a"]))).on(dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_parameter_that_is_not_in_the_statement_is_refused(dialect: str) -> None:
    with pytest.raises(RuntimeError, match="nowhere"):
        Statement(select(outbox.c.id), "nowhere").on(dialect)


def test_the_place_of_bytes_is_asked_in_each_dialects_words() -> None:
    statement = Statement(select(memories.c.number).where(byte_position(memories.c.tag_tokens, b"x") > 0))
    assert "instr(memories.tag_tokens, ?)" in statement.on("sqlite")[0]
    assert "position(%s in memories.tag_tokens)" in statement.on("postgresql")[0]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sqlite3.IntegrityError("UNIQUE constraint failed"), Conflict),
        (sqlite3.OperationalError("database is locked"), Unavailable),
        (sqlite3.OperationalError("database or disk is full"), Unavailable),
        (sqlite3.DatabaseError("database disk image is malformed"), Unavailable),
        (ValueError("ours"), None),
        (Conflict("ours"), None),
    ],
)
def test_errors_of_the_driver_are_said_in_ours(error: Exception, expected: type | None) -> None:
    known = translate(error)
    assert (known if known is None else type(known)) is expected
