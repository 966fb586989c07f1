"""Projects (api.md, Projects): slugs of an account, their display names, and their secrets."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from chainmemory.engine import clock
from chainmemory.engine.callers import Caller
from chainmemory.engine.once import Once, Written, write
from chainmemory.engine.shapes import Field, Many, Record, Slug, Text, need
from chainmemory.errors import Conflict, NotFound
from chainmemory.protocol.identity import project_id
from chainmemory.store.projects import NewProject, Project
from chainmemory.store.tx import Tx
from chainmemory.vault.account import AccountVault

if TYPE_CHECKING:
    from chainmemory.engine.runtime import Engine

CREATE: Final = Record(
    {
        "project_id": need(Slug(), "the project's slug"),
        "name": Field(Text(1, 200), note="display name"),
        "keywords": Many(Text(1, 100), 0, 50),
        "description": Text(1, 2000),
    }
)


@dataclass(frozen=True, slots=True)
class Default:
    """A project many people want."""

    slug: str
    name: str
    keywords: tuple[str, ...]
    description: str


DEFAULTS: Final = (
    Default("work", "Work", ("job", "team", "deadline"), "Decisions, tasks and people at work."),
    Default("personal", "Personal", ("home", "family", "health"), "What concerns you and your life."),
    Default(
        "coding",
        "Coding",
        ("code", "bug", "release", "design"),
        "A software project: design, bugs, releases.",
    ),
    Default("research", "Research", ("paper", "experiment", "finding"), "Questions, sources and findings."),
    Default("learning", "Learning", ("course", "notes", "practice"), "What you study, and what you learned."),
    Default(
        "infrastructure",
        "Infrastructure",
        ("server", "service", "deploy"),
        "Hosts, services and their rules.",
    ),
)


def list_projects(engine: Engine, caller: Caller, *, limit: int, offset: int) -> dict[str, Any]:
    """Return a page of the account's projects, oldest first, archived ones too."""
    vault = engine.vault(caller.account_id)
    with engine.db.read() as tx:
        rows = tx.projects.list(caller.account_id)
        counts = tx.projects.memory_counts(caller.account_id)
    page = [
        {**_shown(vault, row), "memories": counts.get(row.slug, 0)} for row in rows[offset : offset + limit]
    ]
    return {"projects": page, "total": len(rows)}


def list_defaults() -> dict[str, Any]:
    """Return the projects that can be created by name."""
    return {
        "defaults": [
            {
                "project_id": default.slug,
                "name": default.name,
                "keywords": list(default.keywords),
                "description": default.description,
            }
            for default in DEFAULTS
        ]
    }


def create(engine: Engine, caller: Caller, once: Once | None, fields: dict[str, Any]) -> Written:
    """Create a project (`fields` as CREATE returns them), or take an archived one back with a new profile.

    Raises Conflict (`project_exists`).
    """
    slug = fields["project_id"]
    profile = {name: fields[name] for name in ("name", "keywords", "description")}
    vault = engine.vault(caller.account_id)

    def work(tx: Tx) -> dict[str, Any]:
        project, created = tx.projects.create(_new(vault, slug, profile))
        if not created and not project.archived:
            raise Conflict(f"The project {slug} exists already.", code="project_exists", field="project_id")
        if not created:
            tx.projects.set_archived(caller.account_id, slug, False)
            tx.projects.set_profile(caller.account_id, slug, _seal_profile(vault, slug, profile))
        return _shown(vault, require(tx, caller.account_id, slug))

    return write(engine, caller, once, work)


def create_from_default(engine: Engine, caller: Caller, once: Once | None, slug: str) -> Written:
    """Create one of the default projects. Raises NotFound, and as `create`."""
    for default in DEFAULTS:
        if default.slug == slug:
            fields = {
                "project_id": slug,
                "name": default.name,
                "keywords": list(default.keywords),
                "description": default.description,
            }
            return create(engine, caller, once, fields)
    raise NotFound(f"There is no default project {slug}; see GET /v1/projects/defaults.")


def delete(engine: Engine, caller: Caller, once: Once | None, slug: str) -> Written:
    """Delete a project without state versions; archive one that has any. Memories stay as they are.

    Raises NotFound.
    """

    def work(tx: Tx) -> dict[str, Any]:
        try:
            tx.projects.delete(caller.account_id, slug)
        except Conflict:
            tx.projects.set_archived(caller.account_id, slug, True)
            return {"project_id": slug, "deleted": False, "archived": True}
        return {"project_id": slug, "deleted": True, "archived": False}

    return write(engine, caller, once, work)


def ensure_open(tx: Tx, vault: AccountVault, slug: str) -> Project:
    """Return the account's project, creating it if it isn't there. Raises Conflict (`project_archived`)."""
    project = tx.projects.ensure(vault.account_id, slug, lambda: _new(vault, slug, {}))
    check_open(project)
    return project


def check_open(project: Project) -> None:
    """Raise Conflict (`project_archived`) if the project takes nothing new."""
    if project.archived:
        raise Conflict(
            f"The project {project.slug} is archived; take it back with POST /v1/projects first.",
            code="project_archived",
            field="project",
        )


def require(tx: Tx, account_id: str, slug: str) -> Project:
    """Return the account's project, archived or not. Raises NotFound."""
    project = tx.projects.get(account_id, slug)
    if project is None:
        raise NotFound(f"There is no project {slug}.")
    return project


def secret_of(vault: AccountVault, project: Project) -> bytes:
    """Return a project's 32-byte secret (protocol §7)."""
    return vault.open_small(project.secret_blob, "project_secret", project_id=project.project_id)


def _new(vault: AccountVault, slug: str, profile: dict[str, Any]) -> NewProject:
    hashed = project_id(vault.account_id, slug)
    return NewProject(
        project_id=hashed,
        account_id=vault.account_id,
        slug=slug,
        secret_blob=vault.seal_small(secrets.token_bytes(32), "project_secret", project_id=hashed),
        profile_blob=_seal_profile(vault, slug, profile),
        created_at=clock.now(),
    )


def _seal_profile(vault: AccountVault, slug: str, profile: dict[str, Any]) -> bytes | None:
    given = {name: value for name, value in profile.items() if value}
    if not given:
        return None
    return vault.seal_small(
        orjson.dumps(given), "project_profile", project_id=project_id(vault.account_id, slug)
    )


def _shown(vault: AccountVault, project: Project) -> dict[str, Any]:
    profile: dict[str, Any] = {}
    if project.profile_blob is not None:
        profile = orjson.loads(
            vault.open_small(project.profile_blob, "project_profile", project_id=project.project_id)
        )
    return {
        "project_id": project.slug,
        "id": project.project_id,
        "public_name": project.public_name,
        "name": profile.get("name"),
        "keywords": profile.get("keywords", []),
        "description": profile.get("description"),
        "archived": project.archived,
        "version": project.version,
        "state_hash": project.state_hash if project.version else None,
        "created_at": project.created_at,
    }
