"""Real git repositories for tests, odd ones included."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Repo:
    """A repository at `path`; commits are written as raw objects, so anything git can hold can be in one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.tree = self.git("write-tree")
        self.tip: str | None = None

    def git(self, *arguments: str, data: bytes | None = None) -> str:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        ran = subprocess.run(
            ["git", "-C", str(self.path), *arguments],
            input=data,
            capture_output=True,
            check=True,
            env=environ,
        )
        return ran.stdout.decode().strip()

    def commit(
        self,
        message: bytes | str,
        *,
        when: str = "1700000000 +0000",
        author: bytes = b"Ann <ann@example.org>",
        parents: list[str] | None = None,
        headers: bytes = b"",
        committed: str | None = None,
    ) -> str:
        """Write a commit (`when` is git's raw date) on top of the last one, and return its hash."""
        if parents is None:
            parents = [self.tip] if self.tip else []
        raw = message.encode() if isinstance(message, str) else message
        lines = [b"tree " + self.tree.encode(), *(b"parent " + parent.encode() for parent in parents)]
        lines += [b"author " + author + b" " + when.encode()]
        lines += [b"committer " + author + b" " + (committed or when).encode()]
        body = b"\n".join(lines) + b"\n" + headers + b"\n" + raw
        self.tip = self.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", data=body)
        self.git("update-ref", "refs/heads/main", self.tip)
        return self.tip

    def tag(self, name: str, commit: str, *, annotated: bool = False) -> None:
        extra = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        self.git(*extra, "tag", *(["-a", "-m", name] if annotated else []), name, commit)


def small_project(path: Path) -> Repo:
    """A short but whole history: explained commits, a merge, a revert, tags."""
    repo = Repo(path)
    first = repo.commit("Begin\n\nA store for things.", when="1600000000 +0200")
    repo.commit("Add the parser\n\nIt reads lines, because streams were too slow.", when="1600100000 +0200")
    left = repo.commit("Fix a typo", when="1600200000 +0200", author=b"Bob <bob@example.org>")
    repo.tag("v0.1", left)
    right = repo.commit("Try threads", when="1600300000 -0700", parents=[first])
    repo.commit("Merge branch 'threads'", when="1600400000 +0000", parents=[left, right])
    repo.commit('Revert "Try threads"\n\nThey lost lines.', when="1600500000 +0000")
    repo.tag("v1.0", repo.commit("Release 1.0", when="1600600000 +0000"), annotated=True)
    return repo
