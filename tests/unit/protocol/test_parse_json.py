"""What protocol §1 accepts as JSON, and that hostile bodies cost no more than their size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chainmemory.errors import Invalid, InvalidJson
from chainmemory.protocol.canonical import canonical, canonical_user, parse_json

MEBIBYTE = 2**20
BIGGEST = 2**53 - 1


@pytest.mark.parametrize(
    "text",
    [
        "1",
        " [1, 2.5, -0, 1e3, true, null]\r\n",
        '{"a": {"b": []}, "": ""}',
        str(BIGGEST),
        str(-BIGGEST),
        "9007199254740993.0",
        "1e300",
        "1E+0000000001",
        "5e-400",
        "123456789012345678e-400",
        '"\\ud83d\\ude00 \\u0000 \\\\ud800"',
        '"\U0010ffff é e\u0301"',
        '"12345678901234567890"',
        "[" * 64 + "]" * 64,
        "[" * 64 + "1" + "]" * 64,
        '["' + "[{" * 100 + '\\"' + "[" * 100 + '"]',
        "[" + "[]," * 100 + "[]]",
    ],
)
def test_accepted(text: str) -> None:
    assert parse_json(text) == parse_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nul",
        "'a'",
        "[1,]",
        "{,}",
        '{"a"}',
        "{1:2}",
        "1 2",
        "01",
        "+1",
        "1.",
        ".5",
        "0x10",
        "NaN",
        "[Infinity]",
        '{"a": -Infinity}',
        "1e400",
        "-1e0000400",
        "1" + "0" * 400 + ".0",
        "[1" + "0" * 307 + "e5]",
        '{"a":1,"a":1}',
        '[{"x":{"\\u0061":1,"a":2}}]',
        '"\\ud800"',
        '{"\\udc00": 1}',
        '["\\ude00\\ud83d"]',
        '"tab\there"',
        '"\\x41"',
        '"open',
        "/* */ 1",
        "\ufeff1",
        "\u00a01",
        "\x0c1",
        "[" * 65 + "]" * 65,
        '{"a":' * 65 + "1" + "}" * 65,
        "[" * 3000,
        "]" * 70 + "[" * 70,
    ],
)
def test_refused(text: str) -> None:
    for data in (text, text.encode()):
        with pytest.raises(InvalidJson) as caught:
            parse_json(data)
        assert caught.value.code == "invalid_json"


@pytest.mark.parametrize(
    "data", [b"\xff", b'"\xc0\x80"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", "1".encode("utf-16"), b'"\xe2\x82"']
)
def test_refused_bytes(data: bytes) -> None:
    with pytest.raises(InvalidJson):
        parse_json(data)


def test_text_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidJson):
        parse_json('"\ud800"')


@pytest.mark.parametrize("literal", [str(BIGGEST + 1), str(-BIGGEST - 1), "1" + "0" * 5000, "-" + "9" * 17])
def test_an_integer_literal_out_of_range_is_an_invalid_value(literal: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_json(f'{{"a": [{literal}]}}')
    assert caught.value.code == "invalid_value"


def test_no_json_at_all_comes_before_a_number_out_of_range() -> None:
    for text in (f"[{BIGGEST + 1}, NaN]", f"[{BIGGEST + 1}", f'[{BIGGEST + 1}, "\\ud800"]'):
        with pytest.raises(InvalidJson):
            parse_json(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("invalid_json", b"[" * (2 * MEBIBYTE)),
        ("invalid_json", b'{"a":' * (2 * MEBIBYTE // 5)),
        ("invalid_value", b"7" * (2 * MEBIBYTE)),
        ("invalid_json", b"7" * MEBIBYTE + b".0"),
        ("invalid_json", b"[" * 70 + b'"' + b'\\"' * MEBIBYTE),
        ("invalid_json", b"[" * 10 + b'"["' * (MEBIBYTE // 2)),
        ("invalid_value", b"[" + b"12345678901234567," * (2 * MEBIBYTE // 18) + b"1]"),
        ("invalid_json", b"[" + b"{}," * (MEBIBYTE // 3) + b"[]}"),
        ("invalid_json", b"\\" * (2 * MEBIBYTE)),
    ],
    ids=["deep", "deep-object", "integer", "float", "endless-string", "quotes", "integers", "wide", "junk"],
)
def test_a_hostile_body_is_answered(code: str, body: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        parse_json(body)
    assert caught.value.code == code


@pytest.mark.parametrize("write", [canonical, canonical_user])
@pytest.mark.parametrize("value", [BIGGEST + 1, -BIGGEST - 1, [2**70], "\ud800", {"\udc00": 1}, {1, 2}, b"x"])
def test_what_has_no_canonical_form_is_invalid(write: Any, value: Any) -> None:
    with pytest.raises(Invalid):
        write(value)


def test_canonical_form() -> None:
    value = {"b": [BIGGEST, -BIGGEST, True, None], "a": '\u0000\u001f\u007f"\\/\b\f\n\r\té€\U0001f600\u2028'}
    expected = (
        '{"a":"\\u0000\\u001f\u007f\\"\\\\/\\b\\f\\n\\r\\té€\U0001f600\u2028",'
        '"b":[9007199254740991,-9007199254740991,true,null]}'
    ).encode()
    assert canonical(value) == canonical_user(value) == expected


def test_users_json_sorts_by_utf16_and_writes_numbers_as_ecmascript() -> None:
    assert canonical_user({"\U0001f600": 1e21, "\uff21": 1.0, "a": -0.0}) == (
        '{"a":0,"\U0001f600":1e+21,"\uff21":1}'.encode()
    )
    for nan in (float("nan"), float("inf")):
        with pytest.raises(Invalid):
            canonical_user(nan)
