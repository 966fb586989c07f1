"""Strangers' text, moments, amounts, and what a reader may type."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainmemory.engine.explorer import names
from chainmemory.engine.explorer.memo import MOST, Memo
from chainmemory.engine.explorer.scan import WIDEST, Pace
from chainmemory.engine.explorer.text import age, coins, gwei, moment, readable, vanity_text


@given(st.text(max_size=700))
def test_nothing_unseen_is_left_in_a_text(text: str) -> None:
    shown = readable(text)
    assert len(shown) <= 500 * 10 + 1
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") and c not in "\n\t"]


def test_turning_and_joining_characters_are_spelled_out() -> None:
    assert readable("abc\u202egnp.exe") == "abc\\u202egnp.exe"
    assert readable("a\x00b\x1b[31m") == "a\\x00b\\x1b[31m"
    assert readable("\ud800") == "\\ud800"
    assert readable("zürich 東京 🙂") == "zürich 東京 🙂"
    assert readable("x" * 501) == "x" * 500 + "…"


def test_extra_data_is_text_only_where_it_plainly_is() -> None:
    assert vanity_text(b"chainmemory".ljust(32, b"\0")) == "chainmemory"
    assert vanity_text(bytes(32)) is None
    assert vanity_text("zürich".encode()) is None
    assert vanity_text(b"a\nb") is None


def test_moments_no_calendar_has() -> None:
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    assert moment(1_790_000_000) == "2026-09-21 14:13:20 UTC"
    assert moment(2**63) is None
    assert moment(2**256 - 1) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "in the future by this server's clock"),
        (0.4, "just now"),
        (1, "1 second ago"),
        (59.9, "59 seconds ago"),
        (60, "1 minute ago"),
        (7_199, "1 hour ago"),
        (86_400 * 2, "2 days ago"),
        (86_400 * 365 * 2_000, "2,000 years ago"),
    ],
)
def test_ages(seconds: float, words: str) -> None:
    assert age(seconds) == words


def test_amounts_are_exact() -> None:
    assert coins(0) == "0 ether"
    assert coins(10**15 + 1) == "0.001000000000000001 ether"
    assert coins(1_234 * 10**18) == "1,234 ether"
    assert gwei(1_500_000_000) == "1.5 gwei"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("1,234,567", 1_234_567),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("9" * 5_000, None),
        ("-1", None),
        ("1e3", None),
        ("0x10", None),
        ("٣", None),
        ("１", None),
        ("1\n", None),
        ("", None),
        (",", None),
        ("1,5", None),
        ("1,234,", None),
        (",123", None),
    ],
)
def test_numbers(text: str, number: int | None) -> None:
    assert names.number(text) == number


def test_hashes_addresses_and_names() -> None:
    assert names.hash32("0X" + "AB" * 32) == "0x" + "ab" * 32
    assert names.hash32("ab" * 32) == "0x" + "ab" * 32
    assert names.hash32("0x" + "ab" * 31) is None
    assert names.hash32("0x" + "ab" * 32 + "\n") is None
    address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    assert names.address(address.lower()) == address
    assert names.address(address[2:].upper()) == address
    assert names.address("0x" + "zz" * 20) is None
    assert names.project("Payments") == "payments"
    assert names.project("0x" + "AB" * 32) == "0x" + "ab" * 32
    assert names.project("../etc") is None
    assert names.project("<script>") is None


@given(st.text(max_size=90))
def test_whatever_is_typed_is_read_or_not(text: str) -> None:
    for read in (names.number, names.hash32, names.address, names.project):
        read(text)


def test_a_memo_forgets_in_time_and_in_number() -> None:
    now = [0.0]
    memo = Memo(lambda: now[0])
    calls: list[int] = []

    def fetch() -> int:
        calls.append(1)
        return len(calls)

    assert [memo.get("a", 5, fetch), memo.get("a", 5, fetch)] == [1, 1]
    now[0] = 5.0
    assert memo.get("a", 5, fetch) == 2
    for other in range(MOST):
        memo.get(other, 5, lambda: 0)
    assert memo.get("a", 5, fetch) == 3


def test_a_memo_does_not_remember_a_failure() -> None:
    memo = Memo()

    def fails() -> int:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        memo.get("a", 5, fails)
    assert memo.get("a", 5, lambda: 1) == 1


def test_a_pace_widens_narrows_and_forgives() -> None:
    now = [0.0]
    pace = Pace(2_000, lambda: now[0])
    pace.went_well(2_000, 0.01, 3)
    assert pace.width == 4_000
    pace.went_well(4_000, 2.0, 3)
    assert pace.width == 4_000, "a slow answer widens nothing"
    pace.went_well(4_000, 0.01, 5_000)
    assert pace.width == 2_000, "many logs narrow"
    pace.was_refused(2_000)
    assert pace.width == 250
    for _ in range(10):
        pace.went_well(pace.width, 0.01, 0)
    assert pace.width == 1_000, "never near what was refused"
    now[0] = 301.0
    for _ in range(10):
        pace.went_well(pace.width, 0.01, 0)
    assert pace.width == WIDEST
    for _ in range(20):
        pace.was_refused(pace.width)
    assert pace.width == 1
