"""Reading histories, well-formed and not."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainmemory.cli.git_history import History
from chainmemory.errors import ConfigurationError
from tests.support.git_repos import Repo, small_project


def test_a_history_in_order_with_all_it_says(tmp_path: Path) -> None:
    repo = small_project(tmp_path / "My Project")
    history = History(repo.path)
    commits = list(history.commits())
    assert history.count() == len(commits) == 7
    assert (history.name, history.slug()) == ("My Project", "my-project")
    assert commits[0].subject == "Begin"
    assert commits[0].body == "A store for things."
    assert commits[0].author == "Ann <ann@example.org>"
    assert commits[0].authored_at == "2020-09-13T12:26:40.000000Z"
    assert commits[-1].hash == repo.tip
    assert [len(commit.parents) for commit in commits if commit.subject.startswith("Merge")] == [2]
    by_subject = {commit.subject: commit.hash for commit in commits}
    assert history.tags() == [("v0.1", by_subject["Fix a typo"]), ("v1.0", by_subject["Release 1.0"])]


def test_a_repository_without_commits(tmp_path: Path) -> None:
    history = History(Repo(tmp_path).path)
    assert (history.head(), history.count(), list(history.commits()), history.tags()) == (None, 0, [], [])


@pytest.mark.parametrize("what", ["nothing", "folder", "file"])
def test_what_is_no_repository(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    if what == "folder":
        path.mkdir()
    if what == "file":
        path.touch()
    with pytest.raises(ConfigurationError, match="git can't read a repository"):
        History(path)


def test_no_git_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="git isn't installed"):
        History(tmp_path)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"caf\xe9 and more", "caf� and more"),
        (b"", ""),
        (b"\n\n  \n", ""),
        (b"one\r\n\r\ntwo", "one\r\n\r\ntwo"),
        ("日本 🎌\n\nbody".encode(), "日本 🎌\n\nbody"),
        (b"a\x1b[31mred\x07", "a\x1b[31mred\x07"),
        (b"subject\n\nno newline at the end", "subject\n\nno newline at the end"),
        (b"\n\nlate subject\n", "late subject"),
    ],
)
def test_messages(tmp_path: Path, message: bytes, told: str) -> None:
    repo = Repo(tmp_path)
    repo.commit("before")
    repo.commit(message)
    repo.commit("after")
    assert [commit.message for commit in History(tmp_path).commits()] == ["before", told, "after"]


def test_a_declared_encoding_is_followed(tmp_path: Path) -> None:
    Repo(tmp_path).commit("caf\xe9".encode("latin-1"), headers=b"encoding ISO-8859-1\n")
    assert [commit.message for commit in History(tmp_path).commits()] == ["café"]


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("0 +0000", "1970-01-01T00:00:00.000000Z"),
        ("1700000000 +1400", "2023-11-14T22:13:20.000000Z"),
        ("1700000000 -1200", "2023-11-14T22:13:20.000000Z"),
        ("1700000000 +9999", "2023-11-14T22:13:20.000000Z"),
        ("1700000000 +051800", "2023-11-14T22:13:20.000000Z"),
        ("4102444800 +0000", "2100-01-01T00:00:00.000000Z"),
    ],
)
def test_dates(tmp_path: Path, when: str, told: str) -> None:
    Repo(tmp_path).commit("x", when=when, committed="1 +0000")
    assert [commit.authored_at for commit in History(tmp_path).commits()] == [told]


@pytest.mark.parametrize(
    "when", ["-86400 +0000", "99999999999999 +0000", "18446744073709551615 +0000", "nonsense"]
)
def test_a_date_that_is_none_gives_way_to_the_committers_or_to_a_valid_one(tmp_path: Path, when: str) -> None:
    """git itself makes of them what it can; whatever that is, it is a time or nothing."""
    Repo(tmp_path).commit("x", when=when, committed="1700000000 +0000")
    [commit] = History(tmp_path).commits()
    assert commit.authored_at in (
        "2023-11-14T22:13:20.000000Z",
        "1970-01-01T00:00:00.000000Z",
        "1969-12-31T00:00:00.000000Z",
    )


def test_authors_without_name_or_address(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.commit("x", author=b" <>")
    repo.commit("y", author=b"J\xf6rg <j@example.org>")
    assert [commit.author for commit in History(tmp_path).commits()] == [" <>", "J�rg <j@example.org>"]


def test_a_users_configuration_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = small_project(tmp_path / "repo")
    plain = list(History(repo.path).commits())
    for name, value in (
        ("log.showSignature", "true"),
        ("log.follow", "true"),
        ("format.pretty", "raw"),
        ("log.decorate", "full"),
        ("color.ui", "always"),
        ("i18n.logOutputEncoding", "ISO-8859-1"),
        ("log.mailmap", "true"),
    ):
        repo.git("config", name, value)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert list(History(repo.path).commits()) == plain


def test_a_replaced_commit_is_read_as_it_was_written(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    first = repo.commit("the truth")
    other = repo.commit("a lie", parents=[])
    repo.git("update-ref", "refs/heads/main", first)
    repo.git("replace", first, other)
    assert [commit.message for commit in History(tmp_path).commits()] == ["the truth"]


def test_a_long_history_is_read_as_a_stream(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    commits = "".join(
        f"commit refs/heads/main\nmark :{n}\ncommitter Ann <a@example.org> {1600000000 + n} +0000\n"
        f"data <<END\ncommit {n} {'x' * 300}\nEND\n" + (f"from :{n - 1}\n" if n > 1 else "") + "\n"
        for n in range(1, 3001)
    )
    repo.git("fast-import", "--quiet", data=commits.encode())
    subjects = [commit.subject.split()[1] for commit in History(tmp_path).commits()]
    assert subjects == [str(n) for n in range(1, 3001)]


def test_a_reader_that_stops_early_leaves_no_git_behind(tmp_path: Path) -> None:
    commits = History(small_project(tmp_path / "r").path).commits()
    next(commits)
    commits.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("folder", "slug"),
    [
        ("Chain_Memory 2.0", "chain_memory-2.0"),
        ("...", "repository"),
        ("ä", "repository"),
        ("x" * 90, "x" * 64),
        ("r.git", "r"),
    ],
)
def test_project_names(tmp_path: Path, folder: str, slug: str) -> None:
    assert History(Repo(tmp_path / folder).path).slug() == slug


def test_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_project(tmp_path / "here").path)
    assert History(Path()).name == "here"


def test_a_linked_worktree_and_a_subfolder_have_the_repositorys_name(tmp_path: Path) -> None:
    repo = small_project(tmp_path / "main-repo")
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    (repo.path / "deep" / "er").mkdir(parents=True)
    assert History(tmp_path / "linked").name == "main-repo"
    assert History(repo.path / "deep" / "er").name == "main-repo"
