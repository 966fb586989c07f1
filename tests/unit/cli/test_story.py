"""Operations from a history: valid for the grammar, citing, and nothing new the second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chainmemory.cli.demo import EMPTY
from chainmemory.cli.git_history import Commit, History
from chainmemory.cli.story import Story
from chainmemory.state.builder import ProjectState, apply_call, check_call
from tests.support.git_repos import Repo, small_project

PROJECT = "0x" + "11" * 32
SECRET = b"\x22" * 32


def apply(state: Any, ops: list[dict[str, Any]]) -> Any:
    numbers = {number for op in ops for number in op["evidence_memory_ids"]}
    result = apply_call(
        state,
        check_call({"ops": ops, "atomic": True}),
        event_hashes={number: f"0x{number:064x}" for number in numbers},
        highest_memory=10_000,
        project_secret=SECRET,
    )
    assert result.rejected == []
    return result.state


def tell(history: History, state: Any) -> tuple[Any, int]:
    """Apply the story as the demo does; return the new state and how many operations it took."""
    commits = list(history.commits())
    numbers = {commit.hash: index for index, commit in enumerate(commits, start=1)}
    count = 0
    for part in (Story.beginnings, Story.present):
        ops = part(Story(history.name, commits, history.tags(), numbers, state.document))
        for start in range(0, len(ops), 100):
            state = apply(state, ops[start : start + 100])
        count += len(ops)
    return state, count


def test_a_small_project(tmp_path: Path) -> None:
    state, _ = tell(History(small_project(tmp_path / "parser").path), ProjectState.empty(PROJECT))
    document = state.document
    assert document["vision"] == "parser, begun with: Begin"
    assert document["phase"] == "after v1.0"
    assert document["current_focus"] == "Release 1.0"
    assert [decision["title"] for decision in document["decisions"]] == [
        "Begin",
        "Add the parser",
        'Revert "Try threads"',
    ]
    assert document["decisions"][1]["statement"] == "It reads lines, because streams were too slow."
    assert [(m["title"], m["target_date"], m["status"]) for m in document["milestones"]] == [
        ("v0.1", "2020-09-15", "done"),
        ("v1.0", "2020-09-20", "done"),
    ]
    assert [risk["title"] for risk in document["risks"]] == ["Changes had to be reverted"]
    assert {m["name"]: m["value"] for m in document["metrics"]} == {"commits": "7", "authors": "2"}
    assert [repo["name"] for repo in document["environment"]["repositories"]] == ["parser"]


def test_every_item_cites_a_memory(tmp_path: Path) -> None:
    history = History(small_project(tmp_path / "parser").path)
    commits = list(history.commits())
    numbers = {commit.hash: index for index, commit in enumerate(commits, start=1)}
    story = Story(history.name, commits, history.tags(), numbers, EMPTY)
    ops = story.beginnings() + story.present()
    assert ops
    assert all(op["evidence_memory_ids"] for op in ops)
    assert ops == story.beginnings() + story.present()


def test_told_again_it_says_nothing_new(tmp_path: Path) -> None:
    history = History(small_project(tmp_path / "parser").path)
    state, first = tell(history, ProjectState.empty(PROJECT))
    assert first > 0
    assert tell(history, state) == (state, 0)


def test_what_was_added_since_is_told(tmp_path: Path) -> None:
    repo = small_project(tmp_path / "parser")
    state, _ = tell(History(repo.path), ProjectState.empty(PROJECT))
    repo.tag("v1.1", repo.commit("Add speed\n\nIt was slow.", when="1600700000 +0000"))
    after, _ = tell(History(repo.path), state)
    assert after.document["phase"] == "after v1.1"
    assert after.document["decisions"][-1]["title"] == "Add speed"
    assert len(after.document["milestones"]) == 3


@pytest.mark.parametrize(
    "message",
    [
        "",
        "x" * 5000,
        "s\n\n" + "b" * 9000,
        "\u00a0\u2003",
        "Revert",
        "s\n\n\u2003\n",
        "password: hunter2hunter2",
    ],
)
def test_odd_messages_make_valid_operations(tmp_path: Path, message: str) -> None:
    repo = Repo(tmp_path / "odd")
    repo.commit(message)
    repo.commit(message)
    state, count = tell(History(repo.path), ProjectState.empty(PROJECT))
    assert count > 0
    assert state.document["current_focus"]


def test_a_thousand_reverts_cite_no_more_than_an_operation_may() -> None:
    commits = [Commit(f"{n:040x}", "Ann <a@example.org>", None, (), f'Revert "{n}"') for n in range(1000)]
    numbers = {commit.hash: n + 1 for n, commit in enumerate(commits)}
    ops = Story("many", commits, [], numbers, EMPTY).beginnings()
    assert max(len(op["evidence_memory_ids"]) for op in ops) == 200
