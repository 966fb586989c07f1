"""Parts of the work: each subject is in exactly one, the SQL condition and the plain one agree."""

from __future__ import annotations

import secrets
import sqlite3

import pytest
from sqlalchemy.dialects import sqlite

from chainmemory.store.parts import WHOLE, Part

EDGES = ["0" * 8, "55555554", "55555555", "55555556", "7fffffff", "80000000", "aaaaaaaa", "aaaaaaab", "f" * 8]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_subject_is_in_exactly_one_part(count: int) -> None:
    parts = [Part(index, count) for index in range(1, count + 1)]
    starts = EDGES + [secrets.token_hex(4) for _ in range(50)]
    subjects = [start + "0" * 24 for start in starts] + [f"0x{start}{'f' * 56}" for start in starts]
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE outbox (subject TEXT)")
    connection.executemany("INSERT INTO outbox VALUES (?)", [(subject,) for subject in subjects])

    for subject in subjects:
        assert [part.holds(subject) for part in parts].count(True) == 1, subject
    for part in parts:
        where = part.condition().compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
        found = connection.execute(f"SELECT subject FROM outbox WHERE {where}").fetchall()
        assert {row[0] for row in found} == {subject for subject in subjects if part.holds(subject)}


def test_parts_overlap_where_they_share_a_subject() -> None:
    assert Part.of("1/2") == Part(1, 2)
    assert Part(2, 3).name == "2/3"
    assert Part(1, 2).overlaps(WHOLE)
    assert Part(1, 2).overlaps(Part(2, 3))
    assert not Part(1, 2).overlaps(Part(2, 2))
    assert not Part(1, 2).overlaps(Part(3, 3))
