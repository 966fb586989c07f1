"""The brief: a state as plain text for a model, by relevance, within a budget of characters."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any, Final

from chainmemory.errors import Invalid
from chainmemory.protocol.text import printable
from chainmemory.state.brief_lines import SECTIONS, Line, lines_of
from chainmemory.state.brief_words import LANGUAGES, WORDS

MIN_BUDGET: Final = 1_000
MAX_BUDGET: Final = 50_000
DEFAULT_BUDGET: Final = 7_000
LEVELS: Final = ("brief", "standard", "full")
"""`brief`: what is current, a line each; `standard`: with details, and what ended in short; `full`: all."""
TASK_WEIGHT: Final = 80.0
"""How far a perfect fit with the task lifts an item; a vocabulary term can so come before a priority."""
_SHORT: Final = 160
_LONGEST: Final = {"brief": _SHORT, "standard": 500, "full": 50_000}
_MAX_TASK_WORDS: Final = 40
_WORD: Final = re.compile(r"\w{2,}")


def brief(
    document: dict[str, Any],
    *,
    budget: int = DEFAULT_BUDGET,
    since: int | None = None,
    task: str | None = None,
    lang: str = "en",
    level: str = "standard",
) -> str:
    """Write a state document down for a model, what matters most first, in at most `budget` code points.

    `since`: a version; only what changed after it. `task`: words that raise what they fit. What ended comes
    after all that is current, and never takes its place.
    Raises: Invalid, naming the option, for a budget outside 1,000–50,000, a `since` that is no version of
    the project, or another `lang` or `level`.
    """
    version = document["state_meta"]["version"]
    _check(budget, since, version, lang, level)
    words = WORDS[lang]
    lines = [line for line in lines_of(document, words) if since is None or line.updated_version > since]
    head = f"{words['state']}, {words['version']} {version}"
    head += f"; {words['since']} {since}" if since is not None else ""
    if not lines:
        return f"{head}\n\n{words['nothing']}" if since is not None else head
    page = _Page(head, budget, level, words)
    relevance = _Relevance(lines, task or "")
    for line in sorted(lines, key=lambda line: (line.ended, -line.importance - relevance.of(line))):
        page.offer(line)
    return page.text()


class _Page:
    """Collects lines as long as there is room for them, then puts them in order."""

    def __init__(self, head: str, budget: int, level: str, words: dict[str, str]) -> None:
        self._head = head
        self._words = words
        self._level = level
        self._longest = min(_LONGEST[level], budget // 4)
        self._sections: dict[str, list[tuple[int, str]]] = {}
        self._left_out = 0
        # The last line says how much is missing; its room is kept from the start.
        self._room = budget - len(head) - len(self._last_line(10**9))

    def offer(self, line: Line) -> None:
        """Take a line whole, or else in short, or count it as left out."""
        if line.ended and (self._level == "brief" or self._left_out):
            self._left_out += 1
            return
        section = "ended" if line.ended else line.section
        heading = 0 if section in self._sections else len(self._heading(section))
        in_full = line.text if self._level == "full" or not line.ended else line.title
        for text in (_cut(in_full, self._longest), _cut(line.title, _SHORT)):
            cost = heading + len(f"\n- {text}")
            if cost <= self._room:
                self._sections.setdefault(section, []).append((line.rank, text))
                self._room -= cost
                return
        self._left_out += 1

    def text(self) -> str:
        """Put the page together: in each section what matters most first, but priorities by rank."""
        parts = [self._head]
        for section in (*SECTIONS, "ended"):
            lines = self._sections.get(section, [])
            if section == "priorities":
                lines.sort()
            if lines:
                parts.append(self._heading(section))
                parts += [f"\n- {text}" for _, text in lines]
        if self._left_out:
            parts.append(self._last_line(self._left_out))
        return "".join(parts)

    def _heading(self, section: str) -> str:
        return f"\n\n{self._words[section]}"

    def _last_line(self, count: int) -> str:
        return f"\n\n… {count} {self._words['more']}"


class _Relevance:
    """How well lines fit a task: the share of its words they hold, rare words counting more."""

    def __init__(self, lines: list[Line], task: str) -> None:
        wanted = sorted(set(_WORD.findall(task.casefold())))[:_MAX_TASK_WORDS]
        held = {id(line): [word for word in wanted if word in line.text.casefold()] for line in lines}
        found = Counter(word for words in held.values() for word in words)
        weight = {word: math.log((len(lines) + 1) / (count + 0.5)) for word, count in found.items()}
        scale = TASK_WEIGHT / sum(weight.values()) if weight else 0.0
        self._fit = {name: scale * sum(weight[word] for word in words) for name, words in held.items()}

    def of(self, line: Line) -> float:
        """Return from 0 to TASK_WEIGHT."""
        return self._fit[id(line)]


def _check(budget: object, since: object, version: int, lang: object, level: object) -> None:
    if type(budget) is not int or not MIN_BUDGET <= budget <= MAX_BUDGET:
        raise Invalid(
            f"budget must be a whole number from {MIN_BUDGET} to {MAX_BUDGET}, not {printable(budget)}",
            field="budget",
        )
    if since is not None and (type(since) is not int or not 0 <= since <= version):
        raise Invalid(f"since must be a version from 0 to {version}, not {printable(since)}", field="since")
    if lang not in LANGUAGES:
        raise Invalid(f"lang must be one of {', '.join(LANGUAGES)}, not {printable(lang)}", field="lang")
    if level not in LEVELS:
        raise Invalid(f"level must be one of {', '.join(LEVELS)}, not {printable(level)}", field="level")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
