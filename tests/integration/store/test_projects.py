"""Projects: unique slugs, public names first come, heads by compare-and-swap."""

from __future__ import annotations

import threading

import pytest

from chainmemory.errors import Conflict, NotFound
from chainmemory.protocol.hashing import ZERO
from chainmemory.protocol.identity import project_id
from chainmemory.store.database import Database
from tests.support.saving import Person, append_state, create_account, create_project, new_project, save


def test_a_new_project_has_no_state(db: Database) -> None:
    person = create_account(db)
    new = new_project(person, "alpha")
    with db.write() as tx:
        project, created = tx.projects.create(new)
    assert created
    assert project.project_id == project_id(person.account_id, "alpha")
    assert (project.slug, project.public_name, project.archived) == ("alpha", "alpha", False)
    assert (project.version, project.state_hash, project.watermark) == (0, ZERO, 0)
    assert (project.secret_blob, project.created_at) == (new.secret_blob, new.created_at)


def test_creating_again_keeps_the_first_secret(db: Database) -> None:
    person = create_account(db)
    first = create_project(db, person, "alpha")
    with db.write() as tx:
        again, created = tx.projects.create(new_project(person, "alpha"))
        assert tx.projects.ensure(person.account_id, "alpha", lambda: new_project(person, "alpha")) == first
    assert not created
    assert again == first


def test_ensure_makes_nothing_where_the_project_is_there(db: Database) -> None:
    person = create_account(db)
    first = create_project(db, person, "alpha")
    with db.write() as tx:
        assert tx.projects.ensure(person.account_id, "alpha", lambda: pytest.fail("made")) == first


def test_a_public_name_belongs_to_the_first_account_that_had_it(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    first, second = create_project(db, one, "alpha"), create_project(db, two, "alpha")
    assert first.public_name == "alpha"
    assert second.public_name == second.project_id != first.project_id
    with db.read() as tx:
        assert tx.projects.by_public_name("alpha") == first
        assert tx.projects.by_public_name(second.project_id) == second
        assert tx.projects.by_public_name(first.project_id) == first
        assert tx.projects.by_public_name("beta") is None
        assert tx.projects.by_public_name("0x" + "0" * 64) is None
        names = tx.projects.public_names_of([first.project_id, second.project_id, "0x"])
    assert names == {first.project_id: "alpha", second.project_id: second.project_id}


def test_a_deleted_project_keeps_its_name_for_its_account(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    create_project(db, one, "alpha")
    with db.write() as tx:
        tx.projects.delete(one.account_id, "alpha")
        assert tx.projects.get(one.account_id, "alpha") is None
    other = create_project(db, two, "alpha")
    assert other.public_name == other.project_id
    assert create_project(db, one, "alpha").public_name == "alpha"


def test_a_project_with_states_can_only_be_archived(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    append_state(db, person, project, 1)
    with pytest.raises(Conflict) as caught, db.write() as tx:
        tx.projects.delete(person.account_id, "alpha")
    assert caught.value.code == "project_has_states"
    with db.write() as tx:
        tx.projects.set_archived(person.account_id, "alpha", True)
    with db.read() as tx:
        found = tx.projects.get(person.account_id, "alpha")
    assert found is not None
    assert (found.archived, found.version) == (True, 1)
    with db.write() as tx:
        tx.projects.set_archived(person.account_id, "alpha", False)
        assert tx.projects.get(person.account_id, "alpha") == found._replace(archived=False)


def test_what_is_not_there_is_not_found(db: Database) -> None:
    person, other = create_account(db), create_account(db)
    create_project(db, other, "alpha")
    with db.write() as tx:
        for call in (
            lambda: tx.projects.delete(person.account_id, "alpha"),
            lambda: tx.projects.set_archived(person.account_id, "alpha", True),
            lambda: tx.projects.set_profile(person.account_id, "alpha", b"x"),
            lambda: tx.projects.advance("0x", old_version=0, version=1, state_hash=ZERO, watermark=0),
        ):
            with pytest.raises(NotFound):
                call()


def test_lists_and_counts_are_the_accounts_own(db: Database) -> None:
    one, two = create_account(db), create_account(db)
    for slug in ("beta", "alpha"):
        create_project(db, one, slug)
    create_project(db, two, "gamma")
    save(db, one, "a", "b", project="alpha")
    save(db, one, "c", project="beta")
    save(db, one, "d")
    with db.write() as tx:
        tx.projects.set_profile(one.account_id, "alpha", b"sealed")
    with db.read() as tx:
        assert [(row.slug, row.profile_blob) for row in tx.projects.list(one.account_id)] == [
            ("alpha", b"sealed"),
            ("beta", None),
        ]
        assert tx.projects.memory_counts(one.account_id) == {"alpha": 2, "beta": 1}
        assert tx.projects.totals() == (3, 0)


def test_the_head_moves_by_compare_and_swap(db: Database) -> None:
    person = create_account(db)
    project = create_project(db, person, "alpha")
    with db.write() as tx:
        tx.projects.advance(project.project_id, old_version=0, version=1, state_hash="0x1", watermark=7)
        moved = tx.projects.by_id(project.project_id)
        assert moved == project._replace(version=1, state_hash="0x1", watermark=7)
    with pytest.raises(Conflict) as caught, db.write() as tx:
        tx.projects.advance(project.project_id, old_version=0, version=1, state_hash="0x2", watermark=8)
    assert caught.value.code == "version_conflict"
    assert caught.value.details == {"current_version": 1, "state_hash": "0x1"}
    with db.write() as tx:
        tx.projects.set_archived(person.account_id, "alpha", True)
    with pytest.raises(Conflict) as caught, db.write() as tx:
        tx.projects.advance(project.project_id, old_version=1, version=2, state_hash="0x2", watermark=8)
    assert caught.value.code == "project_archived"


def test_threads_that_create_the_same_projects_agree(db: Database) -> None:
    people = [create_account(db), create_account(db)]
    failures: list[BaseException] = []
    made: list[tuple[str, bool]] = []

    def work(person: Person) -> None:
        try:
            for slug in ("alpha", "beta"):
                project, created = db.transact(
                    lambda tx, slug=slug: tx.projects.create(new_project(person, slug))
                )
                made.append((project.project_id, created))
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(person,)) for person in people * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(project for project, created in made if created) == sorted({project for project, _ in made})
    with db.read() as tx:
        projects = [project for person in people for project in tx.projects.list(person.account_id)]
    assert sorted(p.slug for p in projects if p.public_name == p.slug) == ["alpha", "beta"]
    assert sum(p.public_name == p.project_id for p in projects) == 2
