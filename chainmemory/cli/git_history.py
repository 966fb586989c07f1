"""A repository's history, read through git itself; nothing in it is trusted to be well-formed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from chainmemory.errors import ConfigurationError, Invalid
from chainmemory.protocol.times import format_time

# Fields in git's own order, each ended by NUL, which no field can hold.
FIELDS = ("%H", "%an", "%ae", "%at", "%ct", "%P", "%B")
LOG = ("log", "--reverse", "--no-color", "--no-show-signature", "--no-notes", "--encoding=UTF-8")
CHUNK = 1 << 16
# A replaced object would be read in place of the commit whose hash is kept; a config may run programs.
CAREFUL = ("--no-replace-objects", "-c", "log.showSignature=false", "-c", "core.fsmonitor=false")


@dataclass(frozen=True)
class Commit:
    """One commit; texts are Unicode, bytes that are no UTF-8 became U+FFFD."""

    hash: str
    author: str
    """`Name <address>`."""
    authored_at: str | None
    """A `time`; the committer's where the author's is no time in the years 1 to 9999, else None."""
    parents: tuple[str, ...]
    message: str
    """Subject and body, without blank lines around; may be empty."""

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0].strip()

    @property
    def body(self) -> str:
        return self.message.partition("\n")[2].strip()


class History:
    """The commits that HEAD of the repository at `path` reaches."""

    def __init__(self, path: Path) -> None:
        """Raise ConfigurationError where there is no git, or no repository at `path`."""
        self.path = path
        # The same for the whole repository, its worktrees and subfolders; relative to where it was asked.
        git_dir = (path / self._git("rev-parse", "--git-common-dir").strip()).resolve()
        folder = git_dir.parent if git_dir.name == ".git" else git_dir
        self.name = folder.name.removesuffix(".git") or "repository"

    def head(self) -> str | None:
        """Return the hash of HEAD's commit, None in a repository without commits."""
        found = self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", fails_with_none=True)
        return found.strip() or None

    def count(self) -> int:
        """Count the commits."""
        return int(self._git("rev-list", "--count", "HEAD")) if self.head() else 0

    def commits(self) -> Iterator[Commit]:
        """Yield the commits, parents before children."""
        if not self.head():
            return
        process = subprocess.Popen(
            self._command(*LOG, "--format=tformat:" + "%x00".join(FIELDS) + "%x00", "HEAD", "--"),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            pending = b""
            while chunk := process.stdout.read(CHUNK):
                *fields, pending = (pending + chunk).split(b"\0")
                whole = len(fields) - len(fields) % len(FIELDS)
                for start in range(0, whole, len(FIELDS)):
                    yield _commit(fields[start : start + len(FIELDS)])
                pending = b"\0".join([*fields[whole:], pending])
            problem = process.stderr.read().decode(errors="replace").strip()
            if process.wait() != 0:
                raise ConfigurationError(f"git can't read the history of {self.path}: {problem}")
        finally:
            process.kill()
            process.stdout.close()
            process.stderr.close()
            process.wait()

    def tags(self) -> list[tuple[str, str]]:
        """Return (name, commit hash) of the tags that HEAD reaches, in no order that matters."""
        if not self.head():
            return []
        listed = self._git(
            "for-each-ref",
            "--merged=HEAD",
            "--format=%(refname:strip=2)%00%(objectname)%00%(*objectname)",
            "refs/tags",
        )
        lines = (line.split("\0") for line in listed.splitlines())
        return [(name, peeled or direct) for name, direct, peeled in lines]

    def slug(self) -> str:
        """Return the repository's name as a project name (protocol §2)."""
        kept = re.sub(r"[^a-z0-9._-]+", "-", self.name.lower()).lstrip("._-")[:64]
        return kept or "repository"

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "-C", str(self.path), *CAREFUL, *arguments]

    def _git(self, *arguments: str, fails_with_none: bool = False) -> str:
        try:
            ran = subprocess.run(
                self._command(*arguments),
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            raise ConfigurationError("git isn't installed, or isn't on the PATH.") from None
        if ran.returncode != 0 and not fails_with_none:
            problem = ran.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
            raise ConfigurationError(f"git can't read a repository at {self.path}: {problem}")
        return ran.stdout.decode(errors="replace")


def _commit(fields: list[bytes]) -> Commit:
    commit, name, address, authored, committed, parents, message = (
        field.decode("utf-8", errors="replace") for field in fields
    )
    return Commit(
        hash=commit.strip(),  # git ends the record before with a line feed
        author=f"{name.strip()} <{address.strip()}>",
        authored_at=_time(authored) or _time(committed),
        parents=tuple(parents.split()),
        message=message.strip(),
    )


def _time(seconds: str) -> str | None:
    """Return Unix seconds as a `time`; the offset the commit carries changes nothing about the moment."""
    try:
        return format_time(datetime.fromtimestamp(int(seconds), UTC))
    except (ValueError, OverflowError, OSError, Invalid):
        return None


def _environment() -> dict[str, str]:
    """Return our environment without what would point git elsewhere (inside a hook), in plain English."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
