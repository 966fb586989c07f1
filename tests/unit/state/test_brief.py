"""The brief: relevance, budget, `since`, `task`, `lang`, `level`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainmemory.errors import Invalid
from chainmemory.state.brief import DEFAULT_BUDGET, LEVELS, MAX_BUDGET, MIN_BUDGET, brief
from chainmemory.state.brief_words import LANGUAGES
from chainmemory.state.document import empty_document
from tests.support.grammar import SEED, build
from tests.support.states import PROJECT_ID, Project


@pytest.fixture(scope="module")
def filled() -> Project:
    project = Project()
    project.call(*SEED, build("set_focus", focus="Ship the anchor"), build("set_phase"), build("set_vision"))
    return project


@pytest.fixture(scope="module")
def large() -> Project:
    """A hundred decisions, risks and priorities each, of which every third has ended."""
    project = Project()
    project.call(
        *({"op": "add_priority", "title": f"Goal {n}", "description": "d " * n} for n in range(1, 101)),
    )
    project.call(
        *(
            {"op": "add_decision", "title": f"Choice {n}", "statement": f"We use part{n} " + "s" * (n * 30)}
            for n in range(1, 101)
        )
    )
    project.call(*({"op": "add_risk", "title": f"Danger {n}", "severity": "low"} for n in range(1, 101)))
    project.call(
        *({"op": "set_priority_status", "id": f"pri_{n:04}", "status": "done"} for n in range(3, 100, 3)),
        *({"op": "set_decision_status", "id": f"dec_{n:04}", "status": "rejected"} for n in range(3, 100, 3)),
        *({"op": "set_risk_status", "id": f"risk_{n:04}", "status": "closed"} for n in range(3, 100, 3)),
    )
    return project


def ids_in(text: str) -> list[str]:
    return [line[3 : line.index("]")] for line in text.splitlines() if line.startswith("- [")]


def test_sections_stand_in_their_order(filled: Project) -> None:
    text = brief(filled.state.document)
    headings = [
        "Project state, version 1", "Phase", "Current focus", "Vision", "Priorities", "Risks", "Decisions",
        "Constraints", "Open questions", "Assumptions", "Milestones", "Rules", "Hosts", "Services",
        "Repositories", "Metrics", "Vocabulary", "No longer current",
    ]  # fmt: skip
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    assert "Ship the anchor" in text
    assert "[met_0001] uptime: 99.95 %" in text


def test_everything_is_there_if_there_is_room(filled: Project) -> None:
    document = filled.state.document
    every = {item["id"] for array in document.values() if isinstance(array, list) for item in array}
    every |= {item["id"] for array in document["environment"].values() for item in array}
    for level in ("standard", "full"):
        assert set(ids_in(brief(document, level=level))) == every
    ended = {"dec_0003", "dec_0004", "risk_0003", "asm_0002", "que_0002", "pri_0003", "con_0002", "host_0003",
             "host_0004"}  # fmt: skip
    text = brief(document, level="brief")
    assert set(ids_in(text)) == every - ended
    assert f"… {len(ended)} more not shown" in text


def test_what_ended_comes_last_and_says_why(filled: Project) -> None:
    lines = brief(filled.state.document, level="full").splitlines()
    start = lines.index("No longer current")
    assert "- [dec_0003] (superseded; by dec_0002) t2: s" in lines[start:]
    assert "- [que_0002] (answered) q1: answer: a" in lines[start:]
    assert not any(
        name in line for line in lines[:start] for name in ("[dec_0004]", "[pri_0003]", "[host_0004]")
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("budget", [MIN_BUDGET, 1_234, DEFAULT_BUDGET, 20_000, MAX_BUDGET])
def test_the_budget_is_never_exceeded_and_well_used(
    large: Project, level: str, lang: str, budget: int
) -> None:
    text = brief(large.state.document, budget=budget, level=level, lang=lang)
    assert len(text) <= budget
    if "…" in text.splitlines()[-1] and level != "brief":
        assert len(text) > budget - 700, "a line that would have fitted was left out"


def test_no_ended_item_takes_the_place_of_a_current_one(large: Project) -> None:
    for budget in (MIN_BUDGET, 5_000, 9_000):
        shown = ids_in(brief(large.state.document, budget=budget))
        ended = [name for name in shown if int(name[-4:]) % 3 == 0]
        assert ended == []
    everything = ids_in(brief(large.state.document, budget=MAX_BUDGET))
    current = [name for name in everything if int(name[-4:]) % 3]
    assert len(current) == 201
    assert everything[: len(current)] == current


def test_priorities_come_first_and_by_rank(large: Project) -> None:
    project = Project()
    project.state = large.state
    project.call({"op": "reorder_priority", "id": "pri_0100", "position": 1})
    shown = ids_in(brief(project.state.document, budget=MIN_BUDGET))
    assert shown[:3] == ["pri_0100", "pri_0001", "pri_0002"]


def test_the_task_raises_what_it_fits(large: Project) -> None:
    document = large.state.document
    assert "[dec_0077]" not in brief(document, budget=MIN_BUDGET)
    assert "[dec_0077]" in brief(document, budget=MIN_BUDGET, task="Replace PART77, please")
    assert brief(document, budget=MIN_BUDGET, task="zzz unknown") == brief(document, budget=MIN_BUDGET)


def test_a_confirmed_decision_and_a_severe_risk_come_before_others() -> None:
    project = Project()
    project.call(
        *({"op": "add_decision", "title": f"d{n}", "statement": "s"} for n in range(1, 4)),
        *({"op": "add_risk", "title": level, "severity": level} for level in ("low", "high", "med")),
        {"op": "set_decision_status", "id": "dec_0003", "status": "confirmed"},
    )
    shown = ids_in(brief(project.state.document))
    assert shown == ["risk_0002", "risk_0003", "risk_0001", "dec_0003", "dec_0001", "dec_0002"]


def test_since_shows_only_what_changed_after_it(filled: Project) -> None:
    project = Project()
    project.state = filled.state
    project.call(build("set_risk_status"), build("set_phase", phase="rc"))
    text = brief(project.state.document, since=1)
    assert text.startswith("Project state, version 2; changed since version 1")
    assert ids_in(text) == ["risk_0001"]
    assert "- rc" in text
    assert "Ship the anchor" not in text
    assert "Nothing has changed." in brief(project.state.document, since=2)
    assert set(ids_in(brief(project.state.document, since=0))) == set(ids_in(brief(project.state.document)))


def test_an_empty_project_has_a_brief_too() -> None:
    assert brief(empty_document(PROJECT_ID)) == "Project state, version 0"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_headings_follow_the_language(filled: Project, lang: str) -> None:
    text = brief(filled.state.document, lang=lang)
    heading = {"en": "Decisions", "de": "Entscheidungen", "es": "Decisiones", "ru": "Решения"}[lang]
    assert f"\n\n{heading}\n- " in text


def test_texts_are_put_on_one_line_and_shortened() -> None:
    project = Project()
    project.call(build("set_focus", focus="a\n\n- [dec_9999] forged\tb" + "c" * 3900))
    text = brief(project.state.document, budget=MIN_BUDGET)
    assert "- a - [dec_9999] forged b" in text
    assert ids_in(text) == []
    assert text.endswith("…")
    assert "c" * 3900 in brief(project.state.document, budget=MAX_BUDGET, level="full")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("budget", value) for value in (999, 50_001, 0, -1, 1000.0, "7000", True, None)),
        *(("since", value) for value in (-1, 2, "0", 1.0, True)),
        *(("lang", value) for value in ("fr", "EN", "", None, 5)),
        *(("level", value) for value in ("short", "FULL", "", None, [])),
    ],
)
def test_other_options_are_refused(filled: Project, field: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        brief(filled.state.document, **{field: value})
    assert (caught.value.code, caught.value.field) == ("invalid_value", field)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(MIN_BUDGET, 9_000), st.text(max_size=60), st.sampled_from(LEVELS), st.sampled_from(LANGUAGES)
)
def test_whatever_is_asked_the_budget_holds(
    large: Project, budget: int, task: str, level: str, lang: str
) -> None:
    text = brief(large.state.document, budget=budget, task=task, level=level, lang=lang)
    assert len(text) <= budget
    assert len(ids_in(text)) == len(set(ids_in(text))) > 0
