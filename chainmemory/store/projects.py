"""Projects: slugs of an account, their public names (first come), and the head of their state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, select, update

from chainmemory.errors import Conflict, NotFound
from chainmemory.protocol.hashing import ZERO
from chainmemory.store.sql import Session, Statement, insert_or_ignore
from chainmemory.store.tables import memories, projects, public_names, state_versions


class NewProject(NamedTuple):
    """What a project is made of; both blobs are encrypted by the vault."""

    project_id: str
    account_id: str
    slug: str
    secret_blob: bytes
    profile_blob: bytes | None
    created_at: str


class Project(NamedTuple):
    """One project; `version`, `state_hash` and `watermark` are those of its current state (0, ZERO, 0
    without).
    """

    project_id: str
    account_id: str
    slug: str
    public_name: str
    secret_blob: bytes
    profile_blob: bytes | None
    archived: bool
    created_at: str
    version: int
    state_hash: str
    watermark: int


_P = projects.c
_COLUMNS = [_P[name] for name in Project._fields]
_SLUG = (_P.account_id == bindparam("of"), _P.slug == bindparam("called"))

_CLAIM_NAME = insert_or_ignore(public_names, "name", "project_id", "account_id")
_NAME_OWNER = Statement(
    select(public_names.c.project_id).where(public_names.c.name == bindparam("called")), "called"
)
_INSERT = insert_or_ignore(
    projects,
    "project_id",
    "account_id",
    "slug",
    "public_name",
    "secret_blob",
    "profile_blob",
    "created_at",
    archived=False,
    version=0,
    state_hash=ZERO,
    watermark=0,
)
_GET = Statement(select(*_COLUMNS).where(*_SLUG), "of", "called")
_BY_ID = Statement(select(*_COLUMNS).where(_P.project_id == bindparam("id")), "id")
_BY_PUBLIC_NAME = Statement(select(*_COLUMNS).where(_P.public_name == bindparam("called")), "called")
_LIST = Statement(
    select(*_COLUMNS).where(_P.account_id == bindparam("of")).order_by(_P.created_at, _P.slug), "of"
)
_ARCHIVE = Statement(
    update(projects).where(*_SLUG).values(archived=bindparam("flag")), "flag", "of", "called"
)
_PROFILE = Statement(
    update(projects).where(*_SLUG).values(profile_blob=bindparam("blob")), "blob", "of", "called"
)
_DELETE = Statement(
    delete(projects).where(
        *_SLUG,
        _P.version == 0,
        ~select(state_versions.c.version).where(state_versions.c.project_id == _P.project_id).exists(),
    ),
    "of",
    "called",
)
_ADVANCE = Statement(
    update(projects)
    .where(_P.project_id == bindparam("id"), _P.version == bindparam("old"), _P.archived.is_(False))
    .values(version=bindparam("new"), state_hash=bindparam("state"), watermark=bindparam("mark")),
    "new",
    "state",
    "mark",
    "id",
    "old",
)
_MEMORY_COUNTS = Statement(
    select(memories.c.project, func.count())
    .where(memories.c.account_id == bindparam("of"), memories.c.project.is_not(None))
    .group_by(memories.c.project),
    "of",
)
_TOTALS = Statement(select(func.count(), func.coalesce(func.sum(_P.version), 0)))


class Projects:
    """`tx.projects`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, account_id: str, slug: str) -> Project | None:
        """Return the account's project of that name, archived or not, or None."""
        return _project(self._session.one(_GET, (account_id, slug)))

    def by_id(self, project_id: str) -> Project | None:
        """Return the project with this id (hex32), or None."""
        return _project(self._session.one(_BY_ID, (project_id,)))

    def by_public_name(self, name: str) -> Project | None:
        """Return the project a public route means: by public name, or by project id (0x…)."""
        if name.startswith("0x"):
            return self.by_id(name)
        return _project(self._session.one(_BY_PUBLIC_NAME, (name,)))

    def create(self, new: NewProject) -> tuple[Project, bool]:
        """Create the project if it isn't there; return it, and whether it was created now.

        Its public name is its slug if no other account of this store had it first, ever; otherwise its id.
        """
        self._session.run(_CLAIM_NAME, (new.slug, new.project_id, new.account_id))
        owner = self._session.one(_NAME_OWNER, (new.slug,))
        public_name = new.slug if owner == (new.project_id,) else new.project_id
        created = self._session.run(
            _INSERT,
            (
                new.project_id,
                new.account_id,
                new.slug,
                public_name,
                new.secret_blob,
                new.profile_blob,
                new.created_at,
            ),
        )
        project = self.get(new.account_id, new.slug)
        if project is None:
            raise Conflict("The project was deleted at the same time; try again.", code="try_again")
        return project, created == 1

    def ensure(self, account_id: str, slug: str, make: Callable[[], NewProject]) -> Project:
        """Return the account's project, creating it from `make()` if it isn't there (`create` decides a
        race).
        """
        return self.get(account_id, slug) or self.create(make())[0]

    def list(self, account_id: str) -> list[Project]:
        """Return the account's projects, archived ones too, oldest first."""
        return [_some_project(row) for row in self._session.all(_LIST, (account_id,))]

    def memory_counts(self, account_id: str) -> dict[str, int]:
        """Return how many memories each project (by slug) was given, forgotten ones too."""
        return {row[0]: int(row[1]) for row in self._session.all(_MEMORY_COUNTS, (account_id,))}

    def set_archived(self, account_id: str, slug: str, archived: bool) -> None:
        """Archive the project or take it back; raises NotFound."""
        if not self._session.run(_ARCHIVE, (archived, account_id, slug)):
            raise _not_found(slug)

    def set_profile(self, account_id: str, slug: str, profile_blob: bytes | None) -> None:
        """Replace the encrypted display name, keywords and description; raises NotFound."""
        if not self._session.run(_PROFILE, (profile_blob, account_id, slug)):
            raise _not_found(slug)

    def delete(self, account_id: str, slug: str) -> None:
        """Delete a project without state versions; its public name stays taken for ever.

        Raises NotFound, or Conflict (`project_has_states`) where it must be archived instead.
        """
        if self._session.run(_DELETE, (account_id, slug)):
            return
        if self.get(account_id, slug) is None:
            raise _not_found(slug)
        raise Conflict(
            f"The project {slug} has state versions and can't be deleted; archive it instead.",
            code="project_has_states",
        )

    def advance(
        self, project_id: str, *, old_version: int, version: int, state_hash: str, watermark: int
    ) -> None:
        """Move the project's state head by compare-and-swap.

        Raises Conflict: `version_conflict` (with `details.current_version`) if the current version is not
        `old_version`, `project_archived` if it was archived meanwhile; NotFound if it is gone.
        """
        if self._session.run(_ADVANCE, (version, state_hash, watermark, project_id, old_version)):
            return
        project = self.by_id(project_id)
        if project is None:
            raise NotFound("There is no such project.")
        if project.archived:
            raise Conflict(f"The project {project.slug} is archived.", code="project_archived")
        raise Conflict(
            f"The current version of {project.slug} is {project.version}, not {old_version}; read it first.",
            code="version_conflict",
            details={"current_version": project.version, "state_hash": project.state_hash},
        )

    def totals(self) -> tuple[int, int]:
        """Return how many projects there are, and how many state versions all of them have."""
        count, versions = self._session.all(_TOTALS)[0]
        return int(count), int(versions)

    def public_names_of(self, project_ids: Iterable[str]) -> dict[str, str]:
        """Return the public name of each of these projects that exists, by id."""
        wanted = sorted(set(project_ids))
        rows = self._session.query(select(_P.project_id, _P.public_name).where(_P.project_id.in_(wanted)))
        return {row[0]: row[1] for row in rows}


def _project(row: tuple[object, ...] | None) -> Project | None:
    return None if row is None else _some_project(row)


def _some_project(row: tuple[object, ...]) -> Project:
    project = Project(*row)  # type: ignore[arg-type]
    return (
        project if isinstance(project.archived, bool) else project._replace(archived=bool(project.archived))
    )


def _not_found(slug: str) -> NotFound:
    return NotFound(f"There is no project {slug}.")
