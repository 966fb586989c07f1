"""How a text falls into words."""

from __future__ import annotations

import random
import re
import unicodedata

import pytest

from chainmemory.vault.words import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Hello, World!", ["hello", "world"]),
        ("snake_case v1.2 don't", ["snake", "case", "v1", "2", "don", "t"]),
        ("user@example.com/path?q=1", ["user", "example", "com", "path", "q", "1"]),
        ("ÉTÉ é", ["été", "é"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ﬁne", ["fine"]),
        ("Ｆｕｌｌ", ["full"]),
        ("Ελλάς ΕΛΛΆΣ", ["ελλάσ", "ελλάσ"]),
        ("Москва́ в 2024", ["москва́", "в", "2024"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("مرحبا، بالعالم", ["مرحبا", "بالعالم"]),
        ("東京都", ["東京", "京都"]),
        ("日", ["日"]),
        ("한국어", ["한국", "국어"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
        ("ab東京cd", ["ab", "東京", "cd"]),
        ("𠀀𠀁", ["𠀀𠀁"]),
        ("😀 smile 😀", ["smile"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_forms_that_look_the_same_are_the_same_word() -> None:
    assert words("e\u0301te\u0301") == words("été")
    assert words("\u1100\u1161\u1102\u1161") == words("가나")


def test_the_quick_way_for_ascii_equals_the_regular_expression() -> None:
    choose = random.Random(1)
    for _ in range(200):
        text = "".join(chr(choose.randrange(128)) for _ in range(60))
        assert words(text) == re.findall(r"[a-z0-9]+", text.lower())


def test_no_mark_splits_a_word() -> None:
    marks = [chr(code) for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    split = [mark for mark in marks if len(words(f"a{mark}b")) > 1 and not _unspaced(mark)]
    assert split == []


def _unspaced(mark: str) -> bool:
    return any(
        first <= mark <= last
        for first, last in (
            ("\u0e00", "\u0eff"),
            ("\u1000", "\u109f"),
            ("\u1780", "\u17ff"),
            ("\u3000", "\u30ff"),
        )
    )
