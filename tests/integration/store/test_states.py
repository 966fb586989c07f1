"""State versions: one chain of versions with ops, snapshots and citations."""

from __future__ import annotations

import threading

import pytest

from chainmemory.errors import Conflict
from chainmemory.protocol.hashing import ZERO
from chainmemory.store.database import Database
from chainmemory.store.states import Citation
from chainmemory.vault.places import state_doc_place, state_ops_place
from tests.support.saving import (
    append_state,
    at,
    check_ledger,
    create_account,
    create_project,
    made_up_hash,
    save,
    state_row,
)


def test_a_version_is_written_with_everything_that_belongs_to_it(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    save(db, person, "one", "two", "three")
    row = append_state(
        db, person, project, 1, cited=[("dec_0001", 3), ("dec_0001", 1), ("phase", 1), ("phase", 1)]
    )
    with db.read() as tx:
        head = tx.projects.by_id(project.project_id)
        assert head is not None
        assert (head.version, head.state_hash) == (1, row.state_hash)
        version = tx.states.get(project.project_id, 1)
        assert version is not None
        assert tuple(version) == (*row[:9], "pending")
        assert check_ledger(tx, person.account_id) == 4
        queued = tx.outbox.get("state", project.project_id, 1)
        assert queued is not None
        assert (queued.hash, queued.status, queued.account_id) == (
            row.state_hash,
            "pending",
            person.account_id,
        )
        assert tx.states.cited_for(project.project_id, "dec_0001", last=1) == [
            Citation(project.project_id, 1, "dec_0001", 1),
            Citation(project.project_id, 1, "dec_0001", 3),
        ]
        assert [citation.item_id for citation in tx.states.citing(person.account_id, 1)] == [
            "dec_0001",
            "phase",
        ]
        assert tx.states.citing(person.account_id, 2) == []
        ops = tx.states.ops(project.project_id, after=0, last=1)
    assert [(one.version, one.state_hash) for one in ops] == [(1, row.state_hash)]
    place = state_ops_place(person.account_id, project.project_id, 1)
    assert person.vault.open(ops[0].ops_blob, ops[0].ops_seed, place) == b"[]"


def test_a_version_follows_the_current_one_or_is_refused_whole(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    append_state(db, person, project, 1)
    for version in (1, 3):
        with pytest.raises(Conflict) as caught:
            append_state(db, person, project, version, cited=[("dec_0001", 1)])
        assert caught.value.code == "version_conflict"
    with db.read() as tx:
        assert [row.version for row in tx.states.list(project.project_id)] == [1]
        assert tx.states.citing(person.account_id, 1) == []
        assert check_ledger(tx, person.account_id) == 1
        assert tx.outbox.page("state", project.project_id, limit=9)[0].position == 1


def test_versions_are_listed_newest_first_in_pages(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    for version in range(1, 6):
        append_state(db, person, project, version)
    with db.read() as tx:
        assert [row.version for row in tx.states.list(project.project_id, limit=2)] == [5, 4]
        assert [row.version for row in tx.states.list(project.project_id, before=4, limit=9)] == [3, 2, 1]
        assert tx.states.get(project.project_id, 6) is None
        assert [ops.version for ops in tx.states.ops(project.project_id, after=2, last=4)] == [3, 4]
        assert tx.states.of_account(person.account_id) == [
            ("alpha", version, made_up_hash(project.project_id, version)) for version in range(1, 6)
        ]
        assert tx.projects.totals() == (1, 5)


def test_the_nearest_snapshot_is_at_or_below(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    vault = person.vault
    for version in range(1, 8):
        sealed = vault.seal(b"{}", state_doc_place(person.account_id, project.project_id, version))
        snapshot = (sealed.wrapped_seed, sealed.blob) if version in (2, 5) else None
        with db.write() as tx:
            tx.states.append(state_row(person, project, version), cited=[], snapshot=snapshot)
    with db.read() as tx:
        found = [tx.states.nearest_snapshot(project.project_id, version) for version in range(1, 8)]
        newest = found[-1]
    assert [snapshot and snapshot.version for snapshot in found] == [None, 2, 2, 2, 5, 5, 5]
    assert newest is not None
    place = state_doc_place(person.account_id, project.project_id, 5)
    assert vault.open(newest.doc_blob, newest.doc_seed, place) == b"{}"


def test_citations_up_to_a_version(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    append_state(db, person, project, 1, cited=[("dec_0001", 2)])
    append_state(db, person, project, 2, cited=[("dec_0001", 1), ("dec_0002", 5)])
    append_state(db, person, project, 3, cited=[("dec_0001", 9)])
    with db.read() as tx:
        numbers = [
            [citation.number for citation in tx.states.cited_for(project.project_id, "dec_0001", last=last)]
            for last in (0, 1, 2, 3)
        ]
    assert numbers == [[], [2], [2, 1], [2, 1, 9]]


def test_of_writers_at_once_one_makes_each_version(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    won: list[int] = []
    lost: list[str] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while len(won) < 10:
                with db.read() as tx:
                    head = tx.projects.by_id(project.project_id)
                assert head is not None
                try:
                    append_state(db, person, project, head.version + 1)
                except Conflict as error:
                    lost.append(error.code)
                else:
                    won.append(head.version + 1)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(lost) <= {"version_conflict"}
    assert sorted(won) == list(range(1, len(won) + 1))
    with db.read() as tx:
        versions = tx.states.list(project.project_id, limit=99)
        assert [row.version for row in versions] == list(range(len(won), 0, -1))
        assert check_ledger(tx, person.account_id) == len(won)
        queued = tx.outbox.page("state", project.project_id, limit=99)
        assert [row.position for row in queued] == list(range(len(won), 0, -1))


def test_a_watermark_and_author_are_kept(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    row = state_row(person, project, 1, watermark=4)._replace(generated_by_blob=b"sealed")
    with db.write() as tx:
        tx.states.append(row, cited=[])
    with db.read() as tx:
        version = tx.states.get(project.project_id, 1)
        head = tx.projects.by_id(project.project_id)
    assert version is not None
    assert head is not None
    assert (version.generated_by_blob, version.generated_at) == (b"sealed", at(1))
    assert version.consolidated_until_event == head.watermark == 4
    assert project.state_hash == ZERO
