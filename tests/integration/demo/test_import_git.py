"""`chainmemory import git` against a real server: each commit once, whatever happens in between."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from chainmemory.cli.git_history import History
from chainmemory.cli.import_git import import_git, imported_commits
from chainmemory.client import BATCH, Client
from chainmemory.errors import Unavailable
from tests.support.git_repos import Repo, small_project
from tests.support.server import ROOT, Server, cli, environment


def all_of(client: Client, project: str) -> list[dict[str, Any]]:
    return list(client.iter_memories(project=project))


def test_a_commit_becomes_a_memory_with_its_date_author_and_hash(client: Client, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "r")
    done = import_git(client, History(repo.path), "r")
    assert (done.saved, done.known) == (7, 0)
    first = client.get("/v1/memory/1/decrypted")
    assert first["summary"] == "Begin\n\nA store for things."
    header = first["header"]
    assert header["occurred_at"] == "2020-09-13T12:26:40.000000Z"
    assert header["provenance"]["actor_id"] == "Ann <ann@example.org>"
    assert header["provenance"]["commit"] == next(History(repo.path).commits()).hash
    assert (header["kind"], header["source"], header["project"]) == ("git.commit", "import", "r")
    merges = [memory for memory in all_of(client, "r") if "merge" in memory["tags"]]
    assert len(merges) == 1


def test_repeated_it_saves_only_what_is_new(client: Client, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "r")
    import_git(client, History(repo.path), "r")
    again = import_git(client, History(repo.path), "r")
    assert (again.saved, again.known) == (0, 7)
    repo.commit("One more", when="1700000000 +0000")
    more = import_git(client, History(repo.path), "r")
    assert (more.saved, more.known) == (1, 7)
    assert more.numbers[repo.tip or ""] == 8
    assert len(all_of(client, "r")) == 8


def test_archived_commits_are_not_imported_again(client: Client, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "r")
    import_git(client, History(repo.path), "r")
    client.post("/v1/memories/3/archive", {})
    assert import_git(client, History(repo.path), "r").saved == 0


def test_retagged_commits_are_not_imported_again(client: Client, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "r")
    import_git(client, History(repo.path), "r")
    client._send("PUT", "/v1/memories/3/tags", body={"tags": []})
    assert import_git(client, History(repo.path), "r").saved == 0


def test_the_same_history_in_another_project_is_another_matter(client: Client, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "r")
    import_git(client, History(repo.path), "one")
    assert import_git(client, History(repo.path), "two").saved == 7


def test_a_connection_that_breaks_in_the_middle_is_no_harm(client: Client, tmp_path: Path) -> None:
    repo = Repo(tmp_path / "long")
    commits = "".join(
        f"commit refs/heads/main\nmark :{n}\ncommitter Ann <a@example.org> {1600000000 + n} +0000\n"
        f"data <<END\ncommit {n}\nEND\n" + (f"from :{n - 1}\n" if n > 1 else "") + "\n"
        for n in range(1, 2 * BATCH + 2)
    )
    repo.git("fast-import", "--quiet", data=commits.encode())

    class Broken(Client):
        calls = 0

        def save_batch(self, *arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == 2:
                raise Unavailable("the connection broke")
            return super().save_batch(*arguments, **options)

    with Broken(client.url, client.api_key) as broken, pytest.raises(Unavailable):
        import_git(broken, History(repo.path), "long")
    assert len(imported_commits(client, "long")) == BATCH
    done = import_git(client, History(repo.path), "long")
    assert (done.saved, done.known) == (BATCH + 1, BATCH)
    contents = {memory["provenance"]["commit"] for memory in all_of(client, "long")}
    assert len(contents) == len(all_of(client, "long")) == 2 * BATCH + 1


def test_two_imports_at_once_save_each_commit_once(client: Client, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "r")

    def run() -> None:
        with Client(client.url, client.api_key) as own:
            import_git(own, History(repo.path), "r")

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(all_of(client, "r")) == 7


@pytest.mark.parametrize(
    "message",
    [b"", b"caf\xe9", b"a\x1b[31m\x07\x01", "日本\u2028🎌".encode(), b"x" * 600_000, b"\x01" * 600_000],
)
def test_odd_messages_are_taken(client: Client, tmp_path: Path, message: bytes) -> None:
    repo = Repo(tmp_path / "odd")
    repo.commit(message, author=b" <>", when="-5 +9999")
    assert import_git(client, History(repo.path), "odd").saved == 1
    [memory] = client.memories(project="odd")["memories"]
    assert memory["summary"].strip()
    assert len(memory["summary"].encode()) < 600_000
    assert import_git(client, History(repo.path), "odd").saved == 0


def test_a_message_that_is_cut_is_told(server: Server, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "long")
    repo.commit("x" * 300_000, when="1700000000 +0000")
    ran = cli(server.home, "import", "git", str(repo.path), "--project", "long")
    assert ran.returncode == 0
    assert f"the message of {(repo.tip or '')[:12]} was cut after 256 KiB" in ran.stderr


def test_the_command(server: Server, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "commanded")
    ran = cli(server.home, "import", "git", str(repo.path), "--project", "commanded")
    assert (ran.returncode, ran.stdout) == (
        0,
        "Saved 7 commits of commanded as memories of project commanded.\n",
    )
    ran = cli(server.home, "import", "git", str(repo.path), "--project", "commanded", "--json")
    assert json.loads(ran.stdout) == {"project": "commanded", "saved": 0, "known": 7, "cut": []}


def test_a_person_sees_progress(server: Server, tmp_path: Path) -> None:
    repo = small_project(tmp_path / "seen")
    terminal, end = pty.openpty()
    ran = subprocess.run(
        [sys.executable, "-m", "chainmemory.cli", "import", "git", str(repo.path)],
        env=environment(server.home, TERM="xterm", COLUMNS="100"),
        stderr=end,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    os.close(end)
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert ran.returncode == 0
    assert "commits" in shown
    assert "7/7" in shown


def test_refusals_of_the_command(server: Server, tmp_path: Path) -> None:
    assert cli(server.home, "import", "git", str(tmp_path)).returncode == 2
    repo = Repo(tmp_path / "empty")
    ran = cli(server.home, "import", "git", str(repo.path))
    assert (ran.returncode, "has no commits yet" in ran.stdout) == (0, True)
    repo.commit("x")
    ran = cli(server.home, "import", "git", str(repo.path), "--project", "No Slug")
    assert ran.returncode == 2
    assert "slug" in ran.stderr.lower() or "project" in ran.stderr.lower()
